"""Progress of runs that reach, by hand; and where the goal's numbers are from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from recorded import FALLING, RISING, make_run
from reset_cycles.control.goals.expected import CURVES, SHARES
from reset_cycles.control.state import Target
from reset_cycles.studies.expected.curves import (
  QUANTILES,
  Drawn,
  curve,
  progress,
)
from reset_cycles.studies.real_runs import reading
from reset_cycles.studies.replay.cases import comparable

NAN = math.nan


def at(values, share):
  return values[SHARES.index(share)]


def test_the_best_share_so_far():
  # A metric of 1 is to be reached, in 100 s.
  run = make_run([1, 10, 20, 50, 70], [0.1, 0.5, 0.3, NAN, 1.2])
  found = progress(run)
  assert at(found, 0.0) == 0.0  # not evaluated yet
  assert at(found, 0.05) == 0.1
  assert [at(found, s) for s in (0.1, 0.2, 0.5, 0.6)] == [0.5] * 4
  assert [at(found, s) for s in (0.7, 0.9, 1.0)] == [1.0] * 3


def test_what_is_worse_than_at_first_is_no_way():
  run = make_run([1, 10, 30], [3.0, 5.0, 0.9], workload=FALLING)
  assert at(progress(run), 0.1) == 0.0
  half = make_run([1, 10, 30], [3.0, 2.0, 0.9], workload=FALLING)
  assert at(progress(half), 0.2) == 0.5  # linear


def test_a_curve_of_three_runs():
  runs = [
    make_run([5, 50], [y, 1.0], workload=RISING) for y in (0.2, 0.446, 0.7)
  ]
  found = curve([*runs, make_run([5, 50], [0.9, 0.9])], 0.5)
  assert at(found, 0.03) == 0.01  # at least
  assert [at(found, s) for s in (0.05, 0.4)] == [0.45] * 2
  assert [at(found, s) for s in (0.5, 1.0)] == [1.0] * 2
  with pytest.raises(ValueError, match='no run reaches its target'):
    curve([make_run([5, 50], [0.9, 0.9])], 0.5)


def test_a_goal_of_a_drawn_curve():
  goal = Drawn(np.linspace(0, 1, len(SHARES)))
  assert goal.metric(Target('', 2.0, True), 0.1, 1.0) == 2.0
  # SHARES[3] and [4] are .05 and .075.
  expected = 2.0 * 3.5 / (len(SHARES) - 1)
  found = goal.metric(Target('', 2.0, True), 0.1, 0.0625)
  assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize('name', CURVES)
def test_the_goals_numbers_are_those_of_the_recorded_runs(name):
  runs = comparable(reading.read_runs())
  assert curve(runs, QUANTILES[name]).tolist() == list(CURVES[name])
