"""A race of peaks: whole tapes, verdicts at their bounds, and what follows."""

from __future__ import annotations

import math

import pytest

from helpers.replay import (
  TARGET,
  config_of,
  make_params,
  replay,
  tape,
)
from reset_cycles.core import control as control_lib
from reset_cycles.core.horizon import Pace
from reset_cycles.core.race import Race, current
from reset_cycles.core.state import (
  CHOSEN,
  LEFT,
  PROBED,
  PROBING,
  UNTRIED,
  Score,
)
from reset_cycles.core.workload import Evaluation, Target
from reset_cycles.early_switching import SmoothedLossRule

NAN, INF = math.nan, math.inf
# Leaves a cycle for a loss that is not finite, and for nothing else.
LENIENT = SmoothedLossRule(lam=1.0, eps1=1e9, eps2=1e9)
RACE = Race(
  peaks=(1.0, 0.125, 8.0), min_loss_drop=math.log(2), min_progress=0.0625
)


def racing(n=2, race=RACE, **changes):
  """Two cycles of 60 steps; the loss must be halved."""
  return make_params(n, policy=race, switching=LENIENT, **changes)


def states(control):
  return [score.state for score in control.scores]


def scales(events):
  starts = [e for e in events if e['event'] == 'cycle_start']
  return [(e['global_step'], e['setting'], e['scale']) for e in starts]


LOST = 'the model hardly learns'


@pytest.mark.parametrize(
  ('seen', 'expected', 'factors', 'ends_with'),
  (
    # The loss of the first peak drops.
    (
      {1: (4, 0.0), 10: (2, 0.1), 20: (2, 0.1)},
      [(10, 'race', 1, 'goes on'), (60, 'cycle_start', 2, 120)],
      [1.0, 1.0],
      [CHOSEN, UNTRIED, UNTRIED],
    ),
    # The second one passes. L0 is that of the run: 1.9 is half of it. After 10
    # steps 110 are left for both cycles.
    (
      {1: (4, 0.0), 10: (2.1, 0.3), 20: (1.9, 0.1)},
      [
        (10, 'race', 1, LOST),
        (10, 'cycle_start', 2, 65),
        (20, 'race', 2, 'goes on'),
        (65, 'cycle_start', 3, 120),
      ],
      [1.0, 0.125, 0.125],
      [PROBED, CHOSEN, UNTRIED],
    ),
    # None does. The second one has come farthest and begins again.
    (
      {1: (4, 0.0), 10: (4, 0.3), 20: (4, 0.5), 30: (4, 0.2)},
      [
        (10, 'race', 1, LOST),
        (10, 'cycle_start', 2, 65),
        (20, 'race', 2, LOST),
        (20, 'cycle_start', 3, 70),
        (30, 'race', 3, LOST),
        (30, 'cycle_start', 4, 75),
      ],
      [1.0, 0.125, 8.0, 0.125],
      [PROBED, CHOSEN, PROBED],
    ),
    # The third one has come as far: it is at hand and goes on untouched.
    (
      {1: (4, 0.0), 10: (4, 0.3), 20: (4, 0.5), 30: (4, 0.5)},
      [
        (10, 'race', 1, LOST),
        (10, 'cycle_start', 2, 65),
        (20, 'race', 2, LOST),
        (20, 'cycle_start', 3, 70),
        (30, 'race', 3, 'goes on'),
        (70, 'cycle_start', 4, 120),
      ],
      [1.0, 0.125, 8.0, 8.0],
      [PROBED, PROBED, CHOSEN],
    ),
    # A probe that is not evaluated goes on. The next evaluation judges it,
    # whichever cycle that is in: evaluations are too rare for another one.
    (
      {1: (4, 0.0), 70: (4, 0.1)},
      [(60, 'cycle_start', 2, 120), (70, 'race', 2, 'goes on')],
      [1.0, 1.0],
      [CHOSEN, UNTRIED, UNTRIED],
    ),
  ),
  ids=('first', 'second', 'best', 'at hand', 'rare'),
)
def test_the_tape_of_a_race(seen, expected, factors, ends_with):
  rows = [(step, *row) for step, row in seen.items()]
  events, decision, _ = replay(racing(), 60, rows, until=75)
  found = tape(events, without=('evaluation', 'reset'))
  assert found == [(0, 'cycle_start', 1, 60), *expected]
  assert [scale for *_, scale in scales(events)] == factors
  assert states(decision.control) == ends_with
  # After a lost race the model is a fresh one.
  resets = [(e['global_step'], e['mode']) for e in events if 'mode' in e]
  lost = [step for step, *_, why in expected if why == LOST]
  assert [step for step, mode in resets if mode == 'FullReset'] == lost


