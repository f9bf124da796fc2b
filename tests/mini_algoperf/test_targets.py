"""Target setting, on a tiny budget, and the targets that are committed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tqdm import tqdm

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
  with pytest.raises(ValueError, match='num_trials: none of the 1'):
    best(get_workload('digits'), trials[1:2])


def test_training_repeats_and_learns():
  train = targets.Trainer(get_workload('digits'), 20, None)
  point = targets.Point(1e-2, 0.1, 0.01)
  with tqdm(disable=True) as bar:
    first, again = (train(point, 0, bar) for _ in range(2))
    slow = train(point._replace(learning_rate=1e-6), 0, bar)
  assert first == again
  assert first['validation'] < 0.7 < 0.8 < slow['validation']


def test_set_targets_writes_the_medians(tmp_path):
  output = tmp_path / 'targets.json'
  output.write_text(json.dumps({'workloads': {'other': {'x': 1}}}))
  search = targets.plan_search(
    'digits', num_trials=2, num_seeds=3, num_steps=4, output=output
  )
  entry = targets.set_targets(search, progress=False)
  written = json.loads(output.read_text())['workloads']
  assert written == {'digits': entry, 'other': {'x': 1}}
  assert [path.name for path in tmp_path.iterdir()] == ['targets.json']
  for split in ('validation', 'test'):
    low, median, high = sorted(run[split] for run in entry['seeds'])
    assert entry[f'{split}_target'] == median
    spread = entry[f'{split}_spread']
    assert (spread['min'], spread['max']) == (low, high)
  assert [run['seed'] for run in entry['seeds']] == [1, 2, 3]
  assert len(entry['trials']) == 2
  assert entry['num_steps'] == 4
  assert entry['command'] == (
    'soft-reset set-targets --workload=digits --num_trials=2 --num_seeds=3 '
    '--num_steps=4'
  )


def test_a_run_without_a_number_counts_as_the_worst():
  values = [0.5, math.nan, 0.25, math.nan, 0.125]
  for name, ordered in (
    ('digits', [0.125, 0.25, 0.5, None, None]),
    ('molecules', [None, None, 0.125, 0.25, 0.5]),
  ):
    assert [*targets.spread(get_workload(name), values).values()] == ordered


@pytest.mark.parametrize(
  ('given', 'said'),
  [
    ({'num_steps': 1}, 'num_steps: 1 is too small'),
    # A reduced search does not set the committed targets.
    ({'num_trials': 19}, '--output is missing: only 20 trials'),
    ({'num_seeds': 19}, '--output is missing: only 20 trials'),
    ({'num_steps': 4}, '--output is missing: only 20 trials'),
    ({'output': 'no/t.json'}, '--output=.*: there is no folder'),
    ({'output': 'empty.json'}, '--output=.*: is not a file of targets'),
    ({'output': 'list.json'}, '--output=.*: is not a file of targets'),
  ],
)
def test_what_is_refused_before_training(given, said, tmp_path):
  (tmp_path / 'empty.json').write_text('{}')
  (tmp_path / 'list.json').write_text('[1]')
  if 'output' in given:
    given = {'output': tmp_path / given['output']}
  with pytest.raises(ValueError, match=said):
    targets.plan_search('digits', **given)


@pytest.mark.parametrize('name', sorted(WORKLOADS))
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
