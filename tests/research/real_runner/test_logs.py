"""The log of evaluations, and the table of steps to the target."""

import math

import pytest

from reset_cycles.research.real_runner import logs

RUNS = {
  logs.RunKey('a', 'counted', 'x', 1, 0.5): [
    logs.Point(1, 0.5, 2.25, 0.25, 0.125),
    logs.Point(9, 4.5, 1.0, 0.75, 0.5),
    logs.Point(
      17, 8.5, 0.5, 0.5000042, 0.625
    ),  # every digit of the metric counts
  ],
  logs.RunKey('a', 'counted', 'x', 2, 0.5): [
    logs.Point(1, 0.5, 2.0, 0.75, 1.0)
  ],
  logs.RunKey('a', 'counted', 'x', 3, 0.5): [logs.Point(1, 0.5, 2.0, 0.5, 1.0)],
  logs.RunKey('a', 'counted', 'y', 1, 0.5): [
    logs.Point(1, 0.5, 2.0, 0.75, 1.0)
  ],
  logs.RunKey('b', 'counted', 'y', 1, 0.5): [logs.Point(1, 0.5, 2.0, 0.5, 1.0)],
  logs.RunKey('a', 'counted', 'y', 2, 0.9): [logs.Point(1, 0.5, 2.0, 0.5, 1.0)],
  logs.RunKey('a', 'real', 'y', 1, 0.5): [logs.Point(1, 0.5, 2.0, 0.5, 1.0)],
}


TABLE = [
  '| entry | a, 0.5 | b, 0.5 |',
  '| --- | --- | --- |',
  '| y | **1**, 1 of 1 | **never**, 0 of 1 |',
  '| x | **9** 1–never, 2 of 3 |  |',
]


def test_runs_are_read_as_they_were_written(tmp_path):
  file = tmp_path / 'evaluations.csv'
  assert logs.read(file) == {}
  for each, points in RUNS.items():
    logs.append(file, each, points)
  assert logs.read(file) == RUNS
  header = 'data,clock,entry,seed,target,step,seconds,loss,metric,test'
  assert file.read_text().splitlines()[:2] == [
    header,
    'a,counted,x,1,0.5,1,0.5,2.25,0.25,0.125',
  ]
  file.write_text(file.read_text() + 'a,real,y,3,0.5,1,0.5,2')  # torn
  logs.append(file, last := logs.RunKey('a', 'real', 'y', 4, 0.5), points)
  assert logs.read(file) == {**RUNS, last: points}


def test_a_target_is_passed_not_met():
  points = RUNS[logs.RunKey('a', 'counted', 'x', 1, 0.5)]
  assert logs.steps_to(points, 0.2) == 1
  assert logs.steps_to(points, 0.25) == 9
  assert logs.steps_to(points, 0.75) == math.inf
  assert logs.steps_to(points, 0.25, lower=True) == math.inf
  assert logs.steps_to(points, 0.26, lower=True) == 1


def test_the_table_has_medians_least_and_most():
  """Of the runs with its target."""
  assert logs.table(RUNS, 'counted', {'a': 0.5, 'b': 0.5, 'c': 0.5}) == TABLE


def test_only_what_is_between_the_marks_is_written():
  text = f'before\n{logs.MARKS[0]}old\n{logs.MARKS[1]}after\n'
  new = logs.written(text, ['new'])
  assert new == f'before\n{logs.MARKS[0]}\nnew\n\n{logs.MARKS[1]}after\n'
  assert logs.written(new, ['new']) == new
  with pytest.raises(ValueError, match='lacks the marks'):
    logs.written('before', ['new'])
