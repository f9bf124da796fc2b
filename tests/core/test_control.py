"""Decisions of small runs, written out whole."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from helpers import reference
from helpers.replay import (
  EASY,
  PEAK,
  config_of,
  cycle_ends_of,
  make_params,
  replay,
  tape,
)
from reset_cycles.core import control as control_lib
from reset_cycles.core.horizon import StepHorizon, TimeHorizon
from reset_cycles.core.race import Repeat
from reset_cycles.core.state import from_words, to_words
from reset_cycles.core.workload import Evaluation, Target
from reset_cycles.early_switching import Progress, SmoothedLossRule
from reset_cycles.soft_reset import (
  FULL,
  Cyclic,
  FullReset,
  KeptMomentum,
  ResetPlan,
  SoftReset,
)

NAN, INF = math.nan, math.inf


def test_scheduled_boundaries():
  events, decision, _ = replay(make_params(), 6, [])
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (4, 'cycle_start', 2, 8),
    (8, 'cycle_start', 3, 12),
    (12, 'finish', 3, 'cycles have run out'),
  ]
  assert decision.action == control_lib.FINISH
  assert decision.control.num_early_stops == 0
  starts = [e for e in events if e['event'] == 'cycle_start']
  assert [e['pace'] for e in starts] == [1.0, 1.0, 1.0]
  peaks = [e['peak_value'] for e in starts]
  assert peaks == [PEAK, PEAK + 0.001, PEAK - 0.001]


def test_actions_around_a_boundary():
  config = config_of(make_params(), 6)
  control, clock = control_lib.start(config)
  found = [
    control_lib.decide(control, clock, [], step, config).action
    for step in (3, 4, 5)
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
  assert not math.isfinite(decision.control.last.loss)


def test_a_switch_in_the_last_cycle_finishes_the_run():
  evaluations = [(9, 1.0, 0.1), (10, 2.0, 0.1), (11, 3.0, 0.1)]
  events, decision, _ = replay(make_params(), 6, evaluations)
  assert tape(events)[3:] == [
    (9, 'evaluation', 3, 1),
    (10, 'evaluation', 3, 2),
    (10, 'switch', 3, 'loss rises'),
    (10, 'finish', 3, 'cycles have run out'),
  ]
  assert decision.action == control_lib.FINISH
  assert decision.control.num_early_stops == 1


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
  assert control.last.step == 5
  assert (control.last.metric, control.first.metric) == (0.3, 0.1)


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
  assert decision.control.last.step == 3
  assert decision.control.first.metric == 0.1


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


def test_deciding_changes_nothing_that_it_was_given():
  config = config_of(make_params(), 6)
  control, clock = control_lib.start(config)
  before = repr((control, clock))
  evaluations = [Evaluation(1, 1.0, 0.1), Evaluation(2, 9.0, 0.1)]
  control_lib.decide(control, clock, evaluations, 2, config)
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
  rule = dataclasses.replace(EASY, eps2=0.0)
  events, decision, _ = replay(make_params(switching=rule), 9, evaluations, 5)
  stopping = [e['stopping'] for e in events if e['event'] == 'evaluation']
  assert stopping == [0, 0, 0, 0]
  assert decision.control.switching.argmin == 4


def test_repeat_goes_on_with_cycles_like_the_last_one():
  events, decision, local_steps = replay(
    make_params(policy=Repeat()), 6, [], until=21
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
    make_params(policy=Repeat()), 6, evaluations, until=15
  )
  assert tape(events)[3:] == [
    (9, 'evaluation', 3, 1),
    (10, 'evaluation', 3, 2),
    (10, 'switch', 3, 'loss is not finite'),
    (10, 'cycle_start', 4, 14),
    (14, 'cycle_start', 5, 18),
  ]
  assert local_steps[10:] == [(2, float(t)) for t in (0, 1, 2, 3, 0)]


class Moved(StepHorizon):
  """A horizon that is at a step from the second evaluation on, and a hard limit.

  The step is the budget; evaluations come at as many seconds as steps.
  """

  is_hard_limit = True

  def steps_to_come(self, pace, seconds_left):
    return int(seconds_left) if pace.longest else 0


def replay_moved(to, steps, until, bad=None, **changes):
  """A run of 12 steps whose horizon moves; evaluated after these steps."""
  config = config_of(make_params(horizon=Moved(), **changes), 6, budget=to)
  seen = [(s, NAN if s == bad else 1.0, 0.1, float(s)) for s in steps]
  return replay(config, 6, seen, until=until)


def test_a_horizon_that_moves_stretches_the_rest_of_the_run():
  events, decision, local_steps = replay_moved(18.0, (1, 2), until=18)
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


# Waiting.

UNSEEN = 'the annealed model has not been evaluated'


def waiting(**changes):
  return make_params(wait=True, early_switching=False, **changes)


def test_a_reset_waits_for_the_evaluation_of_the_annealed_model():
  # Evaluated at 1 and every 3 steps: the ends at 4 and 8 are seen at 6 and 9, so
  # that 6 steps are left for 2 cycles after the first one, and 3 for the last.
  seen = [(step, 1.0, step / 100) for step in (1, *range(3, 16, 3))]
  events, _, local_steps = replay(waiting(), 6, seen, until=16)
  assert tape(events, without=()) == [
    (0, 'cycle_start', 1, 4),
    (1, 'evaluation', 1, 1),
    (3, 'evaluation', 1, 2),
    (4, 'wait', 1, UNSEEN),
    (6, 'evaluation', 1, 3),
    (6, 'reset', 2, ''),
    (6, 'cycle_start', 2, 9),
    (9, 'evaluation', 2, 1),
    (9, 'reset', 3, ''),
    (9, 'cycle_start', 3, 12),
    (12, 'evaluation', 3, 1),
    (12, 'finish', 3, 'cycles have run out'),
  ]
  waits = [e['cycle_end'] for e in events if e['event'] == 'wait']
  assert waits == [6]  # 4 and the longest way between two evaluations so far
  metric_steps = [e['metric_step'] for e in events if e['event'] == 'reset']
  assert metric_steps == [6, 9]
  # The clock goes on past the nominal end, where the rate stays.
  assert local_steps[:6] == [(0, float(t)) for t in range(6)]


def test_a_cycle_ends_although_evaluations_come_too_soon():
  """Every interval has a step or two fewer than the one before.

  At 75, less than half an interval is left of the first cycle, which ends at 77,
  is waited for, and is evaluated at 91. An interval more at each evaluation
  would have put its end off to that of the run.
  """
  seen = [1, 21, 40, 58, 75, 91, 106, 120, 133]
  params = waiting(
    n=2, horizon=TimeHorizon(slack=0.0, margin=0.0), budget_factor=1.0
  )
  config = config_of(params, 100, budget=85.0)
  evaluations = [(step, 1.0, 0.5, 10.0 * i) for i, step in enumerate(seen)]
  events, _, _ = replay(config, 100, evaluations, until=134)
  assert [
    (e['global_step'], e['event'], e['cycle'], e['cycle_end'])
    for e in events
    if 'cycle_end' in e
  ] == [
    (0, 'cycle_start', 1, 50),
    (21, 'clock', 1, 81),
    (40, 'clock', 1, 79),
    (58, 'clock', 1, 77),
    (75, 'clock', 1, 77),
    (77, 'wait', 1, 97),
    (91, 'cycle_start', 2, 143),
    (106, 'clock', 2, 138),
    (120, 'clock', 2, 134),
  ]


def test_a_reset_is_never_all_that_the_last_evaluation_sees():
  """The cycle ends at 34, the horizon is 36; the last evaluation comes at 41."""
  params = waiting(
    n=3,
    lengths=(6.0, 1.0, 1.0),
    horizon=TimeHorizon(slack=0.0, margin=0.5),
    policy=Repeat(),
    budget_factor=1.0,
  )
  config = config_of(params, 40, budget=41.0)
  seen = enumerate([1, 11, 21, 31, 41])
  evaluations = [(step, 1.0, 0.5, 10.0 * i) for i, step in seen]
  events, _, _ = replay(config, 40, evaluations, until=41)
  assert tape(events)[-2:] == [
    (31, 'cycle_start', 2, 34),
    (34, 'wait', 2, UNSEEN),
  ]


def test_the_last_cycle_waits_as_well():
  # Three steps, the longest interval, and not the four up to the evaluation.
  for steps, end in (((5, 8, 11, 15), 15), ((5, 7, 9, 15), 14)):
    seen = [(step, 1.0, 0.1) for step in steps]
    events, decision, local_steps = replay(waiting(n=1), 6, seen, 20)
    # After the horizon it waits as long as before it.
    assert tape(events)[4:] == [
      (12, 'wait', 1, UNSEEN),
      *[(15, 'evaluation', 1, 4)] * (end == 15),
      (end, 'finish', 1, 'cycles have run out'),
    ]
    assert decision.action == control_lib.FINISH
    assert len(local_steps) == end


def test_an_evaluation_that_does_not_come_is_given_up():
  events, _, _ = replay(waiting(), 6, [(1, 1, 0.1), (3, 1, 0.1)], until=20)
  # 2 steps after each end; before the horizon, 12, not beyond it.
  assert tape(events)[3:] == [
    (4, 'wait', 1, UNSEEN),
    (6, 'cycle_start', 2, 9),
    (9, 'wait', 2, UNSEEN),
    (11, 'cycle_start', 3, 12),
    (12, 'wait', 3, UNSEEN),
    (14, 'finish', 3, 'cycles have run out'),
  ]


def test_where_no_interval_is_known_nothing_is_waited_for():
  """And tau is not taken from the evaluation after the first step."""
  params = waiting(n=2, lengths=(1.0, 5.0))
  seen = [(1, 1, 0.1), (6, 1, 0.1)]
  events, _, _ = replay(params, 6, seen, until=20)
  assert tape(events, without=())[2:] == [
    (2, 'reset', 2, 'no evaluation in the cycle: tau is 0'),
    (2, 'cycle_start', 2, 12),
    (6, 'evaluation', 2, 1),
    (12, 'wait', 2, UNSEEN),  # for an interval of 5 steps
    (17, 'finish', 2, 'cycles have run out'),
  ]


def test_nothing_is_waited_for_before_the_first_evaluation():
  events, _, _ = replay(waiting(), 6, [], until=20)
  assert [e for e in tape(events) if e[1] == 'wait'] == []
  starts = [e['global_step'] for e in events if e['event'] == 'cycle_start']
  assert starts == [0, 4, 8]


def test_a_switch_needs_no_waiting():
  params = make_params(wait=True)
  evaluations = [(2, 1.0, 0.1), (3, 9.0, 0.1)]
  events, _, _ = replay(params, 6, evaluations, until=4)
  assert tape(events)[-2:] == [
    (3, 'switch', 1, 'loss rises'),
    (3, 'cycle_start', 2, 8),
  ]


def test_further_cycles_wait_as_well():
  """Each ends at a horizon that it has postponed itself."""
  seen = [(step, 1.0, 0.1) for step in (1, 5, 10, 15, 20)]
  events, _, _ = replay(waiting(policy=Repeat()), 6, seen, until=20)
  assert [e[:3] for e in tape(events) if e[1] != 'evaluation'] == [
    (0, 'cycle_start', 1),
    (4, 'cycle_start', 2),  # no interval is known yet
    (8, 'wait', 2),
    (10, 'cycle_start', 3),
    (12, 'wait', 3),
    (15, 'cycle_start', 4),
    (19, 'wait', 4),
  ]


def test_a_late_evaluation_of_an_earlier_model_is_not_waited_for():
  # At step 9, the evaluation of step 7 comes in; the cycle's end was 8.
  seen = {2: [1], 5: [4], 9: [7], 10: [10]}
  config = config_of(waiting(), 12)
  control, clock = control_lib.start(config)
  found = []
  for step in range(12):
    new = [Evaluation(n, 1.0, 0.1) for n in seen.get(step, ())]
    decision = control_lib.decide(control, clock, new, step, config)
    control, clock = decision.control, decision.clock
    found.append((decision.action, decision.due))
  # For an interval, 3 steps; the next cycle ends 2 intervals later.
  assert found[7:] == [
    ('go_on', 8),
    ('go_on', 11),
    ('go_on', 11),
    ('reset', 16),
    ('go_on', 16),
  ]


def test_the_step_before_which_to_decide_again():
  config = config_of(waiting(), 6)
  control, clock = control_lib.start(config)
  found = []
  for step, seen in ((1, [1]), (3, [3]), (4, []), (5, []), (6, [])):
    new = [Evaluation(s, 1.0, 0.1) for s in seen]
    decision = control_lib.decide(control, clock, new, step, config)
    control, clock = decision.control, decision.clock
    events = [event['event'] for event in decision.events]
    found.append((decision.action, decision.due, events))
  assert found == [
    ('go_on', 4, ['evaluation']),
    ('go_on', 4, ['evaluation']),
    ('go_on', 6, ['wait']),
    ('go_on', 6, []),
    ('reset', 9, []),
  ]


# A horizon that moves, and cycles that were planned before it did.


def test_the_last_cycle_keeps_its_share_of_what_was_left():
  # At step 2 of 12, 10 steps of the only cycle are left, of 16 to 18.
  events, _, _ = replay_moved(18.0, (1, 2), 5, n=1)
  assert cycle_ends_of(events) == [
    (0, 'cycle_start', 12),
    (2, 'clock', 18),
  ]
  # Back again: 14 of 14 to 4 steps.
  config = config_of(make_params(n=1, horizon=Moved()), 6, budget=18.0)
  seen = [(1, 1, 0.1, 1.0), (2, 1, 0.1, 2.0), (4, 1, 0.1, 14.0)]
  events, decision, _ = replay(config, 6, seen, until=8)
  assert cycle_ends_of(events)[1:] == [(2, 'clock', 18), (4, 'clock', 8)]
  assert decision.control.horizon == 8


def test_one_of_several_further_cycles_keeps_its_share_of_what_was_left():
  """The chain is over at 4 of 48: 44 steps are three of the scaled length, 16.

  At 8 the horizon moves to 88. Twice as many steps are left, and the cycle that
  was to end at 19 has 22 instead of 11.
  """
  params = make_params(policy=Repeat(), horizon=Moved())
  config = config_of(params, 6, budget=48.0)
  seen = [(s, NAN if s > 1 else 1.0, 0.1, float(s)) for s in (1, 2, 3, 4)]
  seen.append((8, 1.0, 0.1, 8.0 - 40.0))
  events, _, _ = replay(config, 6, seen, until=9)
  assert cycle_ends_of(events)[-2:] == [
    (4, 'cycle_start', 19),
    (8, 'clock', 30),
  ]


def test_the_length_of_a_further_cycle_under_a_horizon_that_has_moved():
  """Scaled with the horizon: 4 of 12 steps are 8 of 24.

  Left at step 17, after the chain: 7 steps are one cycle of about 8, where the
  planned 4 would make two of them.
  """
  events, _, _ = replay_moved(24.0, (1, 2, 17), 20, bad=17, policy=Repeat())
  assert cycle_ends_of(events) == [
    (0, 'cycle_start', 4),
    (2, 'clock', 7),
    (7, 'cycle_start', 16),
    (16, 'cycle_start', 24),
    (17, 'cycle_start', 24),
  ]


def test_a_horizon_that_does_not_bind_stretches_nothing():
  class Loose(Moved):
    is_hard_limit = False

  config = config_of(make_params(horizon=Loose()), 6, budget=18.0)
  seen = [(1, 1.0, 0.1, 1.0), (2, 1.0, 0.1, 2.0)]
  events, decision, _ = replay(config, 6, seen, until=6)
  assert decision.control.horizon == 18
  # Cycles to come are laid over the steps that the run is now said to have.
  assert cycle_ends_of(events) == [
    (0, 'cycle_start', 4),
    (4, 'cycle_start', 11),
  ]


# What a reset does, and what is written of it.


RISING = Target('m', 0.8, True)


def decision_at(params, evaluations, step, target=RISING):
  """The first reset of a run, at a step."""
  config = config_of(params, 6, target)
  control, clock = control_lib.start(config)
  new = [Evaluation(*e) for e in evaluations]
  return control_lib.decide(control, clock, new, step, config), config


@pytest.mark.parametrize(
  ('mode', 'seen', 'is_finite', 'plan', 'note'),
  (
    (SoftReset(), [(4, 1.0, 0.6)], True, (0.25, 0.875, True), ''),
    (SoftReset(alpha=1.0), [(4, 1.0, 0.6)], True, (0.25, 0.75, True), ''),
    (SoftReset(), [(4, 1.0, 0.9)], True, (0.0, 1.0, True), ''),
    (SoftReset(), [(4, 1.0, NAN)], True, FULL, 'the model is not finite'),
    (SoftReset(), [(4, INF, 0.8)], True, FULL, 'the model is not finite'),
    (SoftReset(), [(4, 1.0, 0.6)], False, FULL, 'the model is not finite'),
    (Cyclic(), [(4, NAN, 0.6)], True, FULL, 'the model is not finite'),
    (Cyclic(), [], False, FULL, 'the model is not finite'),
    (KeptMomentum(), [(4, 1.0, NAN)], True, FULL, 'the model is not finite'),
    (KeptMomentum(), [(4, 1.0, 0.6)], True, (1.0, 1.0, True), ''),
    (Cyclic(), [(4, 1.0, 0.6)], True, (0.0, 1.0, True), ''),
    (FullReset(), [(4, 1.0, 0.6)], True, FULL, ''),
    (
      SoftReset(),
      [],
      True,
      (0.0, 1.0, True),
      'no evaluation in the cycle: tau is 0',
    ),
    (FullReset(), [], True, FULL, ''),
  ),
)
def test_the_plan_of_a_reset(mode, seen, is_finite, plan, note):
  params = make_params(reset=mode, early_switching=False)
  decision, config = decision_at(params, seen, 4)
  found, event = control_lib.plan_reset(decision, config, lambda: is_finite)
  np.testing.assert_allclose(tuple(found), tuple(plan), atol=1e-15)
  assert event['note'] == note
  assert event['tau'] == found.tau
  is_full = plan is FULL
  assert event['mode'] == ('FullReset' if is_full else type(mode).__name__)


def test_what_is_written_of_a_reset():
  decision, config = decision_at(make_params(), [(2, 1.0, 0.6), (3, 9, 0.7)], 3)
  _, event = control_lib.plan_reset(decision, config, lambda: True)
  assert event == {
    'event': 'reset',
    'cycle': 2,
    'reason': 'early',
    'mode': 'SoftReset',
    'tau': 1 - 0.7 / 0.8,
    'alpha': 0.5,
    'metric': 0.7,
    'metric_step': 3,
    'note': '',
  }
  decision, config = decision_at(make_params(reset=Cyclic()), [], 4)
  _, event = control_lib.plan_reset(decision, config, lambda: True)
  assert (event['reason'], event['alpha']) == ('scheduled', '')


def test_an_evaluation_of_the_cycle_before_is_not_this_ones():
  config = config_of(make_params(early_switching=False), 6)
  decision, _ = decision_at(make_params(), [(4, 1.0, 0.6)], 4)
  second = control_lib.decide(decision.control, decision.clock, [], 8, config)
  plan, event = control_lib.plan_reset(second, config, lambda: True)
  assert (plan.tau, event['note']) == (
    0.0,
    'no evaluation in the cycle: tau is 0',
  )


@pytest.mark.parametrize(('scale', 'tau'), (('log', 0.5), ('linear', 0.25)))
def test_tau_is_of_the_scale_of_the_reset_and_of_the_first_metric(scale, tau):
  falling = Target('m', 0.1, False)
  params = make_params(reset=SoftReset(scale=scale), early_switching=False)
  seen = [(1, 1.0, 0.9), (2, 1.0, 0.5), (4, 1.0, 0.3)]
  decision, config = decision_at(params, seen, 4, falling)
  plan, _ = control_lib.plan_reset(decision, config, lambda: True)
  assert plan.tau == pytest.approx(tau, abs=1e-15)


def test_a_tau_of_ones_own():
  asked = []

  def own_tau(*args):
    asked.append(args)
    return 0.5

  decision, config = decision_at(make_params(), [(1, 1, 0.3), (4, 1.0, 0.6)], 4)
  plan, event = control_lib.plan_reset(decision, config, lambda: True, own_tau)
  assert asked == [(0.6, 0.3, 4)]
  assert tuple(plan) == (0.5, 0.75, True) and event['tau'] == 0.5
  for bad in (-0.1, 1.1, NAN):
    with pytest.raises(ValueError, match=r'tau\(0.6, 0.3, 4\)=.* in \[0, 1\]'):
      control_lib.plan_reset(
        decision, config, lambda: True, lambda *a, bad=bad: bad
      )


# Beside the slow twin.


def random_run(seed):
  """Settings, step_hint, evaluations and a direction."""
  rng = np.random.default_rng(seed)
  params = make_params(
    n=int(rng.integers(1, 5)),
    lengths=None,
    budget_factor=float(rng.choice([1.0, 1.5, 2.0])),
    switching=SmoothedLossRule(
      lam=float(rng.uniform(0.3, 1.0)),
      eps1=float(rng.uniform(0.02, 0.3)),
      eps2=float(rng.uniform(0.0, 0.2)),
      k=int(rng.integers(1, 4)),
      m=int(rng.integers(1, 4)),
    ),
    early_switching=bool(rng.random() < 0.8),
    wait=bool(rng.random() < 0.5),
    reset=SoftReset(scale=str(rng.choice(['log', 'linear']))),
    **({'policy': Repeat()} if rng.random() < 0.5 else {}),
  )
  steps = np.unique(rng.integers(1, 120, 25)).tolist()
  losses = np.exp(np.cumsum(rng.normal(-0.05, 0.15, len(steps))))
  losses[rng.random(len(steps)) < 0.03] = NAN
  metrics = rng.uniform(0.05, 1.2, len(steps))
  seen = list(zip(steps, losses.tolist(), metrics.tolist()))
  return params, int(rng.integers(20, 60)), seen, bool(rng.random() < 0.5)


def comparable(events):
  names = ('cycle_end', 'loss', 'smoothed_loss', 'stopping', 'metric_step')
  names += ('pace', 'peak_value', 'setting', 'tau', 'reason')
  return [
    {
      name: event.get(name)
      for name in ('global_step', 'event', 'cycle', *names)
      if event.get(name) is not None
      and not (event['event'] == 'reset' and name == 'metric_step')
      and not (event['event'] == 'wait' and name == 'reason')
    }
    for event in events
  ]


@pytest.mark.parametrize('seed', range(60))
def test_runs_agree_with_their_twin(seed):
  params, step_hint, seen, rising = random_run(seed)
  target = Target('m', 0.8 if rising else 0.2, rising)
  config = config_of(params, step_hint, target)
  events, _, local_steps = replay(config, step_hint, seen, until=130)
  twin = reference.run(params, step_hint, seen, target.value, rising, until=130)
  if params.policy == Repeat():
    # A further cycle after one that was left has half of its rate; see below.
    events = [{k: v for k, v in e.items() if k != 'peak_value'} for e in events]
    for event in twin.events:
      event.pop('peak_value', None)
  found, expected = comparable(events), comparable(twin.events)
  assert len(found) == len(expected)
  for ours, theirs in zip(found, expected):
    tau, wanted = ours.pop('tau', 0.0), theirs.pop('tau', 0.0)
    assert tau == pytest.approx(wanted, rel=1e-12, abs=1e-13)
    np.testing.assert_equal(ours, theirs)
  assert len(local_steps) == len(twin.rates)


@pytest.mark.parametrize('seed', range(0, 60, 7))
def test_a_control_that_is_saved_before_every_step_decides_the_same(seed):
  params, step_hint, seen, rising = random_run(seed)
  config = config_of(params, step_hint, Target('m', 0.8, rising))
  like, _ = control_lib.start(config)
  whole = replay(config, step_hint, seen, until=130)
  saved = replay(
    config,
    step_hint,
    seen,
    until=130,
    save=lambda control: from_words(to_words(control), like),
  )
  np.testing.assert_equal(saved[0], whole[0])
  assert repr(saved[1].control) == repr(whole[1].control)


def test_a_further_cycle_after_one_that_was_left_has_half_of_its_rate():
  seen = [(9, NAN, 0.1), (14, NAN, 0.1), (19, NAN, 0.1)]
  events, _, _ = replay(make_params(policy=Repeat()), 6, seen, until=30)
  starts = [e for e in events if e['event'] == 'cycle_start'][2:]
  assert [(e['global_step'], e['scale']) for e in starts] == [
    (8, 1.0),
    (9, 0.5),
    (13, 0.5),
    (14, 0.25),
    (18, 0.25),
    (19, 0.125),
    (23, 0.125),
    (27, 0.125),
  ]
  assert starts[1]['peak_value'] == (PEAK - 0.001) * 0.5


def test_a_verdict_on_the_chain_is_heard_at_a_cycles_end():
  """The evaluation for which a cycle waits may be the only one of it."""
  params = make_params(
    lengths=(2.0, 1.0, 1.0),
    policy=Repeat(),
    switching=Progress(min_share=0.3, max_loss_drop=9.0),
    wait=True,
  )
  seen = [(1, 1.0, 0.1), (3, 1.0, 0.1), (6, 1.0, 0.1)]
  events, decision, _ = replay(params, 6, seen, until=7)
  assert tape(events, without=('evaluation',))[1:] == [
    (6, 'switch', 1, 'target out of reach'),
    (6, 'reset', 2, ''),
    (6, 'cycle_start', 2, 9),
  ]
  # A rule that judges a cycle has nothing to say of one that is over.
  easy = dataclasses.replace(params, switching=EASY)
  seen = [(1, 1.0, 0.1), (3, 1.0, 0.1), (6, 9.0, 0.1)]
  events, _, _ = replay(easy, 6, seen, until=7)
  assert [e for e in events if e['event'] == 'switch'] == []


def test_a_short_cycle_that_waits_lasts_an_interval():
  """Its 2 steps would end before any evaluation."""
  params = waiting(lengths=(8.0, 1.0, 8.0))
  seen = [(step, 1.0, 0.1) for step in (1, 6, 11, 16)]
  events, _, _ = replay(params, 17, seen, until=17)
  assert cycle_ends_of(events) == [
    (0, 'cycle_start', 16),
    (16, 'cycle_start', 21),
  ]


def test_a_chain_begins_anew_with_any_full_reset():
  config = config_of(make_params(switching=Progress(), policy=Repeat()), 6)
  decision, _ = decision_at(make_params(switching=Progress()), [(3, 1, 0.1)], 4)
  control = decision.control
  kept = control_lib.after_reset(control, ResetPlan(0.9, 0.5, True), config)
  assert kept is control and control.chain_start == 0
  new = control_lib.after_reset(control, FULL, config)
  assert (new.chain_start, new.switching) == (4, Progress.initial)
