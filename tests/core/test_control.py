"""Decisions of small runs, written out whole, and beside a slow twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers import reference
from helpers.replay import (
  PEAK,
  config_of,
  cycle_ends_of,
  make_params,
  replay,
  tape,
)
from reset_cycles.core import control as control_lib
from reset_cycles.core.horizon import StepHorizon
from reset_cycles.core.race import Repeat
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
OVER = 'cycles have run out'


def of(events, event, *names):
  """(global_step, these values) of each event of a kind."""
  return [
    (e['global_step'], *(e[name] for name in names))
    for e in events
    if e['event'] == event
  ]


def decisions(config, seen, steps):
  """Decisions before each of the steps, with what has come in by then."""
  control, clock = control_lib.start(config)
  found = []
  for step in steps:
    new = [Evaluation(*e) for e in seen.get(step, ())]
    decision = control_lib.decide(control, clock, new, step, config)
    control, clock = decision.control, decision.clock
    found.append(decision)
  return found


@pytest.mark.parametrize(
  ('seen', 'expected'),
  (
    (
      {},
      [
        (4, 'cycle_start', 2, 8),
        (8, 'cycle_start', 3, 12),
        (12, 'finish', 3, OVER),
      ],
    ),
    # Left before step 2 of 12: the remaining 10 are 5 + 5. Evaluations count
    # from 1 in each cycle, and a rise from one cycle to the next is none.
    (
      {1: (1.0,), 2: (1.5,), 4: (9.0,), 6: (8.0,), 8: (7.0,), 9: (8.0,)},
      [
        (1, 'evaluation', 1, 1),
        (2, 'evaluation', 1, 2),
        (2, 'switch', 1, 'loss rises'),
        (2, 'cycle_start', 2, 7),
        (4, 'evaluation', 2, 1),
        (6, 'evaluation', 2, 2),
        (7, 'cycle_start', 3, 12),
        (8, 'evaluation', 3, 1),
        (9, 'evaluation', 3, 2),
        (9, 'switch', 3, 'loss rises'),
        (9, 'finish', 3, OVER),
      ],
    ),
    # An evaluation at a boundary counts for the cycle that ends. Although S = 1
    # then, the end was scheduled. The next cycle begins with no loss, and one
    # that is not finite ends it at once.
    (
      {3: (1.0,), 4: (2.0,), 5: (INF,)},
      [
        (3, 'evaluation', 1, 1),
        (4, 'evaluation', 1, 2),
        (4, 'cycle_start', 2, 8),
        (5, 'evaluation', 2, 1),
        (5, 'switch', 2, 'loss is not finite'),
        (5, 'cycle_start', 3, 12),
        (12, 'finish', 3, OVER),
      ],
    ),
    # A resumed run may have missed some. The first reason counts.
    (
      {3: (1.0, 2.0, NAN)},
      [
        (3, 'evaluation', 1, 1),
        (3, 'evaluation', 1, 2),
        (3, 'evaluation', 1, 3),
        (3, 'switch', 1, 'loss rises'),
        (3, 'cycle_start', 2, 8),
        (8, 'cycle_start', 3, 12),
        (12, 'finish', 3, OVER),
      ],
    ),
  ),
  ids=('planned', 'left', 'boundary', 'several'),
)
def test_the_tape_of_a_chain(seen, expected):
  rows = {
    step: [(step, loss, 0.1) for loss in losses]
    for step, losses in seen.items()
  }
  events, decision, local_steps = replay(make_params(), 6, rows)
  assert tape(events) == [(0, 'cycle_start', 1, 4), *expected]
  assert decision.action == control_lib.FINISH
  assert decision.control.num_early_stops == len(of(events, 'switch'))
  assert len(local_steps) == expected[-1][0]


def test_an_evaluation_in_full():
  events, _, _ = replay(make_params(), 6, [(2, 1.0, 0.2), (3, 1.625, 0.25)])
  assert events[2] == {
    'global_step': 3,
    'event': 'evaluation',
    'cycle': 1,
    'evaluation': 2,
    'loss': 1.625,
    'smoothed_loss': 1.625,
    'derivative': 0.625,
    'case1': 1,
    'case2': 0,
    'stopping': 1,
    'metric': 0.25,
    'metric_step': 3,
  }


def test_a_further_cycle_after_one_that_was_left_has_half_of_its_rate():
  """And the length of the last one, whatever the horizon was."""
  seen = [(9, NAN, 0.1), (14, 1.0, 0.1), (15, 2.0, 0.1), (19, NAN, 0.1)]
  events, decision, _ = replay(make_params(policy=Repeat()), 6, seen, 30)
  names = ('setting', 'cycle_end', 'scale', 'peak_value')
  assert of(events, 'cycle_start', *names)[2:] == [
    (start, 3, end, scale, (PEAK - 0.001) * scale)
    for start, end, scale in (
      (8, 12, 1.0),
      (9, 13, 0.5),
      (13, 17, 0.5),
      (15, 19, 0.25),
      (19, 23, 0.125),
      (23, 27, 0.125),
      (27, 31, 0.125),
    )
  ]
  assert decision.control.horizon == 31


# A horizon that moves, and cycles that were planned before it did.


class Moved(StepHorizon):
  """A horizon that is at a step from the second evaluation on, and a hard limit.

  The step is the budget; evaluations come at as many seconds as steps.
  """

  is_hard_limit = True

  def steps_to_come(self, pace, seconds_left):
    return int(seconds_left) if pace.longest else 0


class Loose(Moved):
  is_hard_limit = False


def replay_moved(to, seen, bad=(), **changes):
  """A run of 12 steps whose horizon moves; evaluated after {steps: seconds}."""
  config = config_of(
    make_params(**{'horizon': Moved(), **changes}), 6, budget=to
  )
  rows = [(s, NAN if s in bad else 1.0, 0.1, float(t)) for s, t in seen.items()]
  return replay(config, 6, rows, until=18)


def test_a_horizon_that_moves_stretches_the_rest_of_the_run():
  events, decision, local_steps = replay_moved(18.0, {1: 1, 2: 2})
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


@pytest.mark.parametrize(
  ('to', 'seen', 'changes', 'ends'),
  (
    # The last cycle keeps its share of what was left. At step 2 of 12, 10 steps
    # of the only cycle are, of 16 to 18; back again, 14 of 14 to 4.
    (
      18.0,
      {1: 1, 2: 2, 4: 14},
      {'n': 1},
      [(0, 'cycle_start', 12), (2, 'clock', 18), (4, 'clock', 8)],
    ),
    # So does one of several further cycles. The chain is over at 13 of 48: 35
    # steps are two of about the scaled length, 16. At 16 the horizon moves to
    # 89. Of 73 steps instead of 32 the cycle that was to end at 31 has 34.2,
    # rounded up, instead of 15.
    (
      48.0,
      {1: 1, 2: 2, 3: 3, 13: 13, 16: -25},
      {'policy': Repeat(), 'bad': (2, 3, 13)},
      [(13, 'cycle_start', 31), (16, 'clock', 51)],
    ),
    # A further cycle's length is scaled with the horizon: 4 of 12 steps are 8 of
    # 24. Left at step 17, after the chain: 7 steps are one cycle of about 8,
    # where the planned 4 would make two of them.
    (
      24.0,
      {1: 1, 2: 2, 17: 17},
      {'policy': Repeat(), 'bad': (17,)},
      [
        (0, 'cycle_start', 4),
        (2, 'clock', 7),
        (7, 'cycle_start', 16),
        (16, 'cycle_start', 24),
        (17, 'cycle_start', 24),
      ],
    ),
    # Where it does not bind, it stretches nothing. Cycles to come are laid over
    # the steps that the run is now said to have.
    (
      18.0,
      {1: 1, 2: 2},
      {'horizon': Loose()},
      [(0, 'cycle_start', 4), (4, 'cycle_start', 11), (11, 'cycle_start', 18)],
    ),
    # A cycle that starts at the horizon is as long as planned.
    (
      12.0,
      {1: 1, 2: 2, 12: 12},
      {'policy': Repeat()},
      [(8, 'cycle_start', 12), (12, 'cycle_start', 16)],
    ),
    # At 4 it would be at 2, which is over: nothing moves, and the cycle's end,
    # at 18, has its share of what comes next.
    (
      18.0,
      {1: 1, 2: 2, 4: 20, 6: 6},
      {'n': 1},
      [(0, 'cycle_start', 12), (2, 'clock', 18), (6, 'clock', 18)],
    ),
    # Cycles of 7 and 14 steps, an interval of 4. At 5, half of it is left of the
    # first, and one of the 8 steps up to the new horizon is its share. It waits
    # for the next evaluation, at 9,
    (
      13.0,
      {1: 1, 5: 5},
      {'n': 2, 'lengths': (1.0, 2.0), 'budget_factor': 3.5, 'wait': True},
      [(0, 'cycle_start', 7), (5, 'clock', 9)],
    ),
    # unless less than half of an interval had been left of it:
    (
      13.0,
      {1: 1, 5: 5},
      {'n': 2, 'lengths': (2.0, 5.0), 'budget_factor': 3.5, 'wait': True},
      [(5, 'clock', 6), (10, 'cycle_start', 13)],
    ),
    # evaluations that come a little too soon would put it off again and again.
    # Nor does it wait up to the horizon, 9, which lies before the evaluation
    # that is waited for: nothing else would be seen of the next cycle.
    (
      9.0,
      {1: 1, 5: 5},
      {
        **{'n': 2, 'lengths': (1.0, 2.0), 'budget_factor': 3.5, 'wait': True},
        'policy': Repeat(),
      },
      [(0, 'cycle_start', 7), (5, 'clock', 6), (10, 'cycle_start', 24)],
    ),
  ),
)
def test_ends_of_cycles_under_a_horizon_that_moves(to, seen, changes, ends):
  events, _, _ = replay_moved(to, seen, **changes)
  assert cycle_ends_of(events)[-len(ends) :] == ends
  # Each cycle keeps its factor.
  scales = {(e['cycle'], e['scale']) for e in events if 'scale' in e}
  assert len(scales) == len(of(events, 'cycle_start'))


# Waiting.

UNSEEN = 'the annealed model has not been evaluated'
UNKNOWN = 'no evaluation in the cycle: tau is 0'
# Leaves at each cycle's second evaluation.
EAGER = SmoothedLossRule(lam=1.0, eps1=0.0)


def waiting(**changes):
  return make_params(**{'wait': True, 'early_switching': False, **changes})


@pytest.mark.parametrize(
  ('changes', 'seen', 'expected'),
  (
    # Evaluated at 1 and every 3 steps, the ends at 4 and 8 are seen at 6 and 9,
    # so that 6 steps are left for 2 cycles after the first, and 3 for the last.
    (
      {},
      (1, 3, 6, 9, 12),
      [
        (4, 'wait', 1, UNSEEN),
        (6, 'reset', 2, ''),
        (6, 'cycle_start', 2, 9),
        (9, 'reset', 3, ''),
        (9, 'cycle_start', 3, 12),
        (12, 'finish', 3, OVER),
      ],
    ),
    # The last cycle waits as well: for three steps, the longest interval, and
    # not the four up to the evaluation. After the horizon as long as before it.
    (
      {'n': 1},
      (5, 8, 11, 15),
      [(12, 'wait', 1, UNSEEN), (15, 'finish', 1, OVER)],
    ),
    (
      {'n': 1},
      (5, 7, 9, 15),
      [(12, 'wait', 1, UNSEEN), (14, 'finish', 1, OVER)],
    ),
    # An evaluation that does not come is given up, 2 steps after each end.
    (
      {},
      (1, 3),
      [
        (4, 'wait', 1, UNSEEN),
        (6, 'reset', 2, ''),
        (6, 'cycle_start', 2, 9),
        (9, 'wait', 2, UNSEEN),
        (11, 'reset', 3, UNKNOWN),
        (11, 'cycle_start', 3, 12),
        (12, 'wait', 3, UNSEEN),
        (14, 'finish', 3, OVER),
      ],
    ),
    # Before the horizon, 12, not beyond it: nothing is left for another cycle.
    (
      {'n': 2, 'lengths': (11.0, 1.0)},
      (1, 6),
      [(11, 'wait', 1, UNSEEN), (12, 'finish', 1, OVER)],
    ),
    # Where no interval is known nothing is waited for, and tau is not taken
    # from the evaluation after the first step. Later, an interval is 5 steps.
    (
      {'n': 2, 'lengths': (1.0, 5.0)},
      (1, 6),
      [
        (2, 'reset', 2, UNKNOWN),
        (2, 'cycle_start', 2, 12),
        (12, 'wait', 2, UNSEEN),
        (17, 'finish', 2, OVER),
      ],
    ),
    # A cycle of one step of 60 ends an interval after the last evaluation.
    (
      {'lengths': (29.0, 1.0, 30.0), 'budget_factor': 10.0},
      (1, 11, 21, 31),
      [
        (29, 'wait', 1, UNSEEN),
        (31, 'reset', 2, ''),
        (31, 'cycle_start', 2, 41),
        (41, 'wait', 2, UNSEEN),
        (51, 'reset', 3, UNKNOWN),
        (51, 'cycle_start', 3, 60),
        (60, 'wait', 3, UNSEEN),
        (70, 'finish', 3, OVER),
      ],
    ),
    # After an early switch nothing is waited for.
    (
      {'n': 2, 'early_switching': True, 'switching': EAGER},
      (2, 3),
      [
        (3, 'switch', 1, 'loss rises'),
        (3, 'reset', 2, ''),
        (3, 'cycle_start', 2, 12),
        (12, 'wait', 2, UNSEEN),
        (13, 'finish', 2, OVER),
      ],
    ),
  ),
)
def test_how_long_a_cycles_end_waits(changes, seen, expected):
  rows = [(step, 1.0, 0.1) for step in seen]
  events, _, local_steps = replay(waiting(**changes), 6, rows, until=80)
  assert tape(events, without=('evaluation',))[1:] == expected
  assert len(local_steps) == expected[-1][0]
  # The clock goes on past the nominal end, where the rate stays.
  first_end = next(step for step, what, *_ in expected if what != 'wait')
  assert local_steps[:first_end] == [(0, float(t)) for t in range(first_end)]


def test_a_model_that_is_not_finite_is_not_waited_for():
  """Its evaluation, after step 5 of 6, comes in at the cycle's end."""
  config = config_of(waiting(n=2), 6)
  for loss, action in ((1.0, control_lib.GO_ON), (NAN, control_lib.RESET)):
    seen = {6: [(1, 1.0, 0.1), (3, 1.0, 0.1), (5, loss, 0.1)]}
    [decision] = decisions(config, seen, [6])
    assert decision.action == action


