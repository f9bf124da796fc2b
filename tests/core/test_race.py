"""A race of peaks: whole tapes, verdicts at their bounds, and what follows."""

from __future__ import annotations

import dataclasses
import math

import pytest

from helpers.replay import (
  PEAK,
  TARGET,
  config_of,
  cycle_ends_of,
  make_params,
  replay,
  tape,
)
from reset_cycles.core import control as control_lib
from reset_cycles.core.horizon import Pace, TimeHorizon
from reset_cycles.core.race import Race
from reset_cycles.core.state import (
  CHOSEN,
  LEFT,
  PROBED,
  PROBING,
  UNTRIED,
  Score,
)
from reset_cycles.core.workload import Evaluation
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.soft_reset import FULL, Cyclic

NAN, INF = math.nan, math.inf
# Leaves a cycle for a loss that is not finite, and for nothing else.
LENIENT = SmoothedLossRule(lam=1.0, eps1=1e9, eps2=1e9)
RACE = Race(
  peaks=(1.0, 0.125, 8.0), min_loss_drop=math.log(2), min_progress=0.05
)


def racing(n=2, race=RACE, **changes):
  """Two cycles of 60 steps; the loss must be halved."""
  return make_params(n, policy=race, switching=LENIENT, **changes)


def states(control):
  return [score.state for score in control.scores]


def scales(events):
  starts = [e for e in events if e['event'] == 'cycle_start']
  return [(e['global_step'], e['setting'], e['scale']) for e in starts]


def test_the_first_peak_goes_on_if_its_loss_drops():
  seen = [(1, 4.0, 0.0), (10, 2.0, 0.1), (20, 2.0, 0.1)]
  events, decision, _ = replay(racing(), 60, seen, until=130)
  assert tape(events, without=()) == [
    (0, 'cycle_start', 1, 60),
    (1, 'evaluation', 1, 1),
    (10, 'evaluation', 1, 2),
    (10, 'race', 1, 'goes on'),
    (20, 'evaluation', 1, 3),
    (60, 'reset', 2, ''),
    (60, 'cycle_start', 2, 120),
    (120, 'reset', 3, 'no evaluation in the cycle: tau is 0'),
    (120, 'cycle_start', 3, 180),
  ]
  assert scales(events) == [(0, 1, 1.0), (60, 2, 1.0), (120, 2, 1.0)]
  assert states(decision.control) == [CHOSEN, UNTRIED, UNTRIED]


def test_a_race_whose_second_peak_passes():
  # L0 is that of the run: after the reset the loss is 4.2 and then 1.9.
  seen = [(1, 4.0, 0.0), (10, 2.1, 0.3), (20, 1.9, 0.1)]
  events, decision, _ = replay(racing(), 60, seen, until=80)
  assert tape(events, without=()) == [
    (0, 'cycle_start', 1, 60),
    (1, 'evaluation', 1, 1),
    (10, 'evaluation', 1, 2),
    (10, 'race', 1, 'the model hardly learns'),
    (10, 'reset', 2, 'the chain begins anew'),
    (10, 'cycle_start', 2, 65),  # 110 steps are left for both cycles
    (20, 'evaluation', 2, 1),
    (20, 'race', 2, 'goes on'),
    (65, 'reset', 3, ''),
    (65, 'cycle_start', 3, 120),
  ]
  assert scales(events) == [(0, 1, 1.0), (10, 1, 0.125), (65, 2, 0.125)]
  resets = [(e['mode'], e['tau']) for e in events if e['event'] == 'reset']
  assert resets == [('FullReset', 1.0), ('SoftReset', 0.9)]
  assert states(decision.control) == [PROBED, CHOSEN, UNTRIED]
  starts = [e for e in events if e['event'] == 'cycle_start']
  assert [e['peak_value'] for e in starts] == [
    PEAK,
    PEAK * 0.125,
    (PEAK + 0.001) * 0.125,
  ]


def test_a_race_without_a_winner_goes_back_to_the_best():
  # Progress .3, .5 and .2: the second peak begins again, with nothing kept.
  seen = [(1, 4, 0.0), (10, 4, 0.3), (20, 4, 0.5), (30, 4, 0.2)]
  events, decision, _ = replay(racing(), 60, seen, until=40)
  assert tape(events, without=('evaluation',))[1:] == [
    (10, 'race', 1, 'the model hardly learns'),
    (10, 'reset', 2, 'the chain begins anew'),
    (10, 'cycle_start', 2, 65),
    (20, 'race', 2, 'the model hardly learns'),
    (20, 'reset', 3, 'the chain begins anew'),
    (20, 'cycle_start', 3, 70),
    (30, 'race', 3, 'the model hardly learns'),
    (30, 'reset', 4, 'the chain begins anew'),
    (30, 'cycle_start', 4, 75),
  ]
  assert [scale for *_, scale in scales(events)] == [1.0, 0.125, 8.0, 0.125]
  assert states(decision.control) == [PROBED, CHOSEN, PROBED]


