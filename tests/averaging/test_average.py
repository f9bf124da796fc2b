"""When snapshots are taken, and what share of an average each has."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from reset_cycles.averaging import AVERAGES
from reset_cycles.averaging.average import (
  Plan,
  is_snapshot,
  next_snapshot,
  weight,
)
from reset_cycles.schedule_params import ScheduleParams


def plan_of(setting, step_hint):
  read = ScheduleParams(averaging=setting).averaging
  return AVERAGES.make(read).plan(step_hint)


def test_the_last_ten_a_fifth_of_a_percent_apart():
  """As recorded: lawa_queue, on OGBG and on Criteo."""
  assert plan_of('lawa', 80_000) == Plan(160, 160, 10, window=10)
  assert plan_of('lawa', 10_666) == Plan(21, 21, 10, window=10)


def test_shares_of_a_short_run_are_whole_steps():
  assert plan_of('lawa', 30) == Plan(1, 1, 10, window=10)
  late = {'name': 'lawa', 'k': 2, 'distance': 0.1, 'start': 0.5}
  assert plan_of(late, 30) == Plan(15, 3, 2, window=2)


def test_an_exponential_average():
  plan = plan_of({'name': 'ema', 'span': 0.1, 'distance': 0.01}, 1000)
  assert plan[:4] == (10, 10, 10, 0)
  np.testing.assert_allclose(plan.least_weight, 1 - math.exp(-0.1))


def test_no_average_takes_no_snapshots():
  assert plan_of('none', 1000) is None


@pytest.mark.parametrize(
  ('plan', 'taken'),
  [
    (Plan(3, 3, 1), [3, 6, 9, 12, 15]),
    (Plan(5, 4, 1), [5, 9, 13]),
    (Plan(1, 7, 1), [1, 8, 15]),
  ],
)
def test_the_steps_of_the_snapshots(plan, taken):
  assert [s for s in range(16) if is_snapshot(plan, s)] == taken
  assert reference.snapshots(100, 116, plan.every, plan.first) == [
    100 + s for s in taken
  ]
  for step in range(taken[-1]):
    assert next_snapshot(plan, step) == min(s for s in taken if s > step)


def test_weights_of_a_running_average():
  plan = Plan(1, 1, 1, least_weight=0.3)
  assert [weight(plan, n) for n in (1, 2, 3, 4, 9)] == [1, 0.5, 1 / 3, 0.3, 0.3]


@pytest.mark.parametrize(
  ('setting', 'said'),
  [
    ({'name': 'lawa', 'k': 0}, r'averaging\.k=0: .* at least 1'),
    ({'name': 'lawa', 'distance': 0}, r'averaging\.distance=0: .* above 0'),
    ({'name': 'ema', 'span': 2}, r'averaging\.span=2: .* at most 1'),
    ({'name': 'ema', 'start': 1}, r'averaging\.start=1: .* not including, 1'),
    ({'name': 'lawa', 'choice': 'best'}, r'choice=.*averaged, alternate'),
    ('lava', r'averaging=.lava.: .*Did you mean lawa\?'),
  ],
)
def test_what_is_no_average_is_refused(setting, said):
  with pytest.raises(ValueError, match=said):
    ScheduleParams(averaging=setting)
