"""The list of settings, and what follows when it has run out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replay import make_params, replay, rules_of, tape
from reset_cycles.control import decide
from reset_cycles.control.history import OVER, Mark, Standing
from reset_cycles.control.policies import POLICIES, Situation
from reset_cycles.control.state import Evaluation, from_words, to_words

NAN = math.nan


def queue(**parameters):
  return {'name': 'queue', **parameters}


def starts(rules, step_hint, evaluations, until):
  """(step, start_from, setting, scale, end) of the cycles after the first."""
  control, clock, found = decide.start(rules), decide.first_clock(rules), []
  seen = {e[0]: [Evaluation(*e)] for e in evaluations}
  for step in range(until):
    decision = decide.decide(control, clock, seen.get(step, []), step, rules)
    control, clock = decision.control, decision.clock
    if decision.action == decide.RESET:
      cycle = (control.cycle, control.scale, control.cycle_end)
      found.append((step, decision.start_from, *cycle))
  return found, control


def test_the_best_model_is_one_that_is_still_there():
  """What was evaluated before the step about to be taken can't be kept."""
  params = make_params(policy=queue(start='best'), early_switching=False)
  rules = rules_of(params, 60)
  control, clock = decide.start(rules), decide.first_clock(rules)
  found = []
  for step, steps in ((5, [3]), (6, [4, 6]), (8, [7]), (9, [9])):
    seen = [Evaluation(s, 1.0, 0.1 * (10 - s)) for s in steps]
    control = decide.decide(control, clock, seen, step, rules).control
    found.append(round(control.best, 3))
  assert found == [-math.inf, 0.4, 0.4, 0.4]
  # Of the cycle it is known how far it has come.
  assert control.history[0].now.best == pytest.approx(0.7)


def test_the_list_and_then_more_of_the_best():
  # 12 steps in 3 cycles. The second setting comes furthest, .6.
  metrics = {4: 0.3, 8: 0.6, 12: 0.4}
  # Further ones of 2 and 4 steps, with .5 and 1 times the peak.
  metrics.update({14: 0.62, 16: 0.7, 20: 0.66, 24: 0.72, 26: 0.8, 28: 0.81})
  evaluations = [(step, 1.0, metric) for step, metric in metrics.items()]
  policy = queue(peaks=[0.5, 1.0], lengths=[0.5, 1.0])
  rules = rules_of(make_params(policy=policy, early_switching=False), 6)
  found, control = starts(rules, 6, evaluations, 30)
  assert found == [
    (4, '', 1, 1.0, 8),
    (8, '', 2, 1.0, 12),
    (12, 'best', 1, 0.5, 14),
    (14, 'best', 1, 1.0, 16),
    (16, 'best', 1, 0.5, 20),
    (20, 'best', 1, 1.0, 24),
    # Gains per step: .02 / 2, .08 / 2, -.04 / 4 and .02 / 4.
    (24, 'best', 1, 1.0, 26),
    # .08 / 2 again, and then .01 / 2: it is still the one with most.
    (26, 'best', 1, 1.0, 28),
    (28, 'best', 1, 0.5, 30),
  ]
  assert control.best == 0.81


def test_a_setting_that_is_left_gives_its_steps_to_the_next_one():
  policy = queue(then='fresh')
  params = make_params(policy=policy)
  evaluations = [(1, 1.0, 0.1), (2, 9.0, 0.1)]
  rules = rules_of(params, 6)
  found, _ = starts(rules, 6, evaluations, 8)
  assert found == [(2, 'fresh', 1, 1.0, 7), (7, 'fresh', 2, 1.0, 12)]


def test_a_further_cycle_that_diverges_is_left_for_another_kind():
  policy = queue(peaks=[2.0, 0.5], lengths=[1.0], start='current')
  rules = rules_of(make_params(n=1, policy=policy), 6)
  evaluations = [(12, 1.0, 0.5), (13, NAN, 0.5), (25, 1.0, 0.6), (37, NAN, NAN)]
  found, _ = starts(rules, 6, evaluations, 40)
  assert found == [
    (12, 'current', 0, 2.0, 24),
    (13, 'current', 0, 0.5, 25),
    (25, 'current', 0, 0.5, 37),
    # Its gain is none now; so is that of the other, which took fewer steps.
    (37, 'current', 0, 2.0, 49),
  ]


def test_without_a_finite_metric_the_last_setting_goes_on():
  rules = rules_of(make_params(policy=queue(), early_switching=False), 6)
  found, control = starts(rules, 6, [(9, 1.0, NAN)], 16)
  assert found[2:] == [(12, 'best', 2, 0.3, 14), (14, 'best', 2, 1.0, 16)]
  assert control.best == -math.inf


def test_a_binding_horizon_is_filled():
  policy = POLICIES.make('queue')
  cycles = rules_of(make_params(), 20).cycles  # 14, 13 and 13 steps
  standings = [Standing(i, 1.0, OVER, now=Mark(0.5)) for i in range(3)]
  history = (*standings, *[Standing()] * 4)
  bound = Situation(cycles, 2, 40, 52, True, history)
  # Half of 14 steps, in proportion, are wanted: 10. The 12 that are left are one
  # cycle; 18 would be two.
  assert policy.next(bound)[1:3] == (52, 52)
  assert policy.next(bound._replace(step=34))[1:3] == (43, 52)
  assert policy.next(bound._replace(horizon=44))[1:3] == (44, 44)
  assert policy.next(bound._replace(binds=False))[1:3] == (47, 52)
  assert policy.next(bound._replace(step=52))[1:3] == (62, 62)


def test_what_it_knows_is_saved():
  params = make_params(policy=queue(), early_switching=False)
  evaluations = [(step, 1.0, 0.1 + step / 100) for step in range(1, 40, 2)]

  def through_words(control):
    words = np.frombuffer(to_words(control).tobytes(), np.int32)
    return from_words(words, decide.start(rules_of(params, 6)))

  plain = replay(params, 6, evaluations, until=40)
  assert repr(replay(params, 6, evaluations, 40, through_words)) == repr(plain)
  assert len(tape(plain[0])) > 20


@pytest.mark.parametrize(
  'parameters, message',
  [
    ({'peaks': []}, 'peaks=.*at least one'),
    ({'lengths': [2.0]}, 'lengths.*at most 1'),
    ({'start': 'bset'}, 'one of .*best'),
  ],
)
def test_parameters_that_are_none(parameters, message):
  with pytest.raises(ValueError, match=message):
    make_params(policy=queue(**parameters))
