"""The horizon in time, and the intervals between evaluations, by hand."""

import math

import pytest

from helpers.replay import config_of, make_params, of, replay
from reset_cycles.core.evaluation import Evaluation
from reset_cycles.core.horizon import Intervals, TimeHorizon
from reset_cycles.engine import control as control_lib

NAN, INF = math.nan, math.inf
case = pytest.param
TIME = TimeHorizon()


STEADY = [(1 + 100 * i, 60.0 + 10 * i) for i in range(6)]


@pytest.mark.parametrize(
  ('evaluations', 'budget', 'horizon', 'expected'),
  (
    # Under 105 s the last evaluation is at 100 s, after 401 steps. Of its
    # interval a tenth is not counted on: 391. At 100 s no further one fits.
    case(STEADY, 105.0, TIME, [5000, *5 * [391]], id='steady'),
    # At 100.2 s the last one would be too close: slack is .3 s.
    case(STEADY[:2], 100.2, TIME, [5000, 291], id='too close'),
    case(STEADY[:2], 100.4, TIME, [5000, 391], id='far enough'),
    case(STEADY[:2], 100.2, TimeHorizon(slack=0.01), [5000, 391], id='slack'),
    case(STEADY[:2], 105.0, TimeHorizon(margin=0.5), [5000, 351], id='margin'),
    # Compilation is spent, but there is no interval.
    case([(1, 900.0), (101, 910.0)], 945.0, TIME, [5000, 391], id='compiled'),
    # Without a budget or times the plan stays.
    case(STEADY[:2], NAN, TIME, [5000, 5000], id='no budget'),
    case(STEADY[:2], INF, TIME, [5000, 5000], id='infinite budget'),
    case([(1, NAN), (101, NAN)], 105.0, TIME, [5000, 5000], id='no times'),
    # No step or no time lies between the first three.
    case(
      [(1, 60.0), (1, 61.0), (101, 61.0), (201, 71.0)],
      106.0,
      TIME,
      [5000, 5000, 5000, 201 + 200 + 90],
      id='no interval',
    ),
  ),
)
def test_horizons_by_hand(evaluations, budget, horizon, expected):
  """After each of the evaluations (steps, seconds)."""
  intervals, last, planned, found = Intervals(), Evaluation(), 5000, []
  for step, seconds in evaluations:
    new = Evaluation(step, 1.0, 0.1, seconds)
    intervals, last = intervals.after(last, new), new
    to_come = horizon.steps_to_come(intervals, budget - seconds)
    planned = step + to_come if to_come else planned
    found.append(planned)
  assert found == expected


SLOW = int(0.9 * 10 * 100 / 14)


@pytest.mark.parametrize(
  ('durations', 'seconds_left', 'expected'),
  (
    # Nine tenths of an interval are to come at least: k = 1.
    ((10.0,), 10.3, 90),
    ((10.0,), 10.2999, 0),
    # d = 10, d_max = 14: at 44.2 s, 1 + floor((44.2 - 14 - .3) / 10) = 3 fit, at
    # 44.4 s a fourth. The last interval may be as slow as the slowest was.
    ((10.0, 10.0, 14.0), 44.2, 200 + SLOW),
    ((10.0, 10.0, 14.0), 44.4, 300 + SLOW),
    # The longest interval counts at most one and a half times.
    ((10.0, 10.0, 300.0), 45.2, 200 + 3),
    ((10.0, 10.0, 300.0), 45.4, 300 + 3),
    # Where a clock makes no sense, the horizon stays.
    ((INF,), 100.0, 0),
    ((10.0, INF), 100.0, 0),
    ((10.0, 10.0, INF), 45.2, 200),  # the lowest rate is 0
    ((5e-324,), 100.0, 0),
    ((5e-324,), 0.0, 0),
    ((1e308,), 1e308, 0),
    ((10.0,), 1e308, 0),
    ((10.0,), -1.0, 0),
    ((10.0,), -INF, 0),
    ((10.0,), NAN, 0),
    ((NAN,), 100.0, 0),
  ),
)
def test_steps_to_come_by_hand(durations, seconds_left, expected):
  intervals = Intervals((100.0,) * len(durations), durations)
  assert TimeHorizon().steps_to_come(intervals, seconds_left) == expected


