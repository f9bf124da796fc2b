"""The horizon in time over recorded clocks: by hand, and the real ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from recorded import make_run
from reset_cycles.control.horizons.steps import Steps
from reset_cycles.control.horizons.time import Time
from reset_cycles.studies.clocks import laid_over, text
from reset_cycles.studies.clocks.laid_over import lay_over
from reset_cycles.studies.real_runs import reading


def clock(count, **changes):
  """A second of compilation, then ten seconds and a hundred steps at a time."""
  seconds = [1.0 + 10 * i for i in range(count)]
  run = make_run(seconds, [0.1] * count, **changes)
  return run._replace(step=1.0 + 100.0 * np.arange(count))


def test_a_clock_by_hand():
  # Evaluations at 1, 11, ..., 91 s; the last under 95 s after 901 steps.
  found = lay_over(clock(11), 95.0, Time(), 5000)
  # Its horizon is step 891: 9 s after the evaluation at 81 s.
  assert (found.annealed, found.evaluated) == (90.0, 91.0)
  assert found.is_in_time
  assert found.unused == pytest.approx(5 / 95, abs=1e-12)
  assert found.unseen == pytest.approx(4 / 95, abs=1e-12)


def test_an_evaluation_at_the_end_of_the_budget_is_none():
  # At 91 s: step 791 is taken at 80 s and seen at 81 s.
  found = lay_over(clock(11), 91.0, Time(), 5000)
  assert (found.annealed, found.evaluated) == (80.0, 81.0)


def test_what_slows_down_at_the_end_is_too_late():
  run = clock(11)
  step = run.step.copy()
  step[9:] -= 50  # half as many steps in the last interval of the budget
  found = lay_over(run._replace(step=step), 95.0, Time(), 5000)
  assert not found.is_in_time
  assert math.isnan(found.annealed)
  # With half of that interval not counted on, it is not.
  careful = lay_over(run._replace(step=step), 95.0, Time(margin=0.5), 5000)
  assert (careful.annealed, careful.evaluated) == (91.0, 91.0)


def test_the_horizon_in_steps_knows_no_time():
  early = lay_over(clock(11), 95.0, Steps(), 301)
  assert (early.annealed, early.evaluated) == (31.0, 31.0)
  assert not lay_over(clock(11), 95.0, Steps(), 1000).is_in_time


def test_budgets_end_between_the_last_two_evaluations():
  runs = [clock(n) for n in range(4, 60)]
  budgets = laid_over.own_budgets(runs)
  places = [b - run.seconds[-2] for b, run in zip(budgets, runs)]
  assert 0 <= min(places) < 2
  assert 8 < max(places) < 10
  assert laid_over.own_budgets(runs) == budgets


@pytest.mark.parametrize(
  ('seconds', 'expected'),
  (
    ([1, 31, 61, 91], True),  # the next one would be at 121
    ([1, 21, 41, 61], False),
    ([1, 41, 81, 121], True),
    ([1, 31, 61, 89], False),  # ended by itself, evaluated before its time
  ),
)
def test_whether_a_run_lasted_for_the_maximum_runtime(seconds, expected):
  run = make_run(seconds, [0.1] * 4)  # of 100 s
  assert laid_over.lasts_for(run, 1.0) == expected


def test_which_clocks_count():
  assert not laid_over.is_long_enough(clock(3))
  assert laid_over.is_long_enough(clock(4))
  assert not laid_over.is_long_enough(make_run([1, math.nan, 3, 4], [1] * 4))
  assert laid_over.counts_steps(clock(4))
  assert not laid_over.counts_steps(clock(4, submission='lawa_ema'))
  with pytest.raises(ValueError, match='a run needs at least four evaluations'):
    text.judge([clock(3)], 'time')


@pytest.fixture(scope='module')
def rows():
  """Every recorded clock."""
  return text.judge(reading.read_runs(), 'time')


def test_the_recorded_clocks(rows):
  found = {(row.budget, row.horizon): row for row in rows}
  own = found['own end', 'time']
  assert len(own.laid) == 2767
  assert own.in_time >= 0.99
  assert own.unused(0.5) < 0.02
  for factor, count in (('1×', 1121), ('1.5×', 221), ('3×', 154)):
    row, steps = found[factor, 'time'], found[factor, 'steps']
    assert len(row.laid) == len(steps.laid) == count
    assert row.in_time >= 0.99
    assert row.unused(0.5) < 0.01
    assert steps.in_time < 0.2
    assert steps.unused(0.5) > 0.15
  calls = found['own end, lawa_*', 'time']
  assert (len(calls.laid), calls.in_time) == (476, 1.0)


def test_the_table(rows):
  lines = text.lines(reading.read_runs(), rows)
  assert lines[1].split() == (
    ['own', 'end', 'time', '2,767', '99.96%', '1.11%', '9.83%', '0.85%']
  )
  assert lines[-2:] == [
    '3,521 runs; 278 with fewer than four evaluations are left out.',
    'Not in time, by own end: a100 imagenet_vit: 1 of 25.',
  ]
