"""The benchmark's own end-to-end test with fake batches: what is handed in.

A run takes from half a minute to minutes:
`pytest -m algoperf -k "fake_batches and mnist"` chooses.
"""

from __future__ import annotations

import json
import pathlib

import pytest

import real_benchmark
from reset_cycles.core.records import as_plain, read_events
from reset_cycles.schedule_params import SOFT_RESET, THESIS

pytestmark = real_benchmark.MARKS

WORKLOADS = [('mnist', 8, 1), ('mnist', 8, 8), ('ogbg', 4, 1), ('ogbg', 8, 8)]


def run(
  folder: pathlib.Path,
  settings: str,
  workload: str,
  batch_size: int,
  num_devices: int,
  step_hint: int,
) -> tuple[list[dict[str, str]], object]:
  """Takes 4 steps; returns the events of the run and the settings it wrote."""
  trial = folder / 'runs' / 'test' / f'{workload}_jax' / 'trial_1'
  trial.mkdir(parents=True)
  status = real_benchmark.run(
    folder,
    settings,
    [
      f'--workload={workload}',
      f'--global_batch_size={batch_size}',
      '--num_train_steps=4',
      '--tuning_search_space=None',
      '--experiment_name=test',
      f'--experiment_dir={folder}/runs',
    ],
    num_devices=num_devices,
    # Out of reach, so that there is something to reset.
    properties={'step_hint': step_hint, 'validation_target_value': 1.5},
    feed_evaluations=True,
    script='tests/reference_algorithm_tests.py',
  )
  assert status == 0, real_benchmark.log(folder)
  written = json.loads((trial / 'schedule_params.json').read_text())
  return read_events(trial / 'cycles.csv'), written['schedule_params']


@pytest.mark.parametrize(('workload', 'batch_size', 'num_devices'), WORKLOADS)
def test_the_thesis(tmp_path, workload, batch_size, num_devices):
  """Cycles of 2, 1 and 1 steps: three make up 4 = 2.0 * 2."""
  events, settings = run(
    tmp_path, 'thesis', workload, batch_size, num_devices, step_hint=2
  )
  assert settings == json.loads(json.dumps(as_plain(THESIS)))
  resets = [e for e in events if e['event'] == 'reset']
  assert [e['global_step'] for e in resets] == ['2', '3']
  assert [e['mode'] for e in resets] == ['SoftReset'] * 2
  assert all(0 < float(e['tau']) <= 1 for e in resets)


@pytest.mark.parametrize(('workload', 'batch_size', 'num_devices'), WORKLOADS)
def test_what_is_in_force(tmp_path, workload, batch_size, num_devices):
  """Every evaluation is taken in; what follows depends on the settings."""
  events, settings = run(
    tmp_path, 'soft_reset', workload, batch_size, num_devices, step_hint=40
  )
  assert settings == json.loads(json.dumps(as_plain(SOFT_RESET)))
  assert events[0]['event'] == 'cycle_start'
  seen = [e['metric_step'] for e in events if e['event'] == 'evaluation']
  assert seen == ['1', '2', '3']
