"""The horizon in time: by hand, beside its twin, and under made-up clocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers import reference
from helpers.replay import config_of, make_params
from reset_cycles.core import control as control_lib
from reset_cycles.core import horizon as horizon_lib
from reset_cycles.core import schedules
from reset_cycles.core.horizon import Pace, StepHorizon, TimeHorizon
from reset_cycles.core.race import Finish, Repeat
from reset_cycles.core.state import NO_EVALUATION
from reset_cycles.core.workload import Evaluation
from reset_cycles.early_switching import Progress

NAN = math.nan


def horizons_of(evaluations, budget, planned=5000, horizon=None):
  """The horizon after each of the evaluations (steps, seconds)."""
  horizon = horizon or TimeHorizon()
  pace, last, found = Pace(), NO_EVALUATION, []
  for step, seconds in evaluations:
    new = Evaluation(step, 1.0, 0.1, seconds)
    pace, last = horizon_lib.observe(pace, last, new), new
    to_come = horizon.steps_to_come(pace, budget - seconds)
    planned = step + to_come if to_come else planned
    found.append(planned)
  return found


def test_a_steady_run_by_hand():
  # 60 s of compilation; then 100 steps in 10 s. Evaluations at 60, 70, 80, ...;
  # under 105 s the last is at 100 s, after 401 steps. Of its interval a tenth
  # is not counted on: 391.
  evaluations = [(1 + 100 * i, 60.0 + 10 * i) for i in range(5)]
  expected = [5000, 391, 391, 391, 391]
  assert horizons_of(evaluations, 105.0) == expected
  # At 100.2 s the last one would be too close: slack is .3 s.
  assert horizons_of(evaluations, 100.2)[1] == 291
  assert horizons_of(evaluations, 100.4)[1] == 391
  close = TimeHorizon(slack=0.01)
  assert horizons_of(evaluations, 100.2, horizon=close)[1] == 391
  careful = TimeHorizon(margin=0.5)
  assert horizons_of(evaluations, 105.0, horizon=careful)[1] == 351


@pytest.mark.parametrize('compiling', (0.5, 60.0, 900.0))
def test_compilation_is_spent_but_no_pace(compiling):
  evaluations = [(1, compiling), (101, compiling + 10)]
  assert horizons_of(evaluations, compiling + 45.0)[-1] == 391


@pytest.mark.parametrize('budget', (NAN, math.inf))
def test_without_a_budget_the_plan_stays(budget):
  evaluations = [(1, 60.0), (101, 70.0), (201, 80.0)]
  assert horizons_of(evaluations, budget) == [5000] * 3
  # Nor without times.
  assert horizons_of([(1, NAN), (101, NAN)], 100.0) == [5000] * 2


def test_evaluations_that_no_time_or_no_step_lies_between():
  evaluations = [(1, 60.0), (1, 61.0), (101, 61.0), (201, 71.0)]
  assert horizons_of(evaluations, 106.0)[:3] == [5000] * 3
  assert horizons_of(evaluations, 106.0)[3] == 201 + 200 + 90


def test_the_last_evaluation_that_fits_and_none():
  evaluations = [(1 + 100 * i, 60.0 + 10 * i) for i in range(6)]
  # At 90 s, 15 s before the end, one fits: at 100 s. At 100 s, none.
  assert horizons_of(evaluations, 105.0)[3:] == [391, 391, 391]


SLOW = int(0.9 * 10 * 100 / 14)


@pytest.mark.parametrize(
  ('durations', 'left', 'expected'),
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
  ),
)
def test_steps_to_come_by_hand(durations, left, expected):
  pace = Pace((100.0,) * len(durations), durations)
  assert TimeHorizon().steps_to_come(pace, left) == expected
  assert StepHorizon().steps_to_come(pace, left) == 0


def test_of_the_last_step_there_is_always_one():
  assert TimeHorizon(margin=1.0).steps_to_come(Pace((1.0,), (10.0,)), 11) == 1


def test_time_agrees_with_its_twin():
  rng = np.random.default_rng(0)
  moved = 0
  for _ in range(300):
    count = int(rng.integers(1, 15))
    steps = rng.integers(1, 300, count).cumsum() + 1
    seconds = 30 + rng.uniform(1, 20, count).cumsum()
    budget = float(seconds[-1] + rng.uniform(0, 200))
    found = horizons_of(
      [(1, 30.0), *zip(steps.tolist(), seconds.tolist())], budget, None
    )
    intervals = list(
      zip(np.diff(steps, prepend=1), np.diff(seconds, prepend=30))
    )
    expected = reference.time_horizon(
      intervals[-9:], int(steps[-1]), float(seconds[-1]), budget
    )
    if expected is not None:
      assert abs(found[-1] - expected) <= 1  # an int of another order of sums
      moved += found[-1] == expected
  assert moved > 200


def test_the_intervals_that_are_remembered():
  pace, last = Pace(), NO_EVALUATION
  assert pace.longest == 0
  for i, step in enumerate([1, 8, 10, *range(11, 20)]):
    new = Evaluation(step, 1.0, 0.1, 60.0 + i)
    pace, last = horizon_lib.observe(pace, last, new), new
    if step == 10:
      assert [s for s in pace.steps if s == s] == [7.0, 2.0]
      assert pace.longest == 7
  # The last nine.
  assert pace.steps == (1.0,) * 9
  assert pace.durations == (1.0,) * 9
  # Steps count without times, too.
  untimed = horizon_lib.observe(
    Pace(), Evaluation(1, 1, 1), Evaluation(6, 1, 1)
  )
  assert untimed.longest == 5 and math.isnan(untimed.durations[-1])


@pytest.mark.parametrize(
  ('horizon', 'budget', 'most_steps', 'expected'),
  (
    (TimeHorizon(), 105.0, math.inf, 391),
    (TimeHorizon(), 105.0, 300, 300),
    (TimeHorizon(), 105.0, 391, 391),
    # Without a budget; and under a horizon in steps they do not count.
    (TimeHorizon(), NAN, 30.0, 30),
    (StepHorizon(), 105.0, 30.0, 50),
  ),
)
def test_the_horizon_is_the_smaller_of_time_and_most_steps(
  horizon, budget, most_steps, expected
):
  params = make_params(horizon=horizon, budget_factor=1.0)
  config = config_of(params, 50, budget=budget, most_steps=most_steps)
  control, _ = control_lib.start(config)
  for step, seconds in ((1, 60.0), (101, 70.0)):
    evaluation = Evaluation(step, 1.0, 0.1, seconds)
    control, _ = control_lib.observe(control, evaluation, config)
  assert control.horizon == expected


def run(params, step_hint, rate, budget, period=10.0):
  """A run with the benchmark's clock: evaluated every `period` seconds.

  Returns:
    The events, and (cycle's number, nominal step, pace) of every step and
    (step, seconds) of every evaluation. rate(seconds) is steps per second.
  """
  config = config_of(params, step_hint, budget=budget)
  control, clock = control_lib.start(config)
  seconds, last, pending = 0.0, -math.inf, []
  events, steps, evaluated, step = [], [], [], 0
  while seconds < budget:
    decision = control_lib.decide(control, clock, pending, step, config)
    control, clock, pending = decision.control, decision.clock, []
    events += [{'global_step': step, **e} for e in decision.events]
    if decision.action == control_lib.RESET:
      started = control_lib.cycle_start_event(control, clock, config)
      events.append({'global_step': step, **started})
    if decision.action == control_lib.FINISH:
      break
    local = schedules.local_step_on_host(clock, step)
    steps.append((control.number, local, float(clock.pace)))
    seconds += 30.0 if step == 0 else 1 / rate(seconds)
    step += 1
    if seconds - last >= period and seconds < budget:
      last = seconds
      pending = [Evaluation(step, 1.0, 0.1, seconds)]
      evaluated.append((step, seconds))
  return events, steps, evaluated


def wavering(seconds):
  """Steps per second, between 8 and 12, and 2 for a while."""
  slow = 400 < seconds < 430
  return 2.0 if slow else 10.0 + 2.0 * math.sin(seconds / 17)


def timed(policy, **changes):
  return make_params(
    horizon=TimeHorizon(), policy=policy, budget_factor=1.0, **changes
  )


@pytest.mark.parametrize('step_hint', (1500, 50000))
@pytest.mark.parametrize('budget', (995.0, 1004.0))
def test_a_chain_fits_the_budget_whatever_was_planned(step_hint, budget):
  params = timed(Finish(), early_switching=False)
  events, steps, evaluated = run(params, step_hint, wavering, budget)
  ends = [e for e in events if e['event'] == 'finish']
  assert [e['cycle'] for e in ends] == [3]
  # The plan's last step came at most an interval and a half before the end.
  assert evaluated[-1][0] <= ends[0]['global_step']
  assert evaluated[-1][1] >= budget - 30.0
  for number in (1, 2, 3):
    local = [place for n, place, _ in steps if n == number]
    paces = [pace for n, _, pace in steps if n == number]
    # Monotone, and no jump larger than a step at the paces around it.
    moves = np.diff(local)
    assert (moves > 0).all()
    np.testing.assert_allclose(moves, paces[:-1], rtol=1e-4, atol=2e-3)
    assert local[-1] == pytest.approx(step_hint // 3, abs=2 + paces[-1])


@pytest.mark.parametrize('policy', (Repeat(), Finish()), ids=repr)
def test_the_last_evaluation_sees_the_annealed_model(policy):
  """Also where `wait` is off: no further cycle begins before it."""
  events, steps, evaluated = run(
    timed(policy, early_switching=False), 5000, lambda seconds: 10.0, 1003.0
  )
  is_finished = policy == Finish()
  number, local, pace = (
    steps[-1] if is_finished else steps[evaluated[-1][0] - 1]
  )
  assert number == 3 and local >= 1666 - 2 * pace
  waits = [e['cycle'] for e in events if e['event'] == 'wait']
  assert waits == ([] if is_finished else [3])


def test_further_cycles_fill_the_run_up_to_its_horizon():
  """The chain is left early: its last cycle is repeated until the horizon."""
  impatient = Progress(min_share=0.3, margin=0.0, noise=0.0, decay=0.0)
  params = timed(Repeat(), switching=impatient)
  events, _, evaluated = run(params, 5000, lambda seconds: 10.0, 1003.0)
  starts = [e for e in events if e['event'] == 'cycle_start']
  settings = [e['setting'] for e in starts]
  assert settings[:2] == [2, 3]
  assert set(settings[2:]) == {3}
  assert len(settings) > 5
  horizon = 9691 - 10  # 1 + 970 s at 10 steps per second
  ends = [e['cycle_end'] for e in starts if e['global_step'] < horizon - 100]
  assert all(end <= horizon + 100 for end in ends)
  assert evaluated[-1][1] > 990
