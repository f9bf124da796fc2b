"""Target setting, on a tiny budget, and the targets that are committed."""

import json
import math

import numpy as np
import pytest

from reset_cycles.mini_algoperf import targets
from reset_cycles.mini_algoperf.workloads import WORKLOADS, get_workload
from reset_cycles.mini_algoperf.workloads.base import read_targets


def test_search_points_lie_in_the_space_and_repeat():
  points = targets.search_points(64)
  assert points[:8] == targets.search_points(8)
  for name, (low, high) in targets.SEARCH_SPACE.items():
    values = [getattr(point, name) for point in points]
    assert low < min(values) < 1.3 * low
    assert 0.7 * high < max(values) < high


def test_the_best_point_is_the_lowest_or_the_highest():
  low, high, failed = targets.search_points(3)
  trials = [
    (high, {'validation': 0.5, 'test': 0.1}),
    (failed, {'validation': math.nan, 'test': math.nan}),
    (low, {'validation': 0.2, 'test': 0.9}),
  ]
  best = targets.best_point
  assert best(get_workload('digits'), trials) == low
  assert best(get_workload('molecules'), trials) == high
  with pytest.raises(ValueError, match='none of the 1 trials'):
    best(get_workload('digits'), trials[1:2])


def test_set_targets_writes_the_medians(tmp_path, monkeypatch):
  output = tmp_path / 'targets.json'
  output.write_text(json.dumps({'workloads': {'other': {'x': 1}}}))
  monkeypatch.setattr(WORKLOADS['digits'], 'targets_file', output)
  small = {'num_trials': 2, 'num_seeds': 3, 'num_steps': 4}
  search = targets.plan_search('digits', **small, data_dir='my data')
  entry = targets.set_targets(search, progress=False)
  written = json.loads(output.read_text())['workloads']
  assert written == {'digits': entry, 'other': {'x': 1}}
  assert [path.name for path in tmp_path.iterdir()] == ['targets.json']
  for split in ('validation', 'test'):
    _, middle, _ = sorted(run[split] for run in entry['seeds'])
    assert entry[f'{split}_target'] == middle
  assert [run['seed'] for run in entry['seeds']] == [1, 2, 3]
  assert entry['num_steps'] == 4
  assert entry['command'].endswith(" --workload=digits --data_dir='my data'")


def test_a_run_without_a_number_counts_as_the_worst():
  values = [0.5, math.nan, 0.25, math.nan, 0.125]
  assert targets.median(get_workload('digits'), values) == 0.5
  assert targets.median(get_workload('molecules'), values) == 0.125
  with pytest.raises(ValueError, match='half of the runs'):
    targets.median(get_workload('digits'), values[1:])


@pytest.mark.parametrize('name', sorted(read_targets()))
def test_committed_targets_belong_to_the_workload(name):
  entry, workload = read_targets()[name], get_workload(name)
  assert entry['metric'] == workload.target_metric_name
  assert entry['num_steps'] == int(0.75 * workload.step_hint)
  assert entry['batch_size'] == workload.default_batch_size
  for split in ('validation', 'test'):
    target = getattr(workload, f'{split}_target_value')
    assert target == pytest.approx(
      np.median([r[split] for r in entry['seeds']])
    )
