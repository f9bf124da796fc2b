"""Decisions of small runs, written out whole."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replay import EASY, PEAK, make_params, replay, rules_of, tape
from reset_cycles.control import decide
from reset_cycles.control.state import Evaluation
from reset_cycles.schedule_params import check_plan

NAN, INF = math.nan, math.inf


def test_scheduled_boundaries():
  events, decision, _ = replay(make_params(), 6, [])
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (4, 'cycle_start', 2, 8),
    (8, 'cycle_start', 3, 12),
    (12, 'finish', 3, 'cycles have run out'),
  ]
  assert decision.action == decide.FINISH
  assert decision.control.num_early_stops == 0
  starts = [e for e in events if e['event'] == 'cycle_start']
  assert [e['pace'] for e in starts] == [1.0, 1.0, 1.0]
  peaks = [e['peak_value'] for e in starts]
  assert peaks == [PEAK, PEAK + 0.001, PEAK - 0.001]


def test_actions_around_a_boundary():
  rules = rules_of(make_params(), 6)
  control, clock = decide.start(rules), decide.first_clock(rules)
  found = [
    decide.decide(control, clock, [], step, rules).action for step in (3, 4, 5)
  ]
  # 5: a resumed run that finds itself past a boundary makes up for it.
  assert found == ['go_on', 'reset', 'reset']


def test_an_early_switch_and_the_new_plan():
  # Left before step 2 of 12: the remaining 10 are 5 + 5. Evaluations count from
  # 1 in each cycle, and a rise from one cycle to the next is none.
  evaluations = [(1, 1.0, 0.2), (2, 1.5, 0.1), (4, 9.0, 0.3), (6, 8.0, 0.4)]
  events, decision, local_steps = replay(make_params(), 6, evaluations)
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (1, 'evaluation', 1, 1),
    (2, 'evaluation', 1, 2),
    (2, 'switch', 1, 'loss rises'),
    (2, 'cycle_start', 2, 7),
    (4, 'evaluation', 2, 1),
    (6, 'evaluation', 2, 2),
    (7, 'cycle_start', 3, 12),
    (12, 'finish', 3, 'cycles have run out'),
  ]
  assert decision.control.num_early_stops == 1
  # 4 nominal steps in 5.
  paces = [e['pace'] for e in events if e['event'] == 'cycle_start']
  assert paces == [1.0, float(np.float32(0.8)), float(np.float32(0.8))]
  expected = [(0, 0), (0, 1)]
  expected += [(i, 0.8 * t) for i in (1, 2) for t in range(5)]
  np.testing.assert_allclose(local_steps, expected, rtol=1e-7)


def test_an_evaluation_in_full():
  events, _, _ = replay(make_params(), 6, [(2, 1.0, 0.2), (3, 1.625, 0.25)])
  assert events[1] == {
    'global_step': 2,
    'event': 'evaluation',
    'cycle': 1,
    'evaluation': 1,
    'loss': 1.0,
    'smoothed_loss': 1.0,
    'derivative': 0.0,
    'case1': 0,
    'case2': 0,
    'stopping': 0,
    'metric': 0.2,
    'metric_step': 2,
  }
  second = {'evaluation': 2, 'loss': 1.625, 'smoothed_loss': 1.625}
  second.update(derivative=0.625, case1=1, stopping=1, metric=0.25)
  expected = {**events[1], **second, 'global_step': 3, 'metric_step': 3}
  assert events[2] == expected


def test_a_plateau_above_the_minimum_is_left():
  evaluations = list(zip(range(1, 12), (1, 0.5, 0.875, 0.875), (0.1,) * 4))
  events, _, _ = replay(make_params(), 9, evaluations)
  # The minimum is 2 evaluations old at step 4; 14 steps are left.
  assert tape(events)[4:] == [
    (4, 'evaluation', 1, 4),
    (4, 'switch', 1, 'minimum out of reach'),
    (4, 'cycle_start', 2, 11),
    (11, 'cycle_start', 3, 18),
    (18, 'finish', 3, 'cycles have run out'),
  ]


@pytest.mark.parametrize('bad', (NAN, INF, -INF))
def test_a_loss_that_is_not_finite_ends_the_cycle_at_once(bad):
  events, decision, _ = replay(make_params(), 6, [(1, bad, 0.1)], until=3)
  assert tape(events)[1:] == [
    (1, 'evaluation', 1, 1),
    (1, 'switch', 1, 'loss is not finite'),
    (1, 'cycle_start', 2, 7),  # 11 steps: 6 + 5
  ]
  assert decision.control.switching.t == 0
  assert not math.isfinite(decision.control.last_loss)


def test_a_switch_in_the_last_cycle_finishes_the_run():
  evaluations = [(9, 1.0, 0.1), (10, 2.0, 0.1), (11, 3.0, 0.1)]
  events, decision, _ = replay(make_params(), 6, evaluations)
  assert tape(events)[3:] == [
    (9, 'evaluation', 3, 1),
    (10, 'evaluation', 3, 2),
    (10, 'switch', 3, 'loss rises'),
    (10, 'finish', 3, 'cycles have run out'),
  ]
  assert decision.action == decide.FINISH
  assert decision.control.num_early_stops == 1


def test_hold_never_leaves_the_last_cycle():
  evaluations = [(s, float(s), 0.1) for s in (9, 10, 12, 13, 15)]
  evaluations.append((16, NAN, 0.1))
  params = make_params(policy='hold', decays=('constant',) * 3)
  events, decision, local_steps = replay(params, 6, evaluations, until=20)
  assert tape(events)[3:] == [
    (9, 'evaluation', 3, 1),
    (10, 'evaluation', 3, 2),
    (12, 'evaluation', 3, 3),
    (12, 'hold', 3, None),
    (13, 'evaluation', 3, 4),
    (15, 'evaluation', 3, 5),
    (16, 'evaluation', 3, 6),
  ]
  stopping = [e['stopping'] for e in events if e['event'] == 'evaluation']
  assert stopping == [0, 1, 1, 1, 1, 1]
  assert decision.action == decide.GO_ON
  assert decision.control.num_early_stops == 0
  # The clock goes on past the nominal end, 4, where the rate stays.
  assert local_steps[-1] == (2, 11.0)


def test_hold_stays_where_the_cycles_after_it_got_no_step():
  # A plan gives every cycle a step; cycle 3 loses its own if the end of cycle 1,
  # step 10, is noticed a step late. What is evaluated after the end is no reason
  # to switch to nowhere.
  lengths = (10.0, 1.0, 1.0)
  params = make_params(policy='hold', lengths=lengths, decays=('constant',) * 3)
  rules = rules_of(params, 6)
  assert [cycle.steps for cycle in rules.cycles] == [10, 1, 1]
  control, clock, found = decide.start(rules), decide.first_clock(rules), []
  for step, seen in ((11, []), (12, []), (13, [Evaluation(13, NAN, 0.1)])):
    decision = decide.decide(control, clock, seen, step, rules)
    control, clock = decision.control, decision.clock
    found.append((decision.action, [e['event'] for e in decision.events]))
  assert found == [
    ('reset', []),
    ('go_on', ['hold']),
    ('go_on', ['evaluation']),
  ]
  assert control.cycle == 1
  assert control.num_early_stops == 0


def test_an_evaluation_at_a_boundary_counts_for_the_cycle_that_ends():
  # It is seen before the first step of the next cycle; although S = 1, the end
  # was scheduled. The next cycle begins with no loss.
  evaluations = [(3, 1.0, 0.1), (4, 2.0, 0.2), (5, 4.0, 0.3)]
  events, decision, _ = replay(make_params(), 6, evaluations, until=6)
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (3, 'evaluation', 1, 1),
    (4, 'evaluation', 1, 2),
    (4, 'cycle_start', 2, 8),
    (5, 'evaluation', 2, 1),
  ]
  assert events[2]['stopping'] == 1
  control = decision.control
  assert control.num_early_stops == 0
  # tau needs the last metric and the run's first one.
  assert control.last_eval_step == 5
  assert (control.last_metric, control.first_metric) == (0.3, 0.1)


def test_one_step_before_and_after_a_boundary():
  for step, end, early in ((3, 8, 1), (5, 12, 1)):
    cycle = 1 if step < 4 else 2
    evaluations = [(step, NAN, 0.1)]
    events, decision, _ = replay(make_params(), 6, evaluations, step + 1)
    assert tape(events)[-2:] == [
      (step, 'switch', cycle, 'loss is not finite'),
      (step, 'cycle_start', cycle + 1, end),
    ]
    assert decision.control.num_early_stops == early


def test_several_evaluations_at_once():
  # A resumed run may have missed some. The first reason counts, also when the
  # loss has recovered since.
  seen = [(1, 1.0, 0.1), (2, 2.0, 0.2), (3, 1.0, 0.3)]
  events, decision, _ = replay(make_params(), 6, {3: seen}, until=4)
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (3, 'evaluation', 1, 1),
    (3, 'evaluation', 1, 2),
    (3, 'evaluation', 1, 3),
    (3, 'switch', 1, 'loss rises'),
    (3, 'cycle_start', 2, 8),
  ]
  assert [e['metric_step'] for e in events[1:4]] == [1, 2, 3]
  assert decision.control.last_eval_step == 3
  assert decision.control.first_metric == 0.1


def test_a_switch_in_the_last_step_but_one_of_a_cycle():
  # 4 steps are left for 3 cycles that were to have one each. There is no
  # boundary at the last step of the run.
  params = make_params(4, lengths=(9.0, 1.0, 1.0, 1.0))
  events, decision, _ = replay(params, 6, [(8, NAN, 0.1)])
  assert tape(events) == [
    (0, 'cycle_start', 1, 9),
    (8, 'evaluation', 1, 1),
    (8, 'switch', 1, 'loss is not finite'),
    (8, 'cycle_start', 2, 10),
    (10, 'cycle_start', 3, 11),
    (11, 'cycle_start', 4, 12),
    (12, 'finish', 4, 'cycles have run out'),
  ]
  assert decision.control.cycle == 3


@pytest.mark.parametrize('lengths', ((100.0, 1.0, 1.0), (1.0, 100.0, 1.0)))
def test_a_plan_that_gives_a_cycle_no_step(lengths):
  with pytest.raises(ValueError, match='lengths=.*each needs at least one'):
    rules_of(make_params(lengths=lengths), 6)


def test_a_switch_before_the_last_step():
  events, _, local_steps = replay(make_params(2), 6, [(11, NAN, 0.1)])
  assert tape(events)[2:] == [
    (11, 'evaluation', 2, 1),
    (11, 'switch', 2, 'loss is not finite'),
    (11, 'finish', 2, 'cycles have run out'),
  ]
  assert len(local_steps) == 11


def test_relative_lengths_hold_after_a_switch():
  # 10 of 40 steps are gone; 1 : 2 of the remaining 30.
  params = make_params(lengths=(1.0, 1.0, 2.0))
  events, _, _ = replay(params, 20, [(4, 1.0, 0.1), (9, NAN, 0.1)])
  assert tape(events)[3:] == [
    (9, 'switch', 1, 'loss is not finite'),
    (9, 'cycle_start', 2, 20),
    (20, 'cycle_start', 3, 40),
    (40, 'finish', 3, 'cycles have run out'),
  ]


def test_without_early_switching_the_rule_is_only_logged():
  params = make_params(early_switching=False)
  evaluations = [(1, 1.0, 0.1), (2, 2.0, 0.1), (3, NAN, 0.1)]
  events, decision, _ = replay(params, 6, evaluations)
  stopping = [e['stopping'] for e in events if e['event'] == 'evaluation']
  assert stopping == [0, 1, 1]
  assert [e['global_step'] for e in events if e['event'] == 'cycle_start'] == [
    0,
    4,
    8,
  ]
  assert decision.control.num_early_stops == 0


def test_the_control_before_the_first_step():
  control = decide.start(rules_of(make_params(), 6))
  assert not decide.has_evaluation(control)
  assert (control.cycle, control.number, control.scale) == (0, 1, 1.0)
  assert (control.start, control.cycle_end, control.horizon) == (0, 4, 12)
  assert control.switching == (0, 0.0, 0.0, INF, 0)
  assert (control.num_evaluations, control.last_eval_step) == (0, -1)
  numbers = (control.last_loss, control.last_metric, control.first_metric)
  assert np.isnan(numbers).all()


def test_deciding_changes_nothing_that_it_was_given():
  rules = rules_of(make_params(), 6)
  control, clock = decide.start(rules), decide.first_clock(rules)
  before = repr((control, clock))
  evaluations = [Evaluation(1, 1.0, 0.1), Evaluation(2, 9.0, 0.1)]
  decide.decide(control, clock, evaluations, 2, rules)
  assert repr((control, clock)) == before
  assert len(evaluations) == 2


def test_decisions_are_those_of_float64():
  """A minimum that creeps by less than float32 resolves is one all the same.

  In float32 all of these losses are 0.3: the minimum would stay at t = 1, be
  k = 2 evaluations old at t = 3, and the cycle be left, as nothing falls.
  """
  losses = [0.3 - t * 1e-10 for t in range(4)]
  assert len(set(np.float32(losses))) == 1
  evaluations = [(t, loss, 0.1) for t, loss in enumerate(losses, start=1)]
  rule = {**EASY, 'eps2': 0.0}
  events, decision, _ = replay(make_params(switching=rule), 9, evaluations, 5)
  stopping = [e['stopping'] for e in events if e['event'] == 'evaluation']
  assert stopping == [0, 0, 0, 0]
  assert decision.control.switching.argmin == 4


def test_repeat_goes_on_with_cycles_like_the_last_one():
  events, decision, local_steps = replay(
    make_params(policy='repeat'), 6, [], until=21
  )
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (4, 'cycle_start', 2, 8),
    (8, 'cycle_start', 3, 12),
    (12, 'cycle_start', 4, 16),
    (16, 'cycle_start', 5, 20),
    (20, 'cycle_start', 6, 24),
  ]
  starts = [e for e in events if e['event'] == 'cycle_start']
  assert [e['setting'] for e in starts] == [1, 2, 3, 3, 3, 3]
  assert [e['peak_value'] for e in starts[2:]] == [PEAK - 0.001] * 4
  assert [e['pace'] for e in starts] == [1.0] * 6
  assert local_steps[12:] == [(2, float(t % 4)) for t in range(9)]
  assert decision.control.horizon == 24


def test_repeat_puts_off_the_horizon_after_a_switch():
  # The last cycle is left before step 10 of 12; a further one has its 4 steps.
  evaluations = [(9, 1.0, 0.1), (10, NAN, 0.1)]
  events, _, local_steps = replay(
    make_params(policy='repeat'), 6, evaluations, until=15
  )
  assert tape(events)[3:] == [
    (9, 'evaluation', 3, 1),
    (10, 'evaluation', 3, 2),
    (10, 'switch', 3, 'loss is not finite'),
    (10, 'cycle_start', 4, 14),
    (14, 'cycle_start', 5, 18),
  ]
  assert local_steps[10:] == [(2, float(t)) for t in (0, 1, 2, 3, 0)]


@pytest.mark.parametrize('policy', ['finish', 'repeat'])
def test_a_cycle_without_an_evaluation_says_so(policy):
  rules = rules_of(make_params(policy=policy), 6)
  control, clock = decide.start(rules), decide.first_clock(rules)
  seen = [Evaluation(4, 1.0, 0.1)]
  first = decide.decide(control, clock, seen, 4, rules)
  assert (first.action, first.was_evaluated) == (decide.RESET, True)
  second = decide.decide(first.control, first.clock, [], 8, rules)
  assert (second.action, second.was_evaluated) == (decide.RESET, False)


def test_hold_at_rate_zero_is_refused():
  with pytest.raises(ValueError, match="policy='hold': .* ends at 0"):
    rules_of(make_params(policy='hold'), 6)


class Stretched:
  """A horizon that is 18 steps from the second evaluation on."""

  initial = (0,)
  binds = False

  def observe(self, state, timing):
    count = state[0] + 1
    return (count,), timing.horizon if count < 2 else 18


def test_a_horizon_that_moves_stretches_the_rest_of_the_run():
  rules = rules_of(make_params(), 6)._replace(horizon=Stretched())
  evaluations = [(1, 1.0, 0.1), (2, 1.0, 0.1)]
  events, decision, local_steps = replay(rules, 6, evaluations, until=18)
  # 2 of 4 nominal steps are left of cycle 1, and 4 + 4 after it: 16 steps are
  # shared out as 1 : 2 : 2.
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (1, 'evaluation', 1, 1),
    (2, 'evaluation', 1, 2),
    (2, 'clock', 1, None),
    (6, 'cycle_start', 2, 12),
    (12, 'cycle_start', 3, 18),
  ]
  assert events[3] == {
    'global_step': 2,
    'event': 'clock',
    'cycle': 1,
    'setting': 1,
    'cycle_end': 6,
    'anchor_local': 2.0,
    'pace': 0.5,
    'scale': 1.0,
  }
  assert decision.control.horizon == 18
  # No jump: the local step goes on from where it was.
  assert local_steps[:6] == [(0, t) for t in (0.0, 1.0, 2.0, 2.5, 3.0, 3.5)]
  third = float(np.float32(4 / 6))
  np.testing.assert_allclose(
    local_steps[6:12], [(1, third * t) for t in range(6)], rtol=1e-12
  )


class Fixed:
  """A horizon that is 12 steps, whatever the policy has put off."""

  initial = ()
  binds = False

  def observe(self, state, timing):
    return state, 12


def test_a_horizon_behind_the_run_moves_nothing():
  rules = rules_of(make_params(policy='repeat'), 6)._replace(horizon=Fixed())
  evaluations = [(s, 1.0, 0.1) for s in (13, 14)]
  events, decision, local_steps = replay(rules, 6, evaluations, until=18)
  assert [e for e in events if e['event'] == 'clock'] == []
  assert tape(events)[3:] == [
    (12, 'cycle_start', 4, 16),
    (13, 'evaluation', 4, 1),
    (14, 'evaluation', 4, 2),
    (16, 'cycle_start', 5, 20),
  ]
  assert local_steps[12:16] == [(2, float(t)) for t in range(4)]
  assert decision.control.horizon == 20


def test_hold_is_refused_before_anything_is_trained():
  check_plan(6, make_params())
  with pytest.raises(ValueError, match="policy='hold': .* ends at 0"):
    check_plan(6, make_params(policy='hold'))
  with pytest.raises(ValueError, match='each needs at least one'):
    check_plan(6, make_params(lengths=(100.0, 1.0, 1.0)))
