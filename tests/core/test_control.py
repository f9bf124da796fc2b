"""Transitions of small runs, written out whole, and beside a slow twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers import reference
from helpers.replay import (
  PEAK,
  Still,
  config_of,
  make_params,
  of,
  replay,
  story,
  transitions,
)
from reset_cycles.core import control as control_lib
from reset_cycles.core.evaluation import Evaluation, Target
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.core.schedules import Cycle
from reset_cycles.early_switching import Progress, SmoothedLossRule
from reset_cycles.soft_reset import (
  FULL,
  Cyclic,
  FullReset,
  KeptMomentum,
  SoftReset,
)

NAN, INF = math.nan, math.inf
case = pytest.param
ENDS = 'switch', 'reset', 'finish'


@pytest.mark.parametrize(
  ('seen', 'expected'),
  (
    case({}, '4 start 2 8, 8 start 3 12, 12 finish 3', id='planned'),
    # Abandoned before step 2 of 12: the remaining 10 are 5 + 5. Evaluations
    # count from 1 in each cycle; a rise from one cycle to the next is none.
    case(
      {1: (1.0,), 2: (1.5,), 4: (9.0,), 6: (8.0,), 8: (7.0,), 9: (8.0,)},
      '1 evaluation 1 1, 2 evaluation 1 2, 2 switch 1 loss rises, '
      '2 start 2 7, 4 evaluation 2 1, 6 evaluation 2 2, 7 start 3 12, '
      '8 evaluation 3 1, 9 evaluation 3 2, 9 switch 3 loss rises, 9 finish 3',
      id='abandoned',
    ),
    # An evaluation at a boundary counts for the cycle that ends. Although S = 1
    # then, the end was scheduled. The next cycle begins with no loss, and one
    # that is not finite ends it at once.
    case(
      {3: (1.0,), 4: (2.0,), 5: (INF,)},
      '3 evaluation 1 1, 4 evaluation 1 2, 4 start 2 8, 5 evaluation 2 1, '
      '5 switch 2 loss is not finite, 5 start 3 12, 12 finish 3',
      id='boundary',
    ),
    # A resumed run may have missed some. The first reason counts.
    case(
      {3: (1.0, 2.0, NAN)},
      '3 evaluation 1 1, 3 evaluation 1 2, 3 evaluation 1 3, '
      '3 switch 1 loss rises, 3 start 2 8, 8 start 3 12, 12 finish 3',
      id='several',
    ),
  ),
)
def test_the_tape_of_a_chain(seen, expected):
  rows = {
    step: [(step, loss, 0.1) for loss in losses]
    for step, losses in seen.items()
  }
  events, after, local_steps = replay(make_params(), 6, rows)
  assert story(events, without=('reset',)) == f'0 start 1 4, {expected}'
  assert after.is_over and after.reset is None
  assert of(events, 'finish', 'reason') == [
    (len(local_steps), 'cycles have run out')
  ]


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


def test_a_further_cycle_after_one_that_was_abandoned_has_half_of_its_rate():
  """And the length of the last one, whatever the horizon was."""
  seen = [(9, NAN, 0.1), (14, 1.0, 0.1), (15, 2.0, 0.1), (19, NAN, 0.1)]
  events, after, _ = replay(make_params(repeat=True), 6, seen, 30)
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
  assert after.control.horizon == 31


@pytest.mark.parametrize(
  ('peaks', 'scales'),
  (
    # 2^-126 is the smallest number that a float32 has in full.
    case((2.0**-124,), [1.0, 0.5, 0.25, 0.25], id='the smallest'),
    case((1.999 * 2.0**-125,), [1.0, 0.5, 0.5, 0.5], id='below it'),
    case((2.0**-125, 1.0), [1.0, 0.5, 0.5], id='of any cycle'),
  ),
)
def test_a_rate_is_not_halved_until_it_vanishes(peaks, scales):
  cycles = tuple(Cycle(peak, warmup_factor=0.0) for peak in peaks)
  params = make_params(cycles=cycles, repeat=True)
  seen = [(step, NAN, 0.1) for step in (1, 2, 3)]
  events, after, _ = replay(params, 6, seen, 4)
  starts = of(events, 'cycle_start', 'scale')
  assert [scale for _, scale in starts[len(peaks) - 1 :]] == scales
  assert after.clock.peak > 0


# A horizon in time: cycles wait, and move with it.


class Moved:
  """A horizon at a given step, from the second evaluation on.

  The step is the budget; evaluations come at as many seconds as steps.
  """

  def steps_to_come(self, pace, seconds_left):
    return int(seconds_left) if pace.longest else 0


def replay_moved(to, seen, bad=(), **changes):
  """A run of 12 steps whose horizon moves; evaluated after {steps: seconds}."""
  config = config_of(make_params(horizon=Moved(), **changes), 6, budget=to)
  rows = [(s, NAN if s in bad else 1.0, 0.1, float(t)) for s, t in seen.items()]
  return replay(config, 6, rows, until=18)


def test_a_horizon_that_moves_stretches_the_rest_of_the_run():
  seen = {step: step for step in range(1, 17, 2)}
  events, after, local_steps = replay_moved(17.0, seen)
  # 1 of 4 nominal steps remains of cycle 1, and 4 + 4 after it: 14 steps are
  # shared out as 1 : 4 : 4.
  assert story(events, without=('evaluation', 'reset')) == (
    '0 start 1 4, 3 clock 1 5, 5 start 2 11, 11 start 3 17, 17 wait 3 19'
  )
  assert events[3] == {
    'global_step': 3,
    'event': 'clock',
    'cycle': 1,
    'setting': 1,
    'cycle_end': 5,
    'anchor_local': 3.0,
    'pace': 0.5,
    'scale': 1.0,
  }
  assert after.control.horizon == 17
  # No jump: the local step goes on from where it was.
  assert local_steps[:5] == [(0, t) for t in (0.0, 1.0, 2.0, 3.0, 3.5)]
  third = float(np.float32(4 / 6))
  np.testing.assert_allclose(
    local_steps[5:11], [(1, third * t) for t in range(6)], rtol=1e-12
  )


# 21 steps in two cycles.
TWO = {'n': 2, 'budget_factor': 3.5}


@pytest.mark.parametrize(
  ('to', 'seen', 'changes', 'ends'),
  (
    # The last cycle lasts up to the horizon. At step 2 of 12, 10 steps become
    # 16; at step 4, 14 become 4.
    case(
      18.0,
      {1: 1, 2: 2, 4: 14},
      {'n': 1},
      [(0, 'cycle_start', 12), (2, 'clock', 18), (4, 'clock', 8)],
      id='last cycle',
    ),
    # One of several further cycles keeps its share of the rest. The chain is
    # over at 13 of 48: 35 steps are two of about the scaled length, 16. At 16
    # the horizon moves to 89. Of 73 steps instead of 32 the cycle that was to
    # end at 31 has 34.2, rounded up, instead of 15.
    case(
      48.0,
      {1: 1, 2: 2, 3: 3, 13: 13, 16: -25},
      {'repeat': True, 'bad': (2, 3, 13)},
      [(13, 'cycle_start', 31), (16, 'clock', 51)],
      id='further cycle',
    ),
    # A further cycle's length is scaled with the horizon: 4 of 12 steps are 8
    # of 24. Abandoned at step 17, after the chain: 7 steps are one cycle of
    # about 8, where the planned 4 would make two of them.
    case(
      24.0,
      {1: 1, 2: 2, 7: 7, 16: 16, 17: 17},
      {'repeat': True, 'bad': (17,)},
      [
        (0, 'cycle_start', 4),
        (2, 'clock', 7),
        (7, 'cycle_start', 16),
        (16, 'cycle_start', 24),
        (17, 'cycle_start', 24),
      ],
      id='scaled length',
    ),
    case(
      12.0,
      {4: 4, 8: 8, 12: 12},
      {'repeat': True},
      [(8, 'cycle_start', 12), (12, 'cycle_start', 16)],
      id='as long as planned where it starts at the horizon',
    ),
    # At 4 it would be at 2, which is over: nothing moves.
    case(
      18.0,
      {1: 1, 2: 2, 4: 20, 6: 6},
      {'n': 1},
      [(0, 'cycle_start', 12), (2, 'clock', 18), (6, 'clock', 18)],
      id='a horizon that is over',
    ),
    # Cycles of 7 and 14 steps, an interval of 4. At 5, half of it remains of
    # the first, and its share is one of the 8 steps up to the new horizon. It
    # lasts until the next evaluation, at 9,
    case(
      13.0,
      {1: 1, 5: 5},
      {**TWO, 'lengths': (1.0, 2.0)},
      [(0, 'cycle_start', 7), (5, 'clock', 9)],
      id='half of an interval remains',
    ),
    # unless less than half of an interval had remained of it: evaluations that
    # come a little too soon would put it off again and again.
    case(
      13.0,
      {1: 1, 5: 5},
      {**TWO, 'lengths': (2.0, 5.0)},
      [(5, 'clock', 6), (10, 'cycle_start', 13)],
      id='less than half remains',
    ),
    # Nor does it last up to the horizon, 9, which lies before the evaluation
    # that is waited for: nothing else would be seen of the next cycle.
    case(
      9.0,
      {1: 1, 5: 5},
      {**TWO, 'lengths': (1.0, 2.0), 'repeat': True},
      [(0, 'cycle_start', 7), (5, 'clock', 6), (10, 'cycle_start', 24)],
      id='not up to the horizon',
    ),
  ),
)
def test_ends_of_cycles_under_a_horizon_that_moves(to, seen, changes, ends):
  events, _, _ = replay_moved(to, seen, **changes)
  found = [
    (e['global_step'], e['event'], e['cycle_end'])
    for e in events
    if 'pace' in e
  ]
  assert found[-len(ends) :] == ends
  # Each cycle keeps its factor.
  scales = {(e['cycle'], e['scale']) for e in events if 'scale' in e}
  assert len(scales) == len(of(events, 'cycle_start'))


@pytest.mark.parametrize(
  ('step', 'end'), ((13, 31), (20, 34), (24, 36), (25, 48), (40, 48))
)
def test_how_many_further_cycles_fill_the_rest(step, end):
  """Of 48 steps, as many as bring them nearest to 16: 2, 2, 2, 1, 1."""
  config = config_of(make_params(horizon=Moved(), repeat=True), 6, budget=48.0)
  seen = [(s, NAN, 0.1, float(s)) for s in (2, 3, step)]
  seen = [(1, 1.0, 0.1, 1.0), *seen]
  events, _, _ = replay(config, 6, seen, until=step + 1)
  assert of(events, 'cycle_start', 'cycle_end')[-1] == (step, end)


UNKNOWN = 'no evaluation in the cycle: tau is 0'


# Abandons at each cycle's second evaluation.
EAGER = SmoothedLossRule(lam=1.0, eps1=0.0)


def waiting(**changes):
  changes = {'horizon': Still(), 'early_switching': False, **changes}
  return make_params(**changes)


@pytest.mark.parametrize(
  ('changes', 'seen', 'expected'),
  (
    # Evaluated at 1 and every 3 steps, the ends at 4 and 8 are seen at 6 and 9,
    # so that 6 steps remain for 2 cycles after the first, and 3 for the last.
    (
      {},
      (1, 3, 6, 9, 12),
      '4 wait 1 6, 6 reset 2, 6 start 2 9, 9 reset 3, 9 start 3 12, 12 finish 3',
    ),
    # The last cycle waits as well: for three steps, the longest interval so
    # far, and not the four up to the evaluation.
    ({'n': 1}, (5, 8, 11, 15), '12 wait 1 15, 15 finish 1'),
    ({'n': 1}, (5, 7, 9, 15), '12 wait 1 14, 14 finish 1'),
    # An evaluation that does not come is given up, 2 steps after each end.
    (
      {},
      (1, 3),
      '4 wait 1 6, 6 reset 2, 6 start 2 9, 9 wait 2 11, '
      f'11 reset 3 {UNKNOWN}, 11 start 3 12, 12 wait 3 14, 14 finish 3',
    ),
    # Beyond the horizon, 12, too, where nothing remains for another cycle.
    ({'lengths': (11.0, 1.0)}, (1, 6), '11 wait 1 16, 16 finish 1'),
    # Where no interval is known nothing is waited for, and tau is not taken
    # from the evaluation after the first step. Later, an interval is 5 steps.
    (
      {'lengths': (1.0, 5.0)},
      (1, 6),
      f'2 reset 2 {UNKNOWN}, 2 start 2 12, 12 wait 2 17, 17 finish 2',
    ),
    (
      {'lengths': (1.0, 5.0)},
      (2, 6),
      '2 reset 2, 2 start 2 12, 12 wait 2 16, 16 finish 2',
    ),
    # A cycle of one step of 60 ends an interval after the last evaluation.
    (
      {'lengths': (29.0, 1.0, 30.0), 'budget_factor': 10.0},
      (1, 11, 21, 31),
      '29 wait 1 39, 31 reset 2, 31 start 2 41, 41 wait 2 51, '
      f'51 reset 3 {UNKNOWN}, 51 start 3 60, 60 wait 3 70, 70 finish 3',
    ),
    # After an early switch nothing is waited for.
    (
      {'n': 2, 'early_switching': True, 'switching': EAGER},
      (2, 3),
      '3 switch 1 loss rises, 3 reset 2, 3 start 2 12, 12 wait 2 13, 13 finish 2',
    ),
  ),
)
def test_how_long_a_cycles_end_waits(changes, seen, expected):
  rows = [(step, 1.0, 0.1) for step in seen]
  events, _, local_steps = replay(waiting(**changes), 6, rows, until=80)
  assert story(events) == f'{story(events[:1])}, {expected}'
  # The clock goes on past the nominal end, where the rate stays.
  first_end = min(e['global_step'] for e in events if e['event'] in ENDS)
  assert local_steps[:first_end] == [(0, float(t)) for t in range(first_end)]
  why = {reason for _, reason in of(events, 'wait', 'reason')}
  assert why == {'the annealed model has not been evaluated'}


def test_a_model_that_is_not_finite_is_not_waited_for():
  """Its evaluation, after step 5 of 6, comes in at the cycle's end."""
  config = config_of(waiting(n=2), 6)
  for loss, plan in ((1.0, None), (NAN, FULL)):
    seen = {6: [(1, 1.0, 0.1), (3, 1.0, 0.1), (5, loss, 0.1)]}
    [after] = transitions(config, seen, [6])
    assert after.reset == plan


