"""The benchmark's own end-to-end test with fake batches: what is handed in.

It attaches no logger, so that nothing is written. A run takes from half a
minute to minutes:
`pytest -m algoperf -k "fake_batches and mnist"` chooses.
"""

import pytest

import real_benchmark

pytestmark = real_benchmark.MARKS

WORKLOADS = [
  ('mnist', 8, 1),
  ('mnist', 8, 8),
  ('ogbg', 4, 1),
  ('ogbg', 8, 8),
  ('wmt', 4, 1),  # of full size: more devices need more memory than 24 GiB
]


@pytest.mark.parametrize(('workload', 'batch_size', 'num_devices'), WORKLOADS)
@pytest.mark.parametrize(('name', 'step_hint'), [('thesis', 2), ('muon', 40)])
def test_four_steps(
  tmp_path, name, step_hint, workload, batch_size, num_devices
):
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