def test_an_interval_that_just_fits_counts_and_has_a_step():
  fits = TimeHorizon(slack=0.0).steps_to_come(Intervals((100.0,), (10.0,)), 10)
  least = TimeHorizon(margin=1.0).steps_to_come(Intervals((1.0,), (10.0,)), 11)
  assert (fits, least) == (90, 1)


def test_the_intervals_that_are_remembered():
  intervals, last = Intervals(), Evaluation()
  assert (intervals.most_steps, intervals.median_steps) == (0, 0.0)
  for i, step in enumerate([1, 8, 10, *range(11, 20)]):
    new = Evaluation(step, 1.0, 0.1, 60.0 + i)
    intervals, last = intervals.after(last, new), new
    if step == 10:
      assert [s for s in intervals.steps if s == s] == [7.0, 2.0]
      assert (intervals.most_steps, intervals.median_steps) == (7, 4.5)
  # The last nine.
  assert intervals.steps == (1.0,) * 9
  assert intervals.durations == (1.0,) * 9
  # One that took no time is none.
  assert (
    intervals.after(last, Evaluation(30, 1.0, 0.1, last.seconds)) == intervals
  )
  # Steps count without times, and from before the first step on, too.
  untimed = Intervals().after(Evaluation(0, 1, 1), Evaluation(5, 1, 1))
  assert untimed.most_steps == 5 and math.isnan(untimed.durations[-1])


@pytest.mark.parametrize(
  ('horizon', 'budget', 'most_steps', 'expected'),
  (
    (TIME, 105.0, INF, 391),
    (TIME, 105.0, 300, 300),
    (TIME, 105.0, 391, 391),
    (TIME, 105.0, 392, 391),
    # Without a budget; and without a horizon they do not count.
    (TIME, NAN, 30.0, 30),
    (None, 105.0, 30.0, 50),
  ),
)
def test_the_horizon_is_the_smaller_of_time_and_most_steps(
  horizon, budget, most_steps, expected
):
  params = make_params(horizon=horizon, budget_factor=1.0)
  config = config_of(params, 50, budget=budget, most_steps=most_steps)
  control = control_lib.start(config)
  for step, seconds in ((1, 60.0), (101, 70.0)):
    evaluation = Evaluation(step, 1.0, 0.1, seconds)
    control, _, _ = control_lib.observe(control, evaluation, config)
  assert control.planned_end == expected


@pytest.mark.parametrize('repeat', (True, False))
def test_the_last_evaluation_sees_the_annealed_model(repeat):
  """No further cycle begins before it.

  A run of 1003 s and 10 steps a second, evaluated every 10 seconds.
  """
  changes = {'repeat': repeat, 'early_switching': False, 'budget_factor': 1.0}
  config = config_of(make_params(horizon=TIME, **changes), 5000, budget=1003.0)
  seen = [(1 + 100 * i, 1.0, 0.1, 30.0 + 10 * i) for i in range(98)]
  events, _, steps = replay(config, 5000, seen, until=9731)
  cycle, nominal = steps[seen[-1][0] - 1]
  assert cycle == 2 and nominal >= 1664
  # The horizon of 1 + 970 s of 10 steps, less a tenth of the last interval.
  assert of(events, 'wait', 'cycle', 'cycle_end') == [(9691, 3, 9791)]
  follows = [e['global_step'] for e in events if e['cycle'] == 4]
  assert of(events, 'finish') == ([] if repeat else [(9701,)])
  assert follows[:1] == ([9701] if repeat else [])
