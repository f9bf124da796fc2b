"""Rivals on the real runner: the benchmark's own test with fake batches."""

from __future__ import annotations

import pytest

import real_benchmark
from reset_cycles.studies.board import entries

# What the benchmark imports warns of itself.
pytestmark = [
  pytest.mark.algoperf,
  pytest.mark.filterwarnings('default'),
]
NAMES = [
  name for name in entries.known_paths() if name not in ('submission', 'thesis')
]


@pytest.mark.parametrize('workload', ['mnist', 'ogbg'])
@pytest.mark.parametrize('name', NAMES)
def test_fake_batches(tmp_path, name, workload):
  """Four steps; of the sequence, the second phase's first among them."""
  status = real_benchmark.run(
    tmp_path,
    '',
    [
      f'--workload={workload}',
      '--global_batch_size=8',
      '--num_train_steps=4',
      '--tuning_search_space=None',
      '--experiment_name=test',
      f'--experiment_dir={tmp_path}/runs',
    ],
    rival=name,
    properties={'step_hint': 4},
    script='tests/reference_algorithm_tests.py',
  )
  assert status == 0, real_benchmark.log(tmp_path)
