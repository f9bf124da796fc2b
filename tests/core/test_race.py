"""A race of peaks: whole tapes, verdicts at their bounds, and what follows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.replay import (
  TARGET,
  Still,
  config_of,
  make_params,
  of,
  replay,
  story,
)
from reset_cycles.core import control as control_lib
from reset_cycles.core.evaluation import Evaluation, Target
from reset_cycles.core.horizon import Pace
from reset_cycles.core.schedules import Cycle
from reset_cycles.core.state import RaceState
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.schedule_params import Race
from reset_cycles.soft_reset import FULL

NAN, INF = math.nan, math.inf
case = pytest.param
# Abandons a cycle for a loss that is not finite, and for nothing else.
LENIENT = SmoothedLossRule(lam=1.0, eps1=1e9, eps2=1e9)
RACE = Race(
  peaks=(1.0, 0.125, 8.0), min_loss_drop=math.log(2), min_progress=0.0625
)
LOST = 'the model hardly learns'


def racing(n=2, race=RACE, **changes):
  """Two cycles of 60 steps; the loss must be halved."""
  changes = {'repeat': True, 'switching': LENIENT, **changes}
  return make_params(n, race=race, **changes)


@pytest.mark.parametrize(
  ('seen', 'expected', 'factors', 'state'),
  (
    # The loss of the first peak drops.
    case(
      {1: (4, 0.0), 10: (2, 0.125), 20: (2, 0.125)},
      '10 race 1 goes on, 60 start 2 120',
      [1.0, 1.0],
      RaceState(0, 1, False, (0.125, -INF, -INF)),
      id='first',
    ),
    # The second one passes. L0 is that of the run: 1.9 is half of it. After 10
    # steps 110 remain for both cycles.
    case(
      {1: (4, 0.0), 10: (2.1, 0.25), 20: (1.9, 0.125)},
      '10 race 1 the model hardly learns, 10 start 2 65, 20 race 2 goes on, '
      '65 start 3 120',
      [1.0, 0.125, 0.125],
      RaceState(1, 2, False, (0.25, 0.125, -INF)),
      id='second',
    ),
    # None does. The second one has come farthest and begins again.
    case(
      {1: (4, 0.0), 10: (4, 0.25), 20: (4, 0.5), 30: (4, 0.125)},
      '10 race 1 the model hardly learns, 10 start 2 65, '
      '20 race 2 the model hardly learns, 20 start 3 70, '
      '30 race 3 the model hardly learns, 30 start 4 75',
      [1.0, 0.125, 8.0, 0.125],
      RaceState(1, 3, False, (0.25, 0.5, 0.125)),
      id='best',
    ),
    # The third one has come as far: it is at hand and goes on untouched.
    case(
      {1: (4, 0.0), 10: (4, 0.25), 20: (4, 0.5), 30: (4, 0.5)},
      '10 race 1 the model hardly learns, 10 start 2 65, '
      '20 race 2 the model hardly learns, 20 start 3 70, 30 race 3 goes on, '
      '70 start 4 120',
      [1.0, 0.125, 8.0, 8.0],
      RaceState(2, 3, False, (0.25, 0.5, 0.5)),
      id='at hand',
    ),
    # A probe that is not evaluated goes on. The next evaluation judges it,
    # whichever cycle that is in: evaluations are too rare for another one.
    case(
      {1: (4, 0.0), 70: (4, 0.125)},
      '60 start 2 120, 70 race 2 goes on',
      [1.0, 1.0],
      RaceState(0, 1, False, (0.125, -INF, -INF)),
      id='rare',
    ),
  ),
)
def test_the_tape_of_a_race(seen, expected, factors, state):
  rows = [(step, *row) for step, row in seen.items()]
  events, after, _ = replay(racing(), 60, rows, until=75)
  found = story(events, without=('evaluation', 'reset'))
  assert found == f'0 start 1 60, {expected}'
  assert [scale for _, scale in of(events, 'cycle_start', 'scale')] == factors
  assert after.control.race == state
  # After a lost race the model is a fresh one.
  full = [step for step, mode in of(events, 'reset', 'mode') if mode[0] == 'F']
  lost = [step for step, why in of(events, 'race', 'reason') if why == LOST]
  assert full == lost


FALLING = Target('m', 0.1, False)
BEGUN = RaceState(0, 1, True, (-INF, -INF, -INF))


def probed(
  losses=(4.0, 4.0),
  metric=0.1,
  step=10,
  first_step=1,
  interval=NAN,
  target=TARGET,
  hint=60,
  **changes,
):
  """Whether a probe goes on, None where nothing is said, and if it still is."""
  config = config_of(racing(early_switching=False), hint, target)
  control, clock = control_lib.start(config)
  control = control._replace(
    pace=Pace(steps=(*(NAN,) * 8, interval)), **changes
  )
  first = Evaluation(first_step, losses[0], float(not target.rising))
  last = Evaluation(step, losses[1], metric)
  new = [first, last] if step > first_step else [first]
  given = control, clock, new, step, config, lambda: True
  after = control_lib.transition(*given)
  said = [e['reason'] for e in after.events if e['event'] == 'race']
  assert (after.reset == FULL) == (said == [LOST])
  return said[0] == 'goes on' if said else None, after.control.race.is_probe


@pytest.mark.parametrize(
  ('changes', 'goes_on'),
  (
    # log(L0 / L) >= log(2).
    ({'losses': (4.0, 2.0 - 1e-9)}, True),
    ({'losses': (4.0, 2.0)}, True),
    ({'losses': (4.0, 2.0 + 1e-9)}, False),
    ({'losses': (4.0, NAN)}, False),
    ({'losses': (4.0, INF)}, False),
    ({'losses': (4.0, -INF)}, False),
    ({'losses': (4e-301, 1e30)}, False),  # the ratio underflows
    ({'losses': (NAN, 1.0)}, False),
    ({'losses': (INF, 1.0)}, False),
    # No log ratio: the loss says nothing.
    ({'losses': (4.0, 0.0)}, True),
    ({'losses': (0.0, 4.0)}, True),
    ({'losses': (-1.0, 4.0)}, True),
    ({'losses': (-1.0, -2.0)}, True),
    # A sixteenth of the way.
    ({'losses': (4.0, 1.0), 'metric': 0.0625}, True),
    ({'losses': (4.0, 1.0), 'metric': 0.0624}, False),
    ({'losses': (4.0, 1.0), 'metric': NAN}, False),
    # .0655 of the way from 1 to .1 on a log scale, and .0605 (linear, .144).
    ({'losses': (4.0, 1.0), 'target': FALLING, 'metric': 0.86}, True),
    ({'losses': (4.0, 1.0), 'target': FALLING, 'metric': 0.87}, False),
    # The first evaluation from .02 of 120 steps on, 2.4, is the one that judges.
    ({'step': 2}, None),
    ({'step': 3}, False),
    ({'step': 12, 'start': 10}, None),
    ({'step': 13, 'start': 10}, False),
    # After a compilation: 19 of 1,000 steps say nothing, 20 do.
    ({'step': 19, 'hint': 500}, None),
    ({'step': 20, 'hint': 500}, False),
    # The run's first evaluation is what others are held against.
    ({'step': 5, 'first_step': 5}, None),
    # One that is in force is not judged.
    ({'race': BEGUN._replace(is_probe=False)}, None),
    # Two more probes of 15 steps are a quarter of 120; of 16, more: where
    # evaluations are rare there is no race.
    ({'step': 15}, False),
    ({'step': 16}, True),
    ({'interval': 15.0}, False),
    ({'interval': 16.0}, True),
    # The last probe goes on if it is the best of those that were not abandoned.
    ({'race': RaceState(2, 3, True, (NAN, 0.125, 0.2))}, True),
    ({'race': RaceState(2, 3, True, (NAN, 0.2, 0.125))}, False),
    # So it does where no metric was finite.
    (
      {'metric': NAN, 'race': RaceState(2, 3, True, (-INF, -INF, 0.0))},
      True,
    ),
  ),
  ids=repr,
)
def test_the_verdict_on_a_probe(changes, goes_on):
  found, is_probe = probed(**changes)
  assert found is goes_on
  state = changes.get('race', BEGUN)
  next_is_probe = {True: False, False: state.tried < 3, None: state.is_probe}
  assert is_probe == next_is_probe[goes_on]


@pytest.mark.parametrize(
  ('step', 'loss', 'switches'),
  # At half of 120 steps, later, in the next cycle; a NaN at any time.
  ((60, 9, [60]), (61, 9, []), (90, 9, []), (61, NAN, [61])),
)
def test_what_learns_is_abandoned_only_while_a_new_chain_gets_as_many_steps(
  step, loss, switches
):
  params = make_params(2, (2.0, 1.0), race=RACE, repeat=True)
  seen = [(1, 4, 0.0), (10, 2, 0.1), (step - 1, 2, 0.1), (step, loss, 0.1)]
  events, _, _ = replay(params, 60, seen, until=step + 1)
  assert [step for step, *_ in of(events, 'switch')] == switches


def test_a_cycle_that_ends_with_a_loss_that_is_not_finite_is_abandoned():
  seen = [(1, 4, 0.0), (10, 2, 0.1), (55, NAN, 0.1)]
  events, _, _ = replay(racing(early_switching=False), 60, seen, until=61)
  found = of(events, 'cycle_start', 'setting', 'scale')
  assert found == [(0, 1, 1.0), (60, 1, 0.125)]
  assert of(events, 'reset', 'reason') == [(60, 'early')]


BAD = [Evaluation(30, NAN, NAN)]
LOW = [Evaluation(1, 4.0, 0.0), Evaluation(30, 4.0, 0.125)]


@pytest.mark.parametrize(
  ('state', 'seen', 'scale', 'expected'),
  (
    # The chain goes on, at the peak that is in force.
    ((1, 2, 0, (0.3, 0.2, -INF)), [], 0.1, (1, 2, 0, (0.3, 0.2, -INF))),
    # A probe that has lost: the next one, or the best begins again.
    ((1, 2, 1, (0.3, -INF, -INF)), LOW, 8.0, (2, 3, 1, (0.3, 0.125, -INF))),
    ((2, 3, 1, (-INF, 0.5, -INF)), LOW, 0.125, (1, 3, 0, (-INF, 0.5, 0.125))),
    # Abandoned: the chain begins anew, with a peak that has not been tried,
    ((0, 1, 1, (0.3, -INF, -INF)), BAD, 0.125, (1, 2, 1, (NAN, -INF, -INF))),
    ((1, 2, 0, (0.3, 0.2, -INF)), BAD, 8.0, (2, 3, 1, (0.3, NAN, -INF))),
    # or else the best that has not been abandoned,
    ((1, 3, 0, (0.3, 0.2, 0.4)), BAD, 8.0, (2, 3, 0, (0.3, NAN, 0.4))),
    ((1, 3, 0, (NAN, 0.2, 0.1)), BAD, 8.0, (2, 3, 0, (NAN, NAN, 0.1))),
    # or else the one at hand at half of its rate,
    ((2, 3, 0, (NAN, NAN, 0.1)), BAD, 0.05, (2, 3, 0, (NAN, NAN, NAN))),
    # and not one whose metric was never finite.
    ((1, 3, 0, (-INF, 0.2, NAN)), BAD, 0.05, (1, 3, 0, (-INF, NAN, NAN))),
  ),
  ids=repr,
)
def test_what_follows(state, seen, scale, expected):
  config = config_of(racing(), 60)
  control, clock = control_lib.start(config)
  control = control._replace(race=RaceState(*state), scale=0.1)
  given = control, clock, seen, 30 if seen else 60, config, lambda: True
  after = control_lib.transition(*given)
  found = after.control
  np.testing.assert_equal((found.scale, tuple(found.race)), (scale, expected))
  peak = config.cycles[found.cycle].setting.peak * scale
  assert after.clock.peak == pytest.approx(peak, rel=1e-7)
  # In a chain that begins anew, 90 steps remain for two cycles.
  place = found.cycle, found.chain_start, found.end, found.horizon
  assert place == ((0, 30, 75, 120) if seen else (1, 0, 120, 120))
  assert (after.reset == FULL) == bool(seen)


@pytest.mark.parametrize(
  ('peak', 'factors', 'scales'),
  (
    (0.5, (2, 4.0), [2.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125]),
    # 2^-126 is the smallest rate that a device knows.
    (2.0**-124, (1, 0.5), [1.0, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25]),
  ),
)
def test_each_peak_that_is_abandoned_again_has_half_of_its_rate_again(
  peak, factors, scales
):
  seen = [(s, NAN, 0.1) for s in (1, 3, 5, 7, 9, 11)]
  race = Race(peaks=factors)
  cycles = (Cycle(peak, warmup_factor=0.0),) * 2
  params = racing(race=race, cycles=cycles)
  events, after, _ = replay(params, 60, seen, until=15)
  assert [step for step, *_ in of(events, 'switch')] == [1, 3, 5, 7, 9, 11]
  assert [scale for _, scale in of(events, 'cycle_start', 'scale')] == scales
  assert after.clock.peak > 0
  assert all(type(factor) is float for factor in race.peaks)
  assert {mode for _, mode in of(events, 'reset', 'mode')} == {'FullReset'}


def test_the_best_progress_of_a_peak_counts():
  """And not that of another peak, or of a metric that is not finite."""
  config = config_of(racing(), 60)
  control, _ = control_lib.start(config)
  for step, metric in ((1, 0.2), (10, 0.5), (20, 0.25), (30, NAN)):
    evaluation = Evaluation(step, 4.0, metric)
    control, _ = control_lib.observe(control, evaluation, config)
  assert control.race.progress == (0.5, -INF, -INF)


def begun_anew(n, step, interval, **changes):
  """The first cycle of a chain that begins anew at a step, of 120."""
  config = config_of(racing(n, **changes), 60)
  control, clock = control_lib.start(config)
  control = control._replace(last=Evaluation(step - interval, 1.0, 0.1))
  new = [Evaluation(step, NAN, 0.1)]
  given = control, clock, new, step, config, lambda: True
  found = control_lib.transition(*given).control
  assert (found.cycle, found.chain_start) == (0, step)
  return found.end, found.horizon


def test_a_chain_that_begins_anew_gets_a_step_for_each_cycle():
  """Also where none remains: the horizon is postponed."""
  for step, end, horizon in ((118, 119, 120), (119, 120, 121), (150, 151, 152)):
    assert begun_anew(2, step, 1) == (end, horizon)


def test_a_chain_that_begins_anew_is_aligned_against_its_own_horizon():
  """Not that of the chain before, 120."""
  timed = {'horizon': Still()}
  for interval, end in ((2, 120), (3, 121), (4, 119)):
    assert begun_anew(4, 118, interval, **timed) == (end, 122)
    assert begun_anew(4, 118, interval) == (119, 122)
