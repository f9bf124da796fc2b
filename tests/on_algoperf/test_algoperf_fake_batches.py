"""The benchmark's own end-to-end test with fake batches: what is handed in.

A run takes from half a minute to minutes:
`pytest -m algoperf -k "fake_batches and mnist"` chooses.
"""

from __future__ import annotations

import json

import pytest

import real_benchmark
from reset_cycles.core.records import as_plain, read_events
from reset_cycles.schedule_params import SOFT_RESET, THESIS

pytestmark = real_benchmark.MARKS

WORKLOADS = [('mnist', 8, 1), ('mnist', 8, 8), ('ogbg', 4, 1), ('ogbg', 8, 8)]


@pytest.mark.parametrize(('workload', 'batch_size', 'num_devices'), WORKLOADS)
@pytest.mark.parametrize(
  ('name', 'settings', 'step_hint'),
  [('thesis', THESIS, 2), ('soft_reset', SOFT_RESET, 40)],
)
def test_four_steps(
  tmp_path, name, settings, step_hint, workload, batch_size, num_devices
):
  trial = tmp_path / 'runs' / 'test' / f'{workload}_jax' / 'trial_1'
  trial.mkdir(parents=True)
  status = real_benchmark.run(
    tmp_path,
    name,
    [
      f'--workload={workload}',
      f'--global_batch_size={batch_size}',
      '--num_train_steps=4',
      '--tuning_search_space=None',
      '--experiment_name=test',
      f'--experiment_dir={tmp_path}/runs',
    ],
    num_devices=num_devices,
    # Out of reach, so that there is something to reset.
    properties={'step_hint': step_hint, 'validation_target_value': 1.5},
    feed_evaluations=True,
    script='tests/reference_algorithm_tests.py',
  )
  assert status == 0, real_benchmark.log(tmp_path)
  written = json.loads((trial / 'schedule_params.json').read_text())
  assert written['schedule_params'] == json.loads(
    json.dumps(as_plain(settings))
  )
  events = read_events(trial / 'cycles.csv')
  assert events[0]['event'] == 'cycle_start'
  resets = [e for e in events if e['event'] == 'reset']
  if name == 'thesis':  # cycles of 2, 1 and 1 steps: three make up 4 = 2.0 * 2
    assert [e['global_step'] for e in resets] == ['2', '3']
    assert [e['mode'] for e in resets] == ['SoftReset'] * 2
    assert all(0 < float(e['tau']) <= 1 for e in resets)
  else:  # every evaluation is taken in; what follows depends on the settings
    seen = [e['metric_step'] for e in events if e['event'] == 'evaluation']
    assert seen == ['1', '2', '3']