def test_the_step_before_which_to_decide_again():
  # At step 4, the evaluation of step 3 comes in; the cycle's end was 4.
  rows = ((2, 1), (4, 3), (6, 6))
  seen = {step: [(of_step, 1.0, 0.1)] for step, of_step in rows}
  found = transitions(config_of(waiting(), 6), seen, (2, 4, 5, 6, 7))
  assert [after.due for after in found] == [4, 6, 6, 9, 9]
  assert [after.reset is not None for after in found] == [0, 0, 0, 1, 0]


# What a reset does, and what is written of it.

BROKEN = 'the model is not finite'


def reset_at(step, seen, is_finite=True, target=(0.8, True), **changes):
  """The plan and the event of a run's reset before a step."""
  config = config_of(make_params(**changes), 6, Target('m', *target))
  [after] = transitions(config, {step: seen}, [step], lambda: is_finite)
  [event] = [event for event in after.events if event['event'] == 'reset']
  return after.reset, event


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
  ids=repr,
)
def test_the_plan_of_a_reset(mode, seen, is_finite, plan, note):
  rows = [(1, *seen)] if seen else []
  found, event = reset_at(4, rows, is_finite, reset=mode, early_switching=False)
  np.testing.assert_allclose(tuple(found), tuple(plan), atol=1e-15)
  assert (event['note'], event['tau']) == (note, found.tau)
  name = 'FullReset' if plan == FULL else type(mode).__name__
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


