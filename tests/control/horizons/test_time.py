"""The horizon in time: by hand, under made-up clocks, and in decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replay import make_params, rules_of
from reset_cycles.control import decide
from reset_cycles.control.horizons import Timing
from reset_cycles.control.horizons.time import Time
from reset_cycles.control.state import (
  NEVER,
  Evaluation,
  from_words,
  to_words,
)
from reset_cycles.schedules import cycle_clock

NAN = math.nan


def horizons_of(evaluations, budget, planned=5000, **parameters):
  """The horizon after each of the evaluations (steps, seconds)."""
  horizon = Time(**parameters)
  state, found = horizon.initial, []
  for step, seconds in evaluations:
    timing = Timing(step, seconds, planned, budget)
    state, planned = horizon.observe(state, timing)
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
  assert horizons_of(evaluations, 100.2, slack=0.01)[1] == 391
  assert horizons_of(evaluations, 105.0, margin=0.5)[1] == 351


def test_compilation_is_spent_but_no_pace():
  # The same budget after compilation: the same steps.
  for compiling in (0.5, 60.0, 900.0):
    evaluations = [(1, compiling), (101, compiling + 10)]
    assert horizons_of(evaluations, compiling + 45.0)[-1] == 391


@pytest.mark.parametrize('budget', (NAN, math.inf))
def test_without_a_budget_the_plan_stays(budget):
  evaluations = [(1, 60.0), (101, 70.0), (201, 80.0)]
  assert horizons_of(evaluations, budget) == [5000] * 3


def test_without_times_the_plan_stays():
  assert horizons_of([(1, NAN), (101, NAN)], 100.0) == [5000] * 2
  # One that lacks its time is passed over: two intervals in one.
  evaluations = [(1, 60.0), (101, NAN), (201, 80.0), (301, 90.0)]
  # After 80 s, d = 20 and one more fits into 105 s; after 90 s, d = 15, d_max = 20
  # and none does for sure.
  assert horizons_of(evaluations, 105.0) == [5000, 5000, 381, 381]
  # 50 s left: 1 + floor((50 - 20 - .45) / 15) = 2 evaluations.
  assert horizons_of(evaluations, 140.0)[-1] == 301 + 150 + 135


def test_evaluations_that_no_time_or_no_step_lies_between():
  evaluations = [(1, 60.0), (1, 61.0), (101, 61.0), (201, 71.0)]
  assert horizons_of(evaluations, 106.0)[:3] == [5000] * 3
  assert horizons_of(evaluations, 106.0)[3] == 201 + 200 + 90


@pytest.mark.parametrize('slow', (2.0, 10.0))
def test_a_slow_stretch_costs_what_it_lasted(slow):
  """Four intervals in which steps take long: nothing of it is expected again."""
  step, seconds, evaluations = 1, 60.0, [(1, 60.0)]
  for i in range(20):
    step += round(100 / slow) if 10 <= i < 14 else 100
    seconds += 10.0
    evaluations.append((step, seconds))
  found = horizons_of(evaluations, 1065.0)
  assert set(found[1:11]) == {1 + 100 * 100 - 10}
  lost = 4 * (100 - round(100 / slow))
  # While it is remembered, the last interval is taken to be as slow.
  careful = 0.9 * (100 - 100 / slow)
  for horizon in found[14:]:
    assert 0 <= 10001 - 10 - lost - horizon <= careful + 1
  # It is stretched by nothing, whatever has been seen.
  assert max(found[1:]) == 9991


def test_a_pause_between_two_evaluations_is_no_pace():
  """A reset, a snapshot or a compilation: 300 s, once."""
  before = [(1 + 100 * i, 60.0 + 10 * i) for i in range(11)]
  after = [(1101 + 100 * i, 470.0 + 10 * i) for i in range(12)]
  found = horizons_of(before + after, 1065.0)
  assert found[10] == 9991
  # While it is remembered the longest interval counts 1.5 times the usual one, so
  # that one evaluation less is sure to fit, and the last interval is taken to be
  # as slow as that one: .9 * 10 s * 100 / 310 s.
  assert set(found[11:20]) == {6801 + 2}
  assert set(found[20:]) == {9991 - 3000}


def test_it_follows_a_pace_that_has_changed():
  step, seconds, evaluations = 1, 60.0, [(1, 60.0)]
  for i in range(20):
    step += 100 if i < 10 else 50
    seconds += 10.0
    evaluations.append((step, seconds))
  found = horizons_of(evaluations, 1065.0)
  assert found[10] == 9991
  assert found[15] == 1251 + 50 * 85 - 5


def test_no_more_evaluation_fits_and_the_plan_stays():
  evaluations = [(1 + 100 * i, 60.0 + 10 * i) for i in range(6)]
  # At 100 s, 5 s before the end.
  assert horizons_of(evaluations, 105.0)[4:] == [391, 391]


def test_a_run_that_would_have_too_many_steps():
  evaluations = [(1, 1.0), (10**6, 2.0)]
  assert horizons_of(evaluations, 1e9)[-1] == NEVER - 1


def test_the_state_is_numbers_and_of_one_size():
  rules = rules_of(make_params(horizon='time'), 100)
  control, words = decide.start(rules), []
  for i in range(30):
    evaluation = Evaluation(1 + 7 * i, 1.0, 0.1, 60.0 + 0.1 * i)
    control, _ = decide.observe(control, evaluation, rules)
    words.append(to_words(control))
    back = from_words(words[-1], decide.start(rules))
    np.testing.assert_equal(tuple(back), tuple(control))
  assert len({word.shape for word in words}) == 1


def run(params, step_hint, rate, budget, period=10.0, policy=None):
  """A run with the benchmark's clock: evaluated every `period` seconds.

  Returns:
    The events, and (step, rate, seconds) of every step and (step, seconds) of
    every evaluation. `rate(seconds)` is steps per second.
  """
  rules = rules_of(params, step_hint)._replace(budget=budget)
  control, clock = decide.start(rules), decide.first_clock(rules)
  seconds, last, pending = 0.0, -math.inf, []
  events, steps, evaluated, step = [], [], [], 0
  while seconds < budget:
    decision = decide.decide(control, clock, pending, step, rules)
    control, clock, pending = decision.control, decision.clock, []
    events += [{'global_step': step, **e} for e in decision.events]
    if decision.action == decide.RESET:
      started = decide.cycle_start_event(control, clock, rules)
      events.append({'global_step': step, **started})
    if decision.action == decide.FINISH:
      break
    local = cycle_clock.local_step_on_host(clock, step)
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


@pytest.mark.parametrize('step_hint', (1500, 5000, 50000))
@pytest.mark.parametrize('budget', (995.0, 1001.0, 1004.0))
def test_a_chain_fits_the_budget_whatever_was_planned(step_hint, budget):
  params = make_params(
    horizon='time', policy='finish', early_switching=False, budget_factor=1.0
  )
  events, steps, evaluated = run(params, step_hint, wavering, budget)
  ends = [e for e in events if e['event'] == 'finish']
  assert [e['cycle'] for e in ends] == [3]
  # The plan's last step came at most an interval and a half before the end.
  last = ends[0]['global_step']
  assert evaluated[-1][0] <= last
  assert evaluated[-1][1] >= budget - 30.0
  nominal = {1: step_hint // 3, 2: step_hint // 3, 3: step_hint // 3}
  for number, total in nominal.items():
    local = [place for n, place, _ in steps if n == number]
    # Monotone, and no jump larger than a step at the paces around it.
    moves = np.diff(local)
    paces = [pace for n, _, pace in steps if n == number]
    assert (moves > 0).all()
    np.testing.assert_allclose(moves, paces[:-1], rtol=1e-4, atol=2e-3)
    assert local[-1] == pytest.approx(total, abs=2 + paces[-1])


@pytest.mark.parametrize('policy', ['repeat', 'queue', 'finish'])
def test_the_last_evaluation_sees_the_annealed_model(policy):
  """Also where `wait` is off: no further cycle begins before it."""
  params = make_params(
    horizon='time', policy=policy, early_switching=False, budget_factor=1.0
  )
  events, steps, evaluated = run(params, 5000, lambda seconds: 10.0, 1003.0)
  number, local, pace = (
    steps[evaluated[-1][0] - 1] if policy != 'finish' else (steps[-1])
  )
  assert number == 3 and local >= 1666 - 2 * pace
  waits = [e['cycle'] for e in events if e['event'] == 'wait']
  assert waits == ([] if policy == 'finish' else [3])


def test_further_cycles_fill_the_run_up_to_its_horizon():
  """The chain is left early: its last cycle is repeated until the horizon."""
  impatient = {'name': 'floor', 'shares': [0.3], 'least': [0.5]}
  params = make_params(
    horizon='time', policy='repeat', switching=impatient, budget_factor=1.0
  )
  events, _, evaluated = run(params, 5000, lambda seconds: 10.0, 1003.0)
  starts = [e for e in events if e['event'] == 'cycle_start']
  # Each is left after .3 of what it got; the chain's are over at half of the run.
  settings = [e['setting'] for e in starts]
  assert settings[:2] == [2, 3]
  assert set(settings[2:]) == {3}
  assert len(settings) > 5
  horizon = 9691 - 10  # 1 + 970 s at 10 steps per second
  ends = [e['cycle_end'] for e in starts if e['global_step'] < horizon - 100]
  assert all(end <= horizon + 100 for end in ends)
  assert evaluated[-1][1] > 990