FALLING = Target('m', 0.1, False)
IN_FORCE = (Score(0.1, CHOSEN), Score(), Score())
LAST = (Score(0.5, LEFT), Score(0.125, PROBED), Score(0.2, PROBING))


def judged(
  losses=(4.0, 4.0),
  metric=0.1,
  step=10,
  first_step=1,
  interval=0.0,
  target=TARGET,
  hint=60,
  **changes,
):
  """The verdict on a probe, and its state before and after it."""
  control, _ = control_lib.start(config_of(racing(), hint))
  before = control._replace(
    first=Evaluation(first_step, losses[0], float(not target.rising)),
    last=Evaluation(step, losses[1], metric),
    pace=Pace(steps=(interval,)),
    **{'num_evaluations': 1, **changes},
  )
  after, verdict = RACE.judge(before, target)
  i = current(before.scores)
  return verdict, before.scores[i].state, after.scores[i].state


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
    ({'losses': (4.0, 0.0)}, True),  # no log ratio
    ({'losses': (-1.0, -2.0)}, True),
    # A sixteenth of the way.
    ({'losses': (4.0, 1.0), 'metric': 0.0625}, True),
    ({'losses': (4.0, 1.0), 'metric': 0.0624}, False),
    ({'losses': (4.0, 1.0), 'metric': NAN}, False),
    # .0655 of the way from 1 to .1 on a log scale, and .0605 (linear, .144).
    ({'losses': (4.0, 1.0), 'target': FALLING, 'metric': 0.86}, True),
    ({'losses': (4.0, 1.0), 'target': FALLING, 'metric': 0.87}, False),
    # The first evaluation from .02 of 120 steps on, 2.4, is the one that judges.
    ({'step': 1}, None),  # of the first step nothing can be said
    ({'step': 2}, None),
    ({'step': 3}, False),
    ({'step': 12, 'start': 10}, None),
    ({'step': 10, 'num_evaluations': 0}, None),
    # After a compilation: 19 of 1,000 steps say nothing, 20 do.
    ({'step': 19, 'hint': 500}, None),
    ({'step': 20, 'hint': 500}, False),
    # The run's first evaluation is what others are held against.
    ({'step': 5, 'first_step': 5}, None),
    # One that is in force is not judged.
    ({'scores': IN_FORCE}, None),
    # Two more probes of 15 steps are a quarter of 120; of 16, more: where
    # evaluations are rare there is no race.
    ({'step': 15}, False),
    ({'step': 16}, True),
    ({'interval': 15.0}, False),
    ({'interval': 16.0}, True),
    # The last probe goes on if it is the best of those that were not left.
    ({'scores': LAST}, True),
  ),
)
def test_the_verdict_on_a_probe(changes, goes_on):
  verdict, before, after = judged(**changes)
  assert verdict is goes_on
  assert after == {True: CHOSEN, False: PROBED, None: before}[goes_on]


@pytest.mark.parametrize(
  ('step', 'loss', 'switches'),
  # At half of 120 steps, later, in the next cycle; a NaN at any time.
  ((60, 9, [60]), (61, 9, []), (90, 9, []), (61, NAN, [61])),
)
def test_what_learns_is_left_only_while_a_new_chain_gets_as_many_steps(
  step, loss, switches
):
  params = make_params(2, (2.0, 1.0), policy=RACE)
  seen = [(1, 4, 0.0), (10, 2, 0.1), (step - 1, 2, 0.1), (step, loss, 0.1)]
  events, _, _ = replay(params, 60, seen, until=step + 1)
  found = [e['global_step'] for e in events if e['event'] == 'switch']
  assert found == switches