@pytest.mark.parametrize(
  ('first', 'scale', 'tau'),
  (
    (0.9, 'log', 0.5),  # log(.3 / .1) / log(.9 / .1)
    (0.9, 'linear', 0.25),
    # Where the first one does not serve, 1 - y* / y; no other takes its place.
    (NAN, 'log', 2 / 3),
    (NAN, 'linear', 2 / 3),
  ),
)
def test_tau_is_of_the_scale_of_the_reset_and_of_the_first_metric(
  first, scale, tau
):
  seen = [(1, 1.0, first), (2, 1.0, 0.5), (4, 1.0, 0.3)]
  mode = SoftReset(scale=scale)
  plan, _ = reset_at(4, seen, target=(0.1, False), reset=mode)
  assert plan.tau == pytest.approx(tau, abs=1e-15)


def test_the_model_is_looked_at_only_where_a_reset_depends_on_it():
  def never():
    raise AssertionError

  seen = {2: [(2, 1.0, 0.1)], 4: [(4, NAN, 0.1)]}
  found = transitions(config_of(make_params(), 6), seen, (2, 3, 4), never)
  assert [after.reset for after in found] == [None, None, FULL]


def test_a_verdict_on_the_chain_is_heard_at_a_cycles_end():
  """The evaluation for which a cycle waits may be the only one of it."""
  params = make_params(
    lengths=(2.0, 1.0, 1.0),
    repeat=True,
    switching=Progress(min_share=0.3, max_loss_drop=9.0),
    horizon=Still(),
  )
  seen = [(1, 1.0, 0.1), (3, 1.0, 0.1), (6, 1.0, 0.1)]
  events, _, _ = replay(params, 6, seen, until=7)
  assert story(events[4:]) == (
    '6 switch 1 target out of reach, 6 reset 2, 6 start 2 9'
  )