def test_a_winner_at_hand_goes_on_untouched():
  seen = [(1, 4, 0.0), (10, 4, 0.3), (20, 4, 0.5), (30, 4, 0.5)]
  events, decision, _ = replay(racing(), 60, seen, until=40)
  assert tape(events)[-2:] == [
    (30, 'evaluation', 3, 1),
    (30, 'race', 3, 'goes on'),
  ]
  assert [scale for *_, scale in scales(events)] == [1.0, 0.125, 8.0]
  assert states(decision.control) == [PROBED, PROBED, CHOSEN]


def judged(
  losses=(4.0, 4.0),
  step=10,
  evaluations=1,
  interval=0,
  hint=60,
  metric=0.1,
  **changes,
):
  """The verdict on the first peak, from (L0, L), and its state."""
  config = config_of(racing(), hint)
  control, _ = control_lib.start(config)
  control = control._replace(
    first=Evaluation(1, losses[0], 0.0),
    last=Evaluation(step, losses[1], metric),
    num_evaluations=evaluations,
    pace=Pace(steps=(float(interval),)),
    **changes,
  )
  control, verdict = RACE.judge(control, TARGET)
  return verdict, states(control)[0]


@pytest.mark.parametrize(
  ('losses', 'goes_on'),
  (
    ((4.0, 2.0 - 1e-9), True),
    ((4.0, 2.0), True),
    ((4.0, 2.0 + 1e-9), False),
    ((4.0, 8.0), False),
    ((4.0, NAN), False),
    ((4.0, INF), False),
    ((4e-301, 1e30), False),  # the ratio underflows
    ((NAN, 1.0), False),
    ((4.0, 0.0), True),  # no log ratio
    ((4.0, -1.0), True),
    ((-1.0, -2.0), True),
  ),
)
def test_the_drop_of_the_loss(losses, goes_on):
  assert judged(losses) == (goes_on, CHOSEN if goes_on else PROBED)


@pytest.mark.parametrize(
  ('metric', 'goes_on'), ((0.05, True), (0.049, False), (NAN, False))
)
def test_the_metric_has_to_come_some_of_its_way(metric, goes_on):
  assert judged((4.0, 1.0), metric=metric)[0] is goes_on


@pytest.mark.parametrize(
  ('step', 'switches'), ((55, [55]), (70, [])), ids=('half', 'less')
)
def test_what_learns_is_left_only_while_a_new_chain_gets_as_many_steps(
  step, switches
):
  params = make_params(2, policy=RACE)
  seen = [(1, 4, 0.0), (10, 2, 0.1), (step - 1, 2, 0.1), (step, 9, 0.1)]
  events, _, _ = replay(params, 60, seen, until=step + 1)
  found = [e['global_step'] for e in events if e['event'] == 'switch']
  assert found == switches


def test_a_cycle_that_ends_with_a_loss_that_is_not_finite_has_been_left():
  seen = [(1, 4, 0.0), (10, 2, 0.1), (55, NAN, 0.1)]
  events, _, _ = replay(racing(early_switching=False), 60, seen, until=61)
  assert scales(events) == [(0, 1, 1.0), (60, 1, 0.125)]


@pytest.mark.parametrize(
  ('where', 'is_judged'),
  (
    ({'step': 1}, False),  # of the first step nothing can be said
    ({'step': 2}, False),
    ({'step': 3}, True),  # 2 % of 120 steps are 2.4
    ({'step': 10, 'evaluations': 0}, False),
    # After a compilation: 19 of 1,000 steps say nothing, 20 do.
    ({'step': 19, 'hint': 500}, False),
    ({'step': 20, 'hint': 500}, True),
    # One that is in force is not judged.
    ({'scores': (Score(0.1, CHOSEN), Score(), Score())}, False),
  ),
)
def test_the_evaluation_that_judges(where, is_judged):
  verdict, state = judged(**where)
  assert verdict is (False if is_judged else None)
  kept = CHOSEN if 'scores' in where else PROBING
  assert state == (PROBED if is_judged else kept)


@pytest.mark.parametrize(
  ('step', 'interval', 'goes_on'),
  ((15, 0, False), (16, 0, True), (10, 15, False), (10, 16, True)),
)
def test_where_evaluations_are_rare_there_is_no_race(step, interval, goes_on):
  """Two more probes of 15 steps are a quarter of 120; of 16, more."""
  assert judged(step=step, interval=interval)[0] is goes_on


PLAIN = (Score(0.3, PROBED), Score(0.2, CHOSEN), Score())
ALL = (Score(0.3, PROBED), Score(0.2, CHOSEN), Score(0.4, PROBED))
LAST = (Score(0.3, LEFT), Score(0.2, LEFT), Score(0.1, CHOSEN))