def test_the_step_before_which_to_decide_again():
  # At step 4, the evaluation of step 3 comes in; the cycle's end was 4.
  rows = ((2, 1), (4, 3), (6, 6))
  seen = {step: [(of_step, 1.0, 0.1)] for step, of_step in rows}
  found = decisions(config_of(waiting(), 6), seen, (2, 4, 5, 6, 7))
  assert [(decision.action, decision.due) for decision in found] == [
    *(('go_on', 4), ('go_on', 6), ('go_on', 6), ('reset', 9), ('go_on', 9))
  ]


# What a reset does, and what is written of it.

BROKEN = 'the model is not finite'


def reset_at(
  step, seen, is_finite=True, own_tau=None, falling=False, **changes
):
  """The plan and the event of a run's reset before a step."""
  target = Target('m', 0.1, False) if falling else Target('m', 0.8, True)
  config = config_of(make_params(**changes), 6, target)
  config = config._replace(own_tau=own_tau)
  [decision] = decisions(config, {step: seen}, [step])
  return control_lib.plan_reset(decision, config, lambda: is_finite)


@pytest.mark.parametrize(
  ('mode', 'seen', 'is_finite', 'plan', 'note'),
  (
    (SoftReset(), (1.0, 0.6), True, (0.25, 0.875, True), ''),
    (SoftReset(alpha=1.0), (1.0, 0.6), True, (0.25, 0.75, True), ''),
    (SoftReset(), (1.0, 0.9), True, (0.0, 1.0, True), ''),
    (SoftReset(), None, True, (0.0, 1.0, True), UNKNOWN),
    (KeptMomentum(), (1.0, 0.6), True, (1.0, 1.0, True), ''),
    (Cyclic(), (1.0, 0.6), True, (0.0, 1.0, True), ''),
    (FullReset(), (1.0, 0.6), True, FULL, ''),
    (FullReset(), None, True, FULL, ''),
    (SoftReset(), (1.0, NAN), True, FULL, BROKEN),
    (SoftReset(), (INF, 0.8), True, FULL, BROKEN),
    (SoftReset(), (1.0, 0.6), False, FULL, BROKEN),
    (Cyclic(), (NAN, 0.6), True, FULL, BROKEN),
    (Cyclic(), None, False, FULL, BROKEN),
    (KeptMomentum(), (1.0, NAN), True, FULL, BROKEN),
  ),
)
def test_the_plan_of_a_reset(mode, seen, is_finite, plan, note):
  rows = [(1, *seen)] if seen else []
  found, event = reset_at(4, rows, is_finite, reset=mode, early_switching=False)
  np.testing.assert_allclose(tuple(found), tuple(plan), atol=1e-15)
  assert (event['note'], event['tau']) == (note, found.tau)
  name = 'FullReset' if plan is FULL else type(mode).__name__
  assert event['mode'] == name


