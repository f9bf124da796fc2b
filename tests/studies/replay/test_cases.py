"""Trials one after the other, by hand."""

from __future__ import annotations

import math

import pytest

from recorded import FALLING, RISING, make_run
from reset_cycles.studies.replay import cases
from reset_cycles.studies.replay.cases import Judged

TIMES = [10, 20, 40]
REACHES = make_run(TIMES, [0.5, 1.0, 0.9])
FAILS = make_run(TIMES, [0.1, 0.1, 0.1])


@pytest.mark.parametrize(
  'run, left, reaches, seconds, is_false_alarm',
  [
    (REACHES, 3, True, 20, False),  # never left
    (REACHES, 1, True, 20, False),  # reached where it would be left
    (REACHES, 0, False, 10, True),
    (FAILS, 3, False, 40, False),  # at its end
    (FAILS, 1, False, 20, False),
  ],
)
def test_what_a_run_costs(run, left, reaches, seconds, is_false_alarm):
  one = Judged(run, left)
  assert (one.reaches, one.seconds) == (reaches, seconds)
  assert one.is_false_alarm == is_false_alarm


def group_of(*trials):
  """Judged trials (run, left) as one group."""
  judged = [
    Judged(run._replace(trial=f'trial_{i}'), left)
    for i, (run, left) in enumerate(trials, start=1)
  ]
  [group] = cases.groups(judged)
  return group


def test_every_rotation_is_a_case():
  # Costs 40, 20 and reaches, 10, 20.
  group = group_of((FAILS, 3), (REACHES, 3), (FAILS, 0), (FAILS, 1))
  assert group == (100.0, (40, 20, 10, 20), (False, True, False, False))
  assert cases.cases(group, 1.0) == [
    (True, 0.6),
    (True, 0.2),
    (True, 0.9),  # 10 + 20 + 40 + 20
    (True, 0.8),
  ]
  # The budget itself is enough.
  assert cases.cases(group, 0.8) == [
    (True, 0.75),
    (True, 0.25),
    (False, 1.0),
    (True, 1.0),
  ]


def test_a_group_that_never_reaches():
  group = group_of(*4 * [(FAILS, 3)])
  assert cases.cases(group, 100.0) == 4 * [(False, 1.0)]


def test_groups_are_trials_of_one_submission_study_and_workload():
  runs = [
    make_run(TIMES, [trial, 0, 0], trial=trial, **changes)
    for changes in (
      {},
      {'submission': 'b'},
      {'study': 'study_1'},
      {'workload': FALLING},
    )
    for trial in (10, 2, 1, 3)
  ]
  found = cases.groups([Judged(run, 0) for run in runs])
  assert len(found) == 4
  three = cases.groups([Judged(run, 0) for run in runs[:3]])
  assert three == []
  # trial_10 comes after trial_3, and none has seconds that are not finite.
  seconds = [
    make_run([trial, 90, 91], 3 * [0], trial=trial) for trial in (10, 2, 1, 3)
  ]
  broken = make_run([1, math.nan, 9], 3 * [0], trial=4)
  [group] = cases.groups([Judged(run, 0) for run in [*seconds, broken]])
  assert group.seconds == (1, 2, 3, 10)


def test_which_runs_are_comparable():
  good = [make_run(TIMES, 3 * [0], trial=i) for i in range(4)]
  others = [
    make_run([1, 2], 2 * [0]),
    make_run(TIMES, 3 * [0], board='a100'),
    make_run(TIMES, 3 * [0], ruleset='self'),
  ]
  kept = cases.comparable([*others, *good])
  assert [run.trial for run in kept] == [run.trial for run in good]
  with pytest.raises(ValueError, match='there is nothing to replay'):
    cases.comparable([*others, *good[:3]])


def test_the_names_of_workloads_do_not_matter():
  other = RISING._replace(name='criteo1tb')
  group = [
    make_run(TIMES, [0, 1, 1], trial=i, workload=other) for i in range(4)
  ]
  [found] = cases.groups([Judged(run, 3) for run in group])
  assert found.seconds == (20,) * 4