@pytest.mark.parametrize(
  ('mode', 'is_finite', 'chain_start'),
  (
    (FullReset(), True, 8),
    (Cyclic(), False, 8),  # a fresh model takes the place of a broken one
    (Cyclic(), True, 0),
    # Nothing is kept of the parameters, but the moments are.
    (KeptMomentum(), True, 0),
    (SoftReset(), True, 0),
  ),
  ids=repr,
)
def test_only_a_full_reset_begins_a_new_chain(mode, is_finite, chain_start):
  params = make_params(
    2, (2.0, 1.0), switching=Progress(), early_switching=False, reset=mode
  )
  config = config_of(params, 6)
  seen = {step: [(step, 1.0, 0.0)] for step in (3, 6)}
  *_, after = transitions(config, seen, (3, 6, 8), lambda: is_finite)
  control = after.control
  assert (control.start, control.chain_start) == (8, chain_start)
  assert after.reset.tau == (0.0 if mode == Cyclic() and is_finite else 1.0)
  if not chain_start:
    assert control.switching.f[-2:] == (3 / 12, 6 / 12)
    return
  assert control.switching == Progress.initial
  # The chain lasts up to the horizon, and at least to the cycle's end, 12.
  for horizon, share in ((16, 2 / 8), (12, 2 / 4), (9, 2 / 4)):
    moved = control._replace(horizon=horizon)
    found, _ = control_lib.observe(moved, Evaluation(10, 1.0, 0.1), config)
    assert found.switching.f[-1] == share


