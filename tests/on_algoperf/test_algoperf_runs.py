"""submission_runner.py itself, on synthetic data: preemption, two trials.

It takes minutes. The data are those of `soft-reset smoke-data`.
"""

from __future__ import annotations

import json
import signal

import pytest

import real_benchmark
from reset_cycles.cli import main as cli
from reset_cycles.training.events import read_events

pytestmark = [
  pytest.mark.algoperf,
  pytest.mark.filterwarnings('default'),
]

# Three cycles of 10 steps.
SHORT = 'budget_factor=1.0, early_switching=False'
PROPERTIES = {
  'step_hint': 30,
  'validation_target_value': 1.5,  # out of reach, so that there is a tau
  'test_target_value': 1.5,
  'eval_batch_size': 1000,
  'num_train_examples': 59_000,
  'num_eval_train_examples': 1000,
  'num_validation_examples': 1000,
  'num_test_examples': 1000,
}


@pytest.fixture(scope='module')
def mnist(tmp_path_factory):
  """A folder of data that serves both generations."""
  pytest.importorskip('tensorflow_datasets')
  real_benchmark.package_and_root()
  folder = tmp_path_factory.mktemp('mnist')
  flags = ['--workload=mnist', f'--out={folder}/data']
  assert cli.main(['smoke-data', *flags]) == 0
  return folder / 'data'


def train(folder, data_dir, *flags, settings=SHORT, name='run', **changes):
  """Runs the benchmark; returns (exit status, folder of the first trial)."""
  status = real_benchmark.run(
    folder,
    settings,
    [
      '--workload=mnist',
      f'--data_dir={data_dir}',
      f'--experiment_dir={folder}/runs',
      f'--experiment_name={name}',
      '--rng_seed=3',
      *flags,
    ],
    **{'properties': PROPERTIES, 'eval_every': 5, **changes},
  )
  return status, folder / 'runs' / name / 'mnist_jax' / 'trial_1'


# Loss and accuracy after so many steps. The runner does not restore the order of
# its data, so that those of the model differ after a preemption. The first cycle
# ends as planned, at 15; the second is left when its loss has risen, at 25.
SCRIPT = {
  1: (2.0, 0.1),
  5: (1.5, 0.4),
  10: (1.3, 0.5),
  15: (1.2, 0.6),
  20: (1.0, 0.75),
  25: (1.5, 0.7),
  30: (0.9, 0.9),
  35: (0.8, 0.9),
  40: (0.75, 0.95),
  45: (0.7, 0.95),
}


def test_killed_and_resumed(tmp_path, mnist):
  """cycles.csv of an uninterrupted run: boundaries, tau, switches and rates.

  Averaged weights are evaluated once a cycle has two snapshots, 4 steps apart.
  Those of the second cycle are taken after the checkpoint.
  """
  scripted = {
    step: {'validation/loss': loss, 'validation/accuracy': accuracy}
    for step, (loss, accuracy) in SCRIPT.items()
  }
  settings = (
    "budget_factor=1.0, switching={'name': 'thesis', 'lam': 0.5}, "
    "averaging={'name': 'lawa', 'k': 2, 'distance': 0.1}"
  )
  properties = {**PROPERTIES, 'step_hint': 45}
  common = {
    'scripted': scripted,
    'settings': settings,
    'properties': properties,
  }
  flag = '--tuning_ruleset=self'
  status, whole = train(tmp_path, mnist, flag, name='whole', **common)
  assert status == 0, real_benchmark.log(tmp_path)
  status, killed = train(tmp_path, mnist, flag, kill_at=18, **common)
  assert status == -signal.SIGKILL, real_benchmark.log(tmp_path)
  # The restore of the current benchmark fails on what it has itself lost.
  status, _ = train(
    tmp_path,
    mnist,
    flag,
    '--resume_last_run',
    forget_nothing=real_benchmark.is_current(),
    **common,
  )
  assert status == 0, real_benchmark.log(tmp_path)
  events = read_events(whole)
  assert [
    (e['global_step'], e['event'], e['reason'])
    for e in events
    if e['event'] in ('switch', 'reset')
  ] == [
    ('15', 'reset', 'scheduled'),
    ('25', 'switch', 'loss rises'),
    ('25', 'reset', 'early'),
  ]
  seen = [(e['metric_step'], e['weights'][:3]) for e in events if e['weights']]
  assert seen == [
    *[('1', 'raw'), ('5', 'raw'), ('10', 'ave'), ('15', 'ave'), ('20', 'raw')],
    *[('25', 'ave'), ('30', 'raw'), ('35', 'ave'), ('40', 'ave')],
    ('45', 'ave'),
  ]
  taus = [float(e['tau']) for e in events if e['event'] == 'reset']
  assert taus == pytest.approx([1 - 0.6 / 1.5, 1 - 0.7 / 1.5])
  assert read_events(killed) == events


def test_two_trials_do_not_influence_each_other(tmp_path, mnist):
  """The second of two is the same as that one alone, to the last digit."""
  points = [
    {'reset_mode': 'full', 'learning_rate': 1e-2, 'alpha': 1.0},
    {'reset_mode': 'soft', 'learning_rate': 1e-3, 'alpha': 0.25},
  ]
  trials = {}
  for name, chosen in (('both', points), ('alone', points[1:])):
    space = tmp_path / f'{name}.json'
    space.write_text(json.dumps(chosen))
    status, trials[name] = train(
      tmp_path,
      mnist,
      '--tuning_ruleset=external',
      f'--tuning_search_space={space}',
      f'--num_tuning_trials={len(chosen)}',
      name=name,
    )
    assert status == 0, real_benchmark.log(tmp_path)
  first = read_events(trials['both'])
  second = read_events(trials['both'].with_name('trial_2'))
  assert {e['mode'] for e in first if e['event'] == 'reset'} == {'full'}
  assert {e['alpha'] for e in second if e['event'] == 'reset'} == {'0.25'}
  assert second == read_events(trials['alone'])
