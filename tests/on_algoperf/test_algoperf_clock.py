"""A run of submission_runner.py that is laid over its time budget.

It takes a minute. Steps per second are the machine's own.
"""

from __future__ import annotations

import csv

import pytest

import real_benchmark
from reset_cycles.cli import main as cli
from reset_cycles.training.events import read_events

pytestmark = [
  pytest.mark.algoperf,
  pytest.mark.filterwarnings('default'),
]

BUDGET = 45.0  # seconds; the ruleset's factor is in it
PERIOD = 1
SETTINGS = "budget_factor=1.0, early_switching=False, horizon='time'"


def test_the_last_cycle_is_annealed_and_evaluated_in_time(tmp_path):
  """With a step hint that is far too high: each cycle has a third of the time."""
  pytest.importorskip('tensorflow_datasets')
  real_benchmark.package_and_root()
  data = tmp_path / 'data'
  assert cli.main(['smoke-data', '--workload=mnist', f'--out={data}']) == 0
  factor = 1.5 if real_benchmark.is_current() else 3.0
  status = real_benchmark.run(
    tmp_path,
    SETTINGS,
    [
      '--workload=mnist',
      '--tuning_ruleset=self',
      f'--data_dir={data}',
      f'--experiment_dir={tmp_path}/runs',
      '--experiment_name=run',
      '--rng_seed=3',
      # Those of the current benchmark may take longer than the period.
      '--save_checkpoints=False',
    ],
    properties={
      'step_hint': 200_000,
      'max_allowed_runtime_sec': BUDGET / factor,
      'eval_period_time_sec': PERIOD,
      'validation_target_value': 1.5,  # out of reach
      'test_target_value': 1.5,
      'eval_batch_size': 1000,
      'num_train_examples': 59_000,
      'num_eval_train_examples': 1000,
      'num_validation_examples': 1000,
      'num_test_examples': 1000,
    },
  )
  assert status == 0, real_benchmark.log(tmp_path)
  trial = tmp_path / 'runs' / 'run' / 'mnist_jax' / 'trial_1'
  events = read_events(trial)
  starts = [
    int(e['global_step']) for e in events if e['event'] == 'cycle_start'
  ]
  (end,) = [int(e['global_step']) for e in events if e['event'] == 'finish']
  # Cycles share the steps as they were expected; a busy machine is uneven.
  assert len(starts) == 3
  assert starts[1] < end / 2
  with (trial / 'eval_measurements.csv').open(newline='') as lines:
    last = list(csv.DictReader(lines))[-1]
  # The step at which the run ends itself changes nothing.
  assert int(float(last['global_step'])) == end + 1
  seconds = float(last['accumulated_submission_time'])
  assert BUDGET - 5 * PERIOD < seconds < BUDGET
