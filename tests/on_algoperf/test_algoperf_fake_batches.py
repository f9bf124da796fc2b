"""The benchmark's own end-to-end test, with fake batches and two resets inside.

One workload takes from seconds to a quarter of an hour:
`pytest -m algoperf -k "fake_batches and mnist"` chooses.
"""

from __future__ import annotations

import json

import pytest

import real_benchmark
from reset_cycles.schedule_params import SCHEDULE_PARAMS, ScheduleParams
from reset_cycles.training.events import read_events

# What the benchmark imports warns of itself.
pytestmark = [
  pytest.mark.algoperf,
  pytest.mark.filterwarnings('default'),
]

# Four steps: cycles of 2, 1 and 1.
SETTINGS = 'budget_factor=1.0, early_switching=False, reset_mode={mode!r}'
# With so few examples a word error rate may be 0, and tau with it.
MODES = {'librispeech_deepspeech': 'full', 'librispeech_conformer': 'full'}
RUNS = [
  ('mnist', 8, 1),
  ('mnist', 8, 8),
  ('ogbg', 4, 1),
  ('ogbg', 8, 8),
  ('cifar', 8, 1),
  ('cifar', 8, 8),
  ('criteo1tb_test', 4, 1),
  ('criteo1tb_test', 8, 8),
  ('fastmri', 2, 1),
  ('imagenet_resnet', 2, 1),
  ('imagenet_vit', 2, 1),
  ('librispeech_conformer', 2, 1),
  ('librispeech_deepspeech', 2, 1),
  ('wmt', 2, 1),
]


def run(tmp_path, workload, batch_size, num_devices, settings):
  """Runs the test; returns the folder of the trial."""
  trial = tmp_path / 'runs' / 'test' / f'{workload}_jax' / 'trial_1'
  trial.mkdir(parents=True)
  # Out of reach, so that there is something to reset.
  target = {'validation_target_value': 1.5} if workload not in MODES else {}
  if workload == 'criteo1tb_test':  # whose metric falls
    target = {'validation_target_value': 1e-3}
  status = real_benchmark.run(
    tmp_path,
    settings,
    [
      f'--workload={workload}',
      f'--global_batch_size={batch_size}',
      '--num_train_steps=4',
      '--tuning_search_space=None',
      '--experiment_name=test',
      f'--experiment_dir={tmp_path}/runs',
    ],
    num_devices=num_devices,
    properties={'step_hint': 4, **target},
    feed_evaluations=True,
    script='tests/reference_algorithm_tests.py',
  )
  assert status == 0, real_benchmark.log(tmp_path)
  return trial


# The same cycles, each with another optimizer and numbers of its own.
CHAIN = (
  "cycles=({}, {'optimizer': 'nesterov', 'learning_rate': 0.01}, "
  "{'optimizer': 'schedule_free_adamw', 'label_smoothing': 0.1}), "
)


@pytest.mark.parametrize('num_devices', [1, 8])
def test_fake_batches_with_other_optimizers(tmp_path, num_devices):
  test_fake_batches(tmp_path, 'mnist', 8, num_devices, CHAIN)
  log = (tmp_path / 'log.txt').read_text()
  assert 'Error' not in log
  trial = tmp_path / 'runs' / 'test' / 'mnist_jax' / 'trial_1'
  resets = [e for e in read_events(trial) if e['event'] == 'reset']
  notes = [reset['note'] for reset in resets]
  assert notes == ['nesterov begins', 'schedule_free_adamw begins']


@pytest.mark.parametrize(('workload', 'batch_size', 'num_devices'), RUNS)
def test_fake_batches(tmp_path, workload, batch_size, num_devices, chain=''):
  mode = MODES.get(workload, 'soft')
  settings = chain + SETTINGS.format(mode=mode)
  trial = run(tmp_path, workload, batch_size, num_devices, settings)
  events = read_events(trial)
  resets = [e for e in events if e['event'] == 'reset']
  assert [e['global_step'] for e in resets] == ['2', '3']
  for reset in resets:
    tau = float(reset['tau'])
    assert tau == 1 if mode == 'full' else 0 < tau <= 1
  # There init_model_fn hands the parameters back as batch statistics.
  confused = workload == 'cifar' and real_benchmark.is_current()
  said = (tmp_path / 'log.txt').read_text().count('other batch statistics')
  assert said == confused


@pytest.mark.parametrize(
  ('workload', 'batch_size'),
  [
    *[('mnist', 8), ('ogbg', 4), ('cifar', 8), ('fastmri', 2)],
    ('imagenet_resnet', 2),
  ],
)
def test_what_is_handed_in(tmp_path, workload, batch_size):
  """With the settings in force, whatever they are: from the exported folder."""
  trial = run(tmp_path, workload, batch_size, 1, None)
  settings = json.loads((trial / 'schedule_params.json').read_text())
  found = ScheduleParams.from_dict(settings['schedule_params'])
  assert found == SCHEDULE_PARAMS
  events = read_events(trial)
  assert events[0]['event'] == 'cycle_start'
  seen = [e['metric_step'] for e in events if e['event'] == 'evaluation']
  assert seen == ['1', '2', '3']