# Beside the slow twin.


def random_run(seed):
  """A configuration, its step_hint, and evaluations."""
  rng = np.random.default_rng(seed)
  is_timed = bool(rng.random() < 0.5)
  slack, margin = rng.uniform(0, 1, 2).tolist()
  params = make_params(
    lengths=rng.choice([0.5, 1.0, 2.0], rng.integers(1, 6)).tolist(),
    budget_factor=float(rng.choice([1.0, 1.5, 2.0])),
    switching=SmoothedLossRule(
      lam=float(rng.uniform(0.3, 1.0)),
      eps1=float(rng.uniform(0.02, 0.3)),
      eps2=float(rng.uniform(0.0, 0.2)),
      k=int(rng.integers(1, 4)),
      m=int(rng.integers(1, 4)),
    ),
    early_switching=bool(rng.random() < 0.8),
    repeat=bool(rng.random() < 0.5),
    horizon=TimeHorizon(slack, margin) if is_timed else None,
    reset=SoftReset(scale=str(rng.choice(['log', 'linear']))),
  )
  steps = np.unique(rng.integers(1, 120, 25))
  losses = np.exp(np.cumsum(rng.normal(-0.05, 0.15, len(steps))))
  losses[rng.random(len(steps)) < 0.03] = NAN
  metrics = rng.uniform(0.05, 1.2, len(steps))
  seconds = 30 + steps * rng.uniform(0.9, 1.1, len(steps))
  seconds[rng.random(len(steps)) < 0.03] = NAN
  rows = np.stack([losses, metrics, seconds], 1).tolist()
  seen = [(step, *row) for step, row in zip(steps.tolist(), rows)]
  step_hint, rising = int(rng.integers(20, 60)), bool(rng.random() < 0.5)
  target = Target('m', 0.8 if rising else 0.2, rising)
  budget = float(rng.choice([60.0, 100.0, 140.0, NAN]))
  return config_of(params, step_hint, target, budget=budget), step_hint, seen


def comparable(events):
  """What the twin says of events, too."""
  clock = ('cycle_end', 'pace', 'setting', 'scale')
  names = {
    'evaluation': ('loss', 'smoothed_loss', 'stopping', 'metric_step'),
    'cycle_start': clock,
    'clock': clock,
    'reset': ('reason',),
    'switch': ('reason',),
    'finish': ('reason',),
    'wait': ('cycle_end',),
  }
  return [
    tuple(e[n] for n in ('global_step', 'event', 'cycle', *names[e['event']]))
    for e in events
  ]


@pytest.mark.parametrize('seed', range(80))
def test_runs_agree_with_their_twin(seed):
  config, step_hint, seen = random_run(seed)
  events, _, local_steps = replay(config, step_hint, seen, until=130)
  params, (_, goal, rising) = config.settings, config.target
  twin, steps = reference.run(
    params, step_hint, seen, goal, rising, config.budget, until=130
  )
  np.testing.assert_equal(comparable(events), comparable(twin))
  taus = [[e['tau'] for e in x if 'tau' in e] for x in (events, twin)]
  assert taus[0] == pytest.approx(taus[1], rel=1e-12, abs=1e-13)
  assert len(local_steps) == steps