@pytest.mark.parametrize(
  ('scores', 'is_left', 'expected'),
  (
    # The chain goes on, at the factor that is in force.
    (PLAIN, False, (1, 120, 120, 0.1, False, [PROBED, CHOSEN, UNTRIED])),
    # Left: the chain begins anew, with one that has not been tried,
    (PLAIN, True, (0, 75, 120, 8.0, True, [PROBED, LEFT, PROBING])),
    # or else the best that has not been left,
    (ALL, True, (0, 75, 120, 8.0, True, [PROBED, LEFT, CHOSEN])),
    # or else the one at hand at half of its rate.
    (LAST, True, (0, 75, 120, 0.05, True, [LEFT, LEFT, CHOSEN])),
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
  race = Race(peaks=(1.0, 4.0))
  events, _, _ = replay(racing(race=race), 60, seen, until=15)
  switches = [e['global_step'] for e in events if e['event'] == 'switch']
  assert switches == [1, 3, 5, 7, 9, 11]
  assert [scale for *_, scale in scales(events)] == [
    *(1.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125)
  ]
  modes = {e['mode'] for e in events if e['event'] == 'reset'}
  assert modes == {'FullReset'}


def test_a_model_that_is_not_finite_is_never_gone_on_with():
  """Neither by a race, nor as its winner, nor in a later cycle.

  Without early switching, so that nothing but the race decides.
  """
  race = dataclasses.replace(RACE, peaks=(1.0, 0.1))
  params = racing(race=race, early_switching=False, reset=Cyclic())
  seen = [(1, 4.0, 0.1), (10, NAN, NAN), (20, NAN, NAN), (65, 4.0, NAN)]
  config = config_of(params, 60)
  control, clock = control_lib.start(config)
  plans = []
  for step in range(130):
    new = [Evaluation(*e) for e in seen if e[0] == step]
    decision = control_lib.decide(control, clock, new, step, config)
    control, clock = decision.control, decision.clock
    if decision.action == control_lib.RESET:
      plans.append(control_lib.plan_reset(decision, config, lambda: True))
  # After 10 and 20 by the race, and at 65 and 120 the cycles' ends.
  notes = [(plan is FULL, event['note']) for plan, event in plans]
  assert notes[:2] == [(True, 'the chain begins anew')] * 2
  assert all(is_full for is_full, _ in notes[:3])


def test_a_probe_that_was_never_evaluated_goes_on():
  events, decision, _ = replay(racing(), 60, [(1, 4.0, 0.0)], until=70)
  assert tape(events, without=('reset',))[2:] == [(60, 'cycle_start', 2, 120)]
  assert states(decision.control) == [PROBING, UNTRIED, UNTRIED]
  # It is judged by the next evaluation, whichever cycle that is in.
  seen = [(1, 4.0, 0.0), (70, 4.0, 0.1)]
  events, _, _ = replay(racing(race=Race((1.0, 0.1))), 60, seen, until=80)
  # Evaluations are too rare for another one.
  assert tape(events)[-1] == (70, 'race', 2, 'goes on')


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


def test_a_race_over_time():
  """Evaluated every 10 s of 400 s: probes are an interval each."""
  params = racing(horizon=TimeHorizon(), wait=True)
  config = config_of(params, 60, TARGET, budget=415.0)
  seen = [(1, 4.0, 0.0, 5.0)]
  seen += [(1 + 10 * i, 4.0, 0.1 * i, 5.0 + 10 * i) for i in range(1, 9)]
  events, decision, _ = replay(config, 60, seen, until=90)
  # The horizon is .9 of an interval beyond 5 + 39 * 10 s.
  assert decision.control.horizon == 1 + 10 * 39 + 9
  assert cycle_ends_of(events)[:2] == [
    (0, 'cycle_start', 60),
    # 389 steps are left for both cycles: 195 are, up to even, 20 intervals.
    (11, 'cycle_start', 211),
  ]
  kinds = [(e[0], e[3]) for e in tape(events) if e[1] == 'race']
  assert kinds == [
    (11, 'the model hardly learns'),
    (21, 'the model hardly learns'),
    (31, 'goes on'),  # the farthest, and the one at hand
  ]


def test_the_last_probe_goes_on_if_it_is_the_best_of_those_that_were_not_left():
  scores = (Score(0.5, LEFT), Score(0.125, PROBED), Score(0.2, PROBING))
  assert judged(scores=scores)[0] is True


def test_the_runs_first_evaluation_is_what_others_are_held_against():
  """Also where it does not follow the first step."""
  config = config_of(racing(), 60)
  control, _ = control_lib.start(config)
  for step, verdict in ((5, None), (10, False)):
    new = Evaluation(step, 4.0, 0.1)
    control, _ = control_lib.observe(control, new, config)
    assert RACE.judge(control, TARGET)[1] is verdict


def test_peaks_are_floats_which_a_checkpoint_restores():
  assert all(type(peak) is float for peak in Race((1, 0.1, 10)).peaks)
