"""Runs of settings, and runs of two points as one."""

from __future__ import annotations

import pytest

from recorded import FALLING, make_run
from reset_cycles.studies.chains import runs as runs_lib
from reset_cycles.studies.chains.settings import TrialPoint, read_setting

PLACE = ('up', 'study_0')


def joined(how, first, second, least=1):
  """The one run of a/1 and b/1 together; either may be None."""
  given = [('a', first), ('b', second)]
  points = {
    TrialPoint(name, 'trial_1'): {} if run is None else {PLACE: run}
    for name, run in given
  }
  setting = read_setting('x', f'a/1{how}b/1')
  return runs_lib.runs_of(setting, points, least).get(PLACE)


def evaluations(run):
  return list(zip(run.seconds.tolist(), run.metric.tolist()))


def test_only_runs_of_2024_count():
  runs = [
    make_run([1], [0], trial=2),
    make_run([1], [0], ruleset='self'),
    make_run([1], [0], ruleset='other'),
    make_run([1], [0], board='a100'),
  ]
  points = runs_lib.by_point(runs)
  assert points == {
    TrialPoint('a', 'trial_2'): {PLACE: runs[0]},
    TrialPoint('a', 'self'): {PLACE: runs[1]},
  }
  # A trial and the entry of the same submission are two settings.
  found = runs_lib.runs_of(read_setting('x', 'a/self'), points, 1)
  assert found == {PLACE: runs[1]}
  with pytest.raises(ValueError, match='a trial_2 has two runs on up in'):
    runs_lib.by_point(2 * runs)


def test_runs_that_are_too_short_are_missing():
  points = {TrialPoint('a', 'trial_1'): {PLACE: make_run([1, 2], [0, 0])}}
  setting = read_setting('x', 'a/1')
  assert list(runs_lib.runs_of(setting, points, 2)) == [PLACE]
  assert runs_lib.runs_of(setting, points, 3) == {}
  with pytest.raises(ValueError, match='there are no runs of b/1 on board v05'):
    runs_lib.runs_of(read_setting('x', 'b/1'), points)


FAR = make_run([20, 60], [0.1, 0.2])
REACHES = make_run([10, 20], [0.5, 1.0])
STOPPED = make_run([20, 49], [0.1, 0.2])


@pytest.mark.parametrize(
  ('run', 'expected'),
  [(FAR, False), (REACHES, False), (STOPPED, True), (None, True)],
)
def test_which_runs_have_stopped(run, expected):
  assert runs_lib.has_stopped(run) is expected


def test_the_second_run_where_the_first_has_stopped():
  assert joined(':', STOPPED, REACHES) is REACHES
  assert joined(':', None, REACHES) is REACHES
  assert joined(':', FAR, REACHES) is FAR
  assert joined(':', STOPPED, None) is STOPPED


def test_evaluations_in_turn_begin_with_raw_weights():
  averaged = make_run([10, 20, 30, 40], [0.11, 0.12, 0.13, 0.14])
  raw = make_run([11, 21, 31, 41], [0.21, 0.22, 0.23, 0.24])
  run = joined('+', averaged, raw)
  assert evaluations(run) == [(11, 0.21), (20, 0.12), (31, 0.23), (40, 0.14)]


def test_slots_of_a_run_that_has_stopped_are_lost():
  averaged = make_run([10, 20], [0.11, 0.12])
  raw = make_run([11, 21, 31, 41, 51], [0.21, 0.22, 0.23, 0.24, 0.25])
  run = joined('+', averaged, raw)
  assert evaluations(run) == [(11, 0.21), (20, 0.12), (31, 0.23), (51, 0.25)]
  alone = [(11, 0.21), (31, 0.23), (51, 0.25)]
  assert evaluations(joined('+', None, raw)) == alone
  assert joined('+', None, None) is None
  # Its only evaluation would have been in a slot of the other kind.
  assert joined('+', make_run([10], [0.1]), None) is None


def test_a_run_that_is_at_its_target_waits_there_for_its_turn():
  averaged = make_run([10, 20, 30], [0.1, 0.5, 1.0])  # at slot 2, raw's turn
  raw = make_run([10, 20, 30, 40], [0.1, 0.1, 0.1, 0.1])
  run = joined('+', averaged, raw)
  assert evaluations(run)[:4] == [(10, 0.1), (20, 0.5), (30, 0.1), (40, 1.0)]
  assert run.seconds[run.reached] == 40


def test_as_the_submission_chooses_among_raw_and_averaged_weights():
  slots = list(range(10, 160, 10))
  averaged = make_run(slots, 15 * [0.6])
  raw = make_run(slots, 15 * [0.5])
  found = joined('*', averaged, raw).metric.tolist()
  # In turn until three have decided, then eight of the better one.
  assert found == [0.6, 0.5, *8 * [0.6], 0.5, *4 * [0.6]]
  # Where the averaged run has stopped, its slots are lost until that is known.
  averaged = make_run(slots[:2], 2 * [0.6])
  found = evaluations(joined('*', averaged, raw))
  assert found[:2] == [(10, 0.6), (20, 0.5)]
  assert found[2:] == [(slot, 0.5) for slot in slots[3:11]] + [
    (slot, 0.5) for slot in slots[12:]
  ]


def test_the_lower_one_is_better_where_the_metric_falls():
  slots = [10, 20, 30, 40]
  averaged = make_run(slots, [4, 4, 4, 4], workload=FALLING)
  raw = make_run(slots, [3, 3, 3, 3], workload=FALLING)
  found = joined('*', averaged, raw).metric.tolist()
  assert found == [4, 3, 4, 3]
  raw = make_run(slots, [5, 5, 5, 5], workload=FALLING)
  assert joined('*', averaged, raw).metric.tolist() == [4, 5, 4, 4]
