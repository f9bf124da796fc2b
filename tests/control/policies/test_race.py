"""A race inside a run, whole."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from replay import make_params, replay, rules_of
from reset_cycles.control import decide
from reset_cycles.control.history import (
  LOST,
  OPEN,
  OVER,
  PAUSED,
  UNBEGUN,
  Standing,
)
from reset_cycles.control.policies import Situation
from reset_cycles.control.state import Evaluation, from_words, to_words
from reset_cycles.control.switching import Verdict
from reset_cycles.cycles.lists import CHAIN, OPTIONAL_LISTS
from reset_cycles.schedules import cycle_clock

NAN = math.nan
# What a peak comes to at the end of its cycle, by its factor.
ENDS = {1.0: 0.5, 3.0: 0.9, 0.5: 0.7}


def race(**parameters):
  policy = {'name': 'race', 'probes': 3, 'rounds': [0.1], 'scales': [1, 3, 0.5]}
  changes = parameters.pop('changes', {})
  policy = {**policy, **parameters}
  return make_params(
    **{'n': 1, 'policy': policy, 'early_switching': False, **changes}
  )


def hold(params, every, until, lost_at=None, ends=ENDS, loss=lambda step: 1.0):
  """A run whose metric is ends[scale] times the share of the cycle.

  Returns:
    (step, start_from, paused slot, scale, end, where on the clock) of the cycles
    after the first one, and the last control.
  """
  rules = rules_of(params, 50)  # 100 steps
  control, clock, found = decide.start(rules), decide.first_clock(rules), []
  for step in range(until):
    if step == lost_at:
      control = decide.after_preemption(control)
    seen = []
    if step and step % every == 0:
      local = cycle_clock.local_step_on_host(clock, step)
      share = min(local / rules.cycles[control.cycle].steps, 1.0)
      seen = [Evaluation(step, loss(step), ends[control.scale] * share)]
    decision = decide.decide(control, clock, seen, step, rules)
    control, clock = decision.control, decision.clock
    if decision.action == decide.RESET:
      where = round(cycle_clock.local_step_on_host(clock, step), 3)
      what = (decision.start_from, decision.paused, control.scale)
      found.append((step, *what, control.cycle_end, where))
  return found, control


def test_three_peaks_and_on_with_the_best():
  found, control = hold(race(), 5, 200)
  assert found == [
    (10, 'fresh', 0, 3.0, 20, 0.0),
    (20, 'fresh', 1, 0.5, 30, 0.0),
    # 3 is in front; of its 90 steps there is room for 70.
    (30, 'paused', 2, 3.0, 100, 10.0),
    # Then the next best; the run is put off.
    (100, 'paused', -1, 0.5, 190, 10.0),
    (190, 'paused', -1, 1.0, 280, 10.0),
  ]
  assert control.horizon == 280
  assert [one.state for one in control.history[:3]] == [1, 3, 3]
  # Of all stints; of the one that goes on, those before it.
  assert [one.steps for one in control.history[:3]] == [10, 80, 100]


def test_the_clock_goes_on_where_it_was():
  rules = rules_of(race(), 50)
  found, _ = hold(race(), 5, 31)
  assert found[2][4:] == (100, 10.0)
  control, clock = decide.start(rules), decide.first_clock(rules)
  assert control.cycle_end == 10 and control.until == 0.1
  # A probe is the beginning of its full cycle.
  assert cycle_clock.local_step_on_host(clock, 7) == pytest.approx(7.0, 1e-6)


def test_two_rounds():
  found, _ = hold(race(rounds=[0.1, 0.2], keep=[2]), 5, 60)
  assert [row[:5] for row in found] == [
    (10, 'fresh', 0, 3.0, 20),
    (20, 'fresh', 1, 0.5, 30),
    (30, 'paused', 2, 3.0, 40),
    (40, 'paused', 1, 0.5, 50),
    (50, 'paused', 2, 3.0, 100),
  ]


@pytest.mark.parametrize('start', ['current', 'best'])
def test_no_start_but_a_fresh_one(start):
  policy = {'name': 'race'}
  lists = dict.fromkeys((*CHAIN, *OPTIONAL_LISTS), ())
  params = make_params(**lists, cycles=[{}, {'start_from': 'fresh'}])
  params = dataclasses.replace(params, policy=policy)
  assert rules_of(params, 50).cycles[1].start_from == 'fresh'
  params = dataclasses.replace(params, cycles=[{}, {'start_from': start}])
  wrong = rf"cycles\[1\].start_from='{start}': .* '' or 'fresh'"
  with pytest.raises(ValueError, match=wrong):
    rules_of(params, 50)


def test_a_probe_ends_at_an_evaluation_even_if_it_comes_late():
  # Every 7 steps: 7 is nearer to 10 than 14 is. Each probe takes one period.
  found, _ = hold(race(), 7, 30)
  assert [row[0] for row in found] == [7, 14, 21]
  # Every 30 steps, which is longer than a probe: each waits for one.
  found, control = hold(race(), 30, 100)
  assert [row[0] for row in found] == [30, 60, 90]
  assert found[2][5] == pytest.approx(30.0)
  # Nothing is evaluated: nothing can be compared, and each has its full length.
  found, _ = hold(race(), 1000, 400)
  assert [row[:2] for row in found][:3] == [
    (100, 'fresh'),
    (200, 'fresh'),
    (300, 'best'),
  ]


def test_a_round_that_is_over_when_it_begins():
  # Evaluations every 20: after the first round each is at .2 already.
  found, _ = hold(race(rounds=[0.1, 0.2], keep=[2]), 20, 110)
  assert [row[:4] for row in found] == [
    (20, 'fresh', 0, 3.0),
    (40, 'fresh', 1, 0.5),
    (60, 'paused', 2, 3.0),
    (80, 'paused', 1, 0.5),
    (100, 'paused', 2, 3.0),
  ]


def test_no_race_where_the_first_is_not_behind():
  found, _ = hold(race(enough=0.05), 5, 110)
  # 90 steps are left of the first one, and it has them.
  assert found[0] == (10, 'paused', 0, 1.0, 100, 10.0)
  assert [row[:4] for row in found[1:]] == [(100, 'fresh', -1, 3.0)]


def test_the_switching_rule_stays_on_in_a_race():
  def loss(step):
    return NAN if 10 < step <= 15 else 1.0

  params = race(changes={'early_switching': True})
  found, control = hold(params, 5, 40, loss=loss)
  assert found == [
    (10, 'fresh', 0, 3.0, 20, 0.0),
    (15, 'fresh', -1, 0.5, 25, 0.0),  # 3 is out
    (25, 'paused', 2, 0.5, 100, 10.0),
  ]
  assert control.num_early_stops == 1


def test_settings_of_the_list_race_as_well():
  params = race(scales=[1.0], probes=2, changes={'n': 2})
  found, control = hold(params, 5, 30)
  # Cycles of 50 steps, probes of 5.
  assert [row[0] for row in found] == [5, 10]
  assert control.cycle == 0 and control.cycle_end == 55


def test_when_all_are_over_further_cycles_follow():
  short = race(peaks=[0.5], lengths=[0.2], start='best')
  found, _ = hold(short, 5, 305, ends={**ENDS, 1.5: 0.9})
  assert found[-2:] == [
    (280, 'best', -1, 1.5, 300, 0.0),
    (300, 'best', -1, 1.5, 320, 0.0),
  ]


def test_a_preemption_loses_the_paused_and_nothing_else():
  found, control = hold(race(), 5, 100, lost_at=25)
  assert found[:2] == hold(race(), 5, 100)[0][:2]
  # The winner is the same, and begins again.
  assert found[2:] == [(30, 'fresh', 2, 3.0, 100, 0.0)]
  states = [one.state for one in control.history[:3]]
  assert states == [LOST, 1, PAUSED]
  assert control.history[1].marks[0].best == pytest.approx(0.09)
  assert control.history[3].state == UNBEGUN


def test_what_it_knows_is_saved():
  params = race(rounds=[0.1, 0.2], keep=[2], by='ranks')
  evaluations = [(s, 1.0 + s % 7, 0.01 * (s % 11)) for s in range(3, 300, 3)]

  def through_words(control):
    words = np.frombuffer(to_words(control).tobytes(), np.int32)
    return from_words(words, decide.start(rules_of(params, 50)))

  plain = replay(params, 50, evaluations, until=300)
  saved = replay(params, 50, evaluations, 300, through_words)
  assert repr(saved) == repr(plain)
  kinds = [e['event'] for e in plain[0]]
  assert kinds.count('pause') == 5


def test_a_race_of_one_is_refused():
  with pytest.raises(ValueError, match='a race needs two cycles'):
    rules_of(race(scales=[2.0]), 50)


def test_a_whole_cycle_may_be_a_share_of_the_run():
  # 60 of 100 steps; probes take 6 of them, and come to the 10th nominal step.
  found, control = hold(race(full=0.6), 2, 75)
  assert found == [
    (6, 'fresh', 0, 3.0, 12, 0.0),
    (12, 'fresh', 1, 0.5, 18, 0.0),
    (18, 'paused', 2, 3.0, 72, 10.0),
    # Then the next best; for more than half of its 54 steps there is room.
    (72, 'paused', -1, 0.5, 100, 10.0),
  ]
  assert control.horizon == 100


def test_further_cycles_where_one_has_ended_near_the_target():
  near = race(full=0.6, near=0.85, peaks=[0.5], lengths=[0.2])
  found, _ = hold(near, 2, 75, ends={**ENDS, 1.5: 0.9})
  # A fifth of the 60 steps.
  assert found[3] == (72, 'best', -1, 1.5, 84, 0.0)
  found, _ = hold(race(full=0.6, near=0.95), 2, 75)
  assert found[3][:4] == (72, 'paused', -1, 0.5)
  # Near is not enough for one that was left before its end.
  left = race(full=0.6, near=0.5, changes={'early_switching': True})
  found, _ = hold(left, 2, 75, loss=lambda s: NAN if 60 <= s < 62 else 1.0)
  assert found[3][:4] == (60, 'paused', -1, 0.5)


def test_a_probe_is_pressed_with_the_run():
  params = race(changes={'horizon': 'time'})
  rules = rules_of(params, 50)._replace(budget=105.0)  # seconds; 100 steps
  control, clock = decide.start(rules), decide.first_clock(rules)
  assert control.cycle_end == 10
  evaluation = Evaluation(2, 1.0, 0.1, 10.0)
  decision = decide.decide(control, clock, [evaluation], 2, rules)
  assert decision.action == decide.GO_ON
  # Two steps in 10 s: in 105 s there are 19. The probe's 6 of the 96 steps that
  # were left are 15/16 of a step now.
  evaluation = Evaluation(4, 1.0, 0.2, 20.0)
  decision = decide.decide(decision.control, clock, [evaluation], 4, rules)
  assert decision.action == decide.RE_ANCHOR
  assert (decision.control.horizon, decision.control.cycle_end) == (19, 5)
  assert cycle_clock.local_step_on_host(decision.clock, 4) == pytest.approx(4.0)
  assert cycle_clock.local_step_on_host(decision.clock, 5) == pytest.approx(10)


def test_the_evaluation_after_the_first_step_is_no_period():
  # Then every 15, which is longer than a probe: each waits for one.
  rules = rules_of(race(), 50)
  control, clock, ends = decide.start(rules), decide.first_clock(rules), []
  for step in range(50):
    seen = []
    if step == 1 or (step and step % 15 == 0):
      seen = [Evaluation(step, 1.0, 0.01 * step)]
    decision = decide.decide(control, clock, seen, step, rules)
    control, clock = decision.control, decision.clock
    ends += [step] * (decision.action == decide.RESET)
  assert ends == [15, 30, 45]


class Hurry:
  """A switching rule that leaves at every evaluation from step 12 on."""

  initial, columns = (), ()

  def observe(self, state, evaluation, context):
    return state, Verdict('in a hurry' if evaluation.step >= 12 else '', {})


def ends_of_cycles(params, until, losses=()):
  rules = rules_of(params, 50)._replace(switching=Hurry())
  control, clock, ends = decide.start(rules), decide.first_clock(rules), []
  for step in range(until):
    loss = NAN if step in losses else 1.0
    seen = [Evaluation(step, loss, 0.001 * step)] if step % 4 == 0 else []
    decision = decide.decide(control, clock, seen, step, rules)
    control, clock = decision.control, decision.clock
    ends += [step] * (decision.action == decide.RESET)
  return ends, [one.state for one in control.history[:3]]


def test_a_patient_race_leaves_a_cycle_only_for_one_that_is_not_known():
  changes = {'early_switching': True}
  # The first one goes on alone after its probe, 8 steps of 10, and is left at
  # 12. So is the second one, in its probe; then all have begun, and the third
  # one's probe ends as it would, and it has its 90 steps.
  patient = race(enough=0.0, patient=True, changes=changes)
  assert ends_of_cycles(patient, 100) == ([8, 12, 16, 24], [OVER, OVER, OPEN])
  # But for one that has diverged: a further cycle follows.
  ends, states = ends_of_cycles(patient, 60, losses={40})
  assert (ends, states) == ([8, 12, 16, 24, 40], [OVER, OVER, OVER])
  hasty = race(enough=0.0, changes=changes)
  ends, _ = ends_of_cycles(hasty, 31)
  assert ends == [8, 12, 16, 20, 24, 28]


def test_a_patient_race_leaves_no_further_cycle():
  """Not even for cycles of the list, which have no turn any more."""
  rules = rules_of(race(patient=True), 50)
  policy, three = rules.policy, (Standing(), Standing(), Standing())
  history = (*three, Standing(state=OPEN), *[Standing()] * 3)
  assert len(history) == policy.num_slots(rules.cycles)
  found = [policy.may_leave(history, slot) for slot in (0, 2, 3, 6)]
  assert found == [True, True, False, False]


@pytest.mark.parametrize(
  ('rest', 'binds', 'end'),
  [
    (90, False, 90),
    (45, False, 45),  # half of the 90 that are missing: pressed into the run
    (44, False, 90),  # less: the run is put off
    (44, True, 44),
    (1, True, 1),
    (0, True, 90),
  ],
)
def test_the_last_stint_and_what_the_run_has_left(rest, binds, end):
  rules = rules_of(race(), 50)
  over = Standing(state=OVER)
  paused = Standing(scale=3.0, state=PAUSED, share=0.1, stints=1)
  # The whole cycle has 100 steps.
  situation = Situation(
    rules.cycles,
    0,
    100 - rest,
    100,
    binds,
    (over, paused, over, *[Standing()] * 4),
  )
  following = rules.policy.next(situation)
  assert following.until == 1.0
  assert following.end - situation.step == end
  assert following.horizon == max(100, following.end)


@pytest.mark.parametrize('binds', [False, True])
def test_a_probe_is_not_cut_off_by_the_horizon(binds):
  rules = rules_of(race(), 50)
  unbegun = (Standing(),) * 7
  situation = Situation(rules.cycles, 0, 97, 100, binds, unbegun)
  following = rules.policy.next(situation)
  assert following.until == pytest.approx(0.1)
  assert (following.end, following.horizon) == (107, 107)