def test_a_cycle_that_ends_with_a_loss_that_is_not_finite_has_been_left():
  seen = [(1, 4, 0.0), (10, 2, 0.1), (55, NAN, 0.1)]
  events, _, _ = replay(racing(early_switching=False), 60, seen, until=61)
  assert scales(events) == [(0, 1, 1.0), (60, 1, 0.125)]
  assert [e['reason'] for e in events if e['event'] == 'reset'] == ['early']


PLAIN = (Score(0.3, PROBED), Score(0.2, CHOSEN), Score())
ALL = (Score(0.3, PROBED), Score(0.2, CHOSEN), Score(0.4, PROBED))
TRIED = (Score(0.3, PROBED), Score(), Score())
REST = (Score(0.5, LEFT), Score(0.2, CHOSEN), Score(0.4, PROBED))
NONE = (Score(0.3, LEFT), Score(0.2, LEFT), Score(0.1, CHOSEN))


@pytest.mark.parametrize(
  ('scores', 'is_left', 'expected'),
  (
    # The chain goes on, at the factor that is in force.
    (PLAIN, False, (1, 120, 120, 0.1, False, [PROBED, CHOSEN, UNTRIED])),
    # A probe that has lost, with a loss that is not finite.
    (TRIED, True, (0, 75, 120, 0.125, True, [PROBED, PROBING, UNTRIED])),
    # Left: the chain begins anew, with one that has not been tried,
    (PLAIN, True, (0, 75, 120, 8.0, True, [PROBED, LEFT, PROBING])),
    # or else the best that has not been left,
    (ALL, True, (0, 75, 120, 8.0, True, [PROBED, LEFT, CHOSEN])),
    (REST, True, (0, 75, 120, 8.0, True, [LEFT, LEFT, CHOSEN])),
    # or else the one at hand at half of its rate.
    (NONE, True, (0, 75, 120, 0.05, True, [LEFT, LEFT, CHOSEN])),
  ),
)
def test_what_follows(scores, is_left, expected):
  """(setting, end, horizon, scale, whether full, states)."""
  config = config_of(racing(), 60)
  control, _ = control_lib.start(config)
  control = control._replace(scores=scores, scale=0.1)
  found = RACE.next(control, 30, config, is_left)
  assert (
    *(found.cycle, found.end, found.horizon, found.scale),
    *(found.chain_start == 30, states(found)),
  ) == expected


def test_each_peak_that_is_left_again_has_half_of_its_rate_again():
  seen = [(s, NAN, 0.1) for s in (1, 3, 5, 7, 9, 11)]
  race = Race(peaks=(2, 4.0))
  events, _, _ = replay(racing(race=race), 60, seen, until=15)
  switches = [e['global_step'] for e in events if e['event'] == 'switch']
  assert switches == [1, 3, 5, 7, 9, 11]
  found = [scale for *_, scale in scales(events)]
  assert found == [2.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125]
  assert all(type(peak) is float for peak in race.peaks)  # in checkpoints, too
  modes = {e['mode'] for e in events if e['event'] == 'reset'}
  assert modes == {'FullReset'}


def test_the_best_progress_of_a_peak_counts():
  """And not that of another peak, or of a metric that is not finite."""
  config = config_of(racing(), 60)
  control, _ = control_lib.start(config)
  for step, metric in ((1, 0.2), (10, 0.5), (20, 0.3), (30, NAN)):
    evaluation = Evaluation(step, 4.0, metric)
    control, _ = control_lib.observe(control, evaluation, config)
  assert [s.progress for s in control.scores] == [0.5, -INF, -INF]


def test_a_chain_that_begins_anew_gets_a_step_for_each_cycle():
  """Also where none is left: the horizon is postponed."""
  scores = (Score(0.1, CHOSEN), Score())
  config = config_of(racing(race=Race((1.0, 0.1))), 60)
  control, _ = control_lib.start(config)
  control = control._replace(scores=scores)
  for step, end, horizon in ((118, 119, 120), (119, 120, 121), (150, 151, 152)):
    found = Race((1.0, 0.1)).next(control, step, config, True)
    assert (found.cycle, found.end, found.horizon) == (0, end, horizon)
