"""Figures of policies: by hand, and those of the shipped runs."""

from __future__ import annotations

import pytest

from recorded import FALLING, make_run
from reset_cycles.studies.real_runs import reading
from reset_cycles.studies.replay import table
from reset_cycles.studies.replay.policies import BUILT_IN

TIMES = [10, 20, 40]


def four(first, **changes):
  """A trial with this metric and three that fail."""
  metrics = [first, *3 * [[0.1, 0.1, 0.1]]]
  return [
    make_run(TIMES, metric, trial=i, **changes)
    for i, metric in enumerate(metrics, start=1)
  ]


RUNS = [
  *four([0.5, 1.0, 1.0]),
  *four([0.1, 0.1, 1.0], submission='b'),
  *four([9.0, 8.0, 7.0], submission='b', workload=FALLING),
]
# A metric of .1 is past the target where it falls.


def test_figures_by_hand():
  [never, oracle] = table.judge(RUNS, ['never', 'oracle'])
  # a on up: 20, then 60, 100 and 140 for the rotations. b on up: 40, 80, 120
  # and 160. b on down: 40 + 10, then 10 three times.
  [row] = table.figures(never, [1.0])
  assert row[:4] == ('never', '', 1.0, 12)
  assert row.reached == pytest.approx(9 / 12)
  times = [0.2, 1, 1.0, 0.6, 0.4, 1, 1, 0.8, 0.5, 0.1, 0.1, 0.1]
  assert row.time == pytest.approx(sum(times) / 12)
  assert (row.false_alarms, row.reaching) == (0, 5)
  [row] = table.figures(oracle, [1.0])
  # 10 for each trial that is left at once.
  times = [0.2, 0.5, 0.4, 0.3, 0.4, 0.7, 0.6, 0.5, 0.2, 0.1, 0.1, 0.1]
  assert row.time == pytest.approx(sum(times) / 12)
  assert row.reached == 1.0


def test_figures_of_parts():
  [floor] = table.judge(RUNS, ['floor'])
  by = table.figures(floor, [1.0, 2.0], 'submission')
  assert [(row.part, row.budget, row.cases) for row in by] == [
    ('a', 1.0, 4),
    ('a', 2.0, 4),
    ('b', 1.0, 8),
    ('b', 2.0, 8),
  ]
  # The trial of b on up is left at its second evaluation.
  assert [(row.false_alarms, row.reaching) for row in by[::2]] == [
    (0, 1),
    (1, 4),
  ]
  by = table.figures(floor, [1.0], 'workload')
  assert [(row.part, row.cases) for row in by] == [('down', 4), ('up', 8)]


def test_as_text_and_as_objects():
  [never] = table.judge(RUNS, ['never'])
  rows = table.figures(never, [1.0, 1.5], 'submission')
  assert table.text_lines(rows, 'submission') == [
    '  policy  submission  cases  reached, 1×  time   reached, 1.5×  time   '
    'false alarms',
    '  never   a           4      0.750        0.700  1.000          0.533  '
    '0 of 1',
    '  never   b           8      0.750        0.500  0.875          0.392  '
    '0 of 4',
  ]
  assert table.as_objects(rows, 'submission')[0] == {
    'policy': 'never',
    'submission': 'a',
    'budget': 1.0,
    'cases': 4,
    'reached': 0.75,
    'time': pytest.approx(0.7),
    'false_alarms': 0,
  }


def test_the_figures_of_the_shipped_runs():
  runs = reading.read_runs()
  rows = [
    row
    for policy_runs in table.judge(runs, BUILT_IN)
    for row in table.figures(policy_runs, table.BUDGETS)
  ]
  assert {(row.cases, row.reaching) for row in rows} == {(2530, 1326)}
  assert [
    (r.policy, r.budget, f'{r.reached:.4f}', f'{r.time:.4f}', r.false_alarms)
    for r in rows
  ] == [
    ('never', 1.5, '0.5870', '0.6552', 0),
    ('never', 3.0, '0.8047', '0.4690', 0),
    ('thesis', 1.5, '0.5676', '0.6744', 299),
    ('thesis', 3.0, '0.7206', '0.5081', 299),
    ('floor', 1.5, '0.6241', '0.6426', 31),
    ('floor', 3.0, '0.8253', '0.4484', 31),
    ('progress', 1.5, '0.6352', '0.6343', 5),
    ('progress', 3.0, '0.8312', '0.4377', 5),
    # Within .01 of what the README says of it: probes end at the evaluation that
    # is expected to be the nearest to their share.
    ('race', 1.5, '0.7178', '0.6842', None),
    ('race', 3.0, '0.8344', '0.4464', None),
    ('oracle', 1.5, '0.8818', '0.4771', 0),
    ('oracle', 3.0, '0.8818', '0.2977', 0),
  ]