def test_what_is_written_of_a_reset():
  _, event = reset_at(3, [(2, 1.0, 0.6), (3, 9, 0.7)])
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
  _, event = reset_at(4, [], reset=Cyclic())
  assert (event['reason'], event['alpha']) == ('scheduled', '')


@pytest.mark.parametrize(('scale', 'tau'), (('log', 0.5), ('linear', 0.25)))
def test_tau_is_of_the_scale_of_the_reset_and_of_the_first_metric(scale, tau):
  seen = [(1, 1.0, 0.9), (2, 1.0, 0.5), (4, 1.0, 0.3)]
  plan, _ = reset_at(4, seen, falling=True, reset=SoftReset(scale=scale))
  assert plan.tau == pytest.approx(tau, abs=1e-15)


def test_a_tau_of_ones_own():
  seen, asked = [(1, 1, 0.3), (3, 1.0, 0.6)], []

  def own_tau(*args):
    asked.append(args)
    return 0.5

  plan, event = reset_at(4, seen, own_tau=own_tau)
  assert asked == [(0.6, 0.3, 4)]
  assert tuple(plan) == (0.5, 0.75, True) and event['tau'] == 0.5
  for bad in (-0.1, 1.1, NAN):
    with pytest.raises(ValueError, match=r'tau\(0.6, 0.3, 4\)=.* in \[0, 1\]'):
      reset_at(4, seen, own_tau=lambda *args, bad=bad: bad)


# Beside the slow twin.


def random_run(seed):
  """A configuration, and evaluations."""
  rng = np.random.default_rng(seed)
  params = make_params(
    n=int(rng.integers(1, 5)),
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
  step_hint, rising = int(rng.integers(20, 60)), bool(rng.random() < 0.5)
  target = Target('m', 0.8 if rising else 0.2, rising)
  return config_of(params, step_hint, target), step_hint, seen


def comparable(events):
  """What the twin says of events, too.

  A further cycle after one that was left has half of its rate, which it leaves
  out.
  """
  names = {
    'evaluation': ('loss', 'smoothed_loss', 'stopping', 'metric_step'),
    'cycle_start': ('cycle_end', 'pace', 'setting'),
    'reset': ('reason',),
    'switch': ('reason',),
    'finish': ('reason',),
    'wait': ('cycle_end',),
  }
  return [
    tuple(e[n] for n in ('global_step', 'event', 'cycle', *names[e['event']]))
    for e in events
  ]


@pytest.mark.parametrize('seed', range(60))
def test_runs_agree_with_their_twin(seed):
  config, step_hint, seen = random_run(seed)
  events, _, local_steps = replay(config, step_hint, seen, until=130)
  params, (_, goal, rising) = config.settings, config.target
  twin, steps = reference.run(params, step_hint, seen, goal, rising, until=130)
  np.testing.assert_equal(comparable(events), comparable(twin))
  taus = [[e['tau'] for e in x if 'tau' in e] for x in (events, twin)]
  assert taus[0] == pytest.approx(taus[1], rel=1e-12, abs=1e-13)
  assert len(local_steps) == steps


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


def test_a_full_reset_begins_a_new_chain():
  params = make_params(switching=Progress(), early_switching=False)
  config = config_of(params, 6)
  seen = {step: [(step, 1.0, 0.1)] for step in (3, 6)}
  *_, decision = decisions(config, seen, (3, 4, 6, 8))
  control = decision.control
  kept = control_lib.after_reset(control, ResetPlan(0.9, 0.5, True), config)
  assert kept is control and control.chain_start == 0
  assert control.switching.f[-2:] == (3 / 12, 6 / 12)
  new = control_lib.after_reset(control, FULL, config)
  assert (new.chain_start, new.switching) == (8, Progress.initial)
  # The chain lasts up to the horizon, and at least to the cycle's end, 12.
  for horizon, share in ((16, 2 / 8), (12, 2 / 4), (9, 2 / 4)):
    moved = new._replace(horizon=horizon)
    found, _ = control_lib.observe(moved, Evaluation(10, 1.0, 0.1), config)
    assert found.switching.f[-1] == share
