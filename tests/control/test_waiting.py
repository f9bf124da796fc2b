"""Cycles' ends that wait for an evaluation, whole."""

from __future__ import annotations

import pytest

from replay import make_params, replay, rules_of, tape
from reset_cycles.control import decide
from reset_cycles.control.state import Evaluation

UNSEEN = 'the annealed model has not been evaluated'


def waiting(**changes):
  return make_params(wait=True, early_switching=False, **changes)


def test_a_reset_waits_for_the_evaluation_of_the_annealed_model():
  # Every 3 steps: the ends at 4 and 8 are seen at 6 and 9, so that 6 steps are
  # left for 2 cycles after the first one, and 3 for the last one.
  evaluations = [(step, 1.0, step / 100) for step in range(3, 16, 3)]
  events, decision, local_steps = replay(waiting(), 6, evaluations, until=16)
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (3, 'evaluation', 1, 1),
    (4, 'wait', 1, UNSEEN),
    (6, 'evaluation', 1, 2),
    (6, 'cycle_start', 2, 9),
    (9, 'evaluation', 2, 1),
    (9, 'cycle_start', 3, 12),
    (12, 'evaluation', 3, 1),
    (12, 'finish', 3, 'cycles have run out'),
  ]
  waits = [e['cycle_end'] for e in events if e['event'] == 'wait']
  assert waits == [7]  # 4 and the longest way between two evaluations so far
  # The clock goes on past the nominal end, where the rate stays.
  assert local_steps[:6] == [(0, float(t)) for t in range(6)]
  assert decision.control.give_up == -1


def test_the_last_cycle_waits_as_well():
  evaluations = [(step, 1.0, 0.1) for step in (5, 10, 15)]
  events, decision, local_steps = replay(waiting(n=1), 6, evaluations, 20)
  assert tape(events) == [
    (0, 'cycle_start', 1, 12),
    (5, 'evaluation', 1, 1),
    (10, 'evaluation', 1, 2),
    (12, 'wait', 1, UNSEEN),
    (15, 'evaluation', 1, 3),
    (15, 'finish', 1, 'cycles have run out'),
  ]
  assert decision.action == decide.FINISH
  assert len(local_steps) == 15


def test_an_evaluation_that_does_not_come_is_given_up():
  evaluations = [(3, 1.0, 0.1)]
  events, decision, _ = replay(waiting(), 6, evaluations, until=20)
  # 3 steps after each end, but not beyond the horizon, 12.
  assert tape(events) == [
    (0, 'cycle_start', 1, 4),
    (3, 'evaluation', 1, 1),
    (4, 'wait', 1, UNSEEN),
    (7, 'cycle_start', 2, 10),
    (10, 'wait', 2, UNSEEN),
    (12, 'finish', 2, 'cycles have run out'),
  ]
  assert decision.was_evaluated


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


def test_what_is_done_while_it_waits():
  rules = rules_of(waiting(), 6)
  control, clock = decide.start(rules), decide.first_clock(rules)
  found = []
  for step, seen in ((3, [Evaluation(3, 1.0, 0.1)]), (4, []), (5, [])):
    decision = decide.decide(control, clock, seen, step, rules)
    control, clock = decision.control, decision.clock
    events = [event['event'] for event in decision.events]
    found.append((decision.action, decide.due(control), events))
  assert found == [
    ('go_on', 4, ['evaluation']),
    ('wait', 7, ['wait']),
    ('wait', 7, []),
  ]
  # A late one, of the model before the end, is none that was waited for.
  late = [Evaluation(3, 1.0, 0.1)]
  decision = decide.decide(control, clock, late, 5, rules)
  assert decision.action == decide.WAIT
  decision = decide.decide(control, clock, [Evaluation(6, 1.0, 0.1)], 6, rules)
  assert decision.action == decide.RESET and decision.was_evaluated


@pytest.mark.parametrize('policy', ['hold', 'repeat'])
def test_other_policies(policy):
  params = waiting(policy=policy, decays=('constant',) * 3)
  evaluations = [(step, 1.0, 0.1) for step in range(5, 30, 5)]
  events, _, _ = replay(params, 6, evaluations, until=25)
  short = [e[:3] for e in tape(events) if e[1] != 'evaluation']
  last = {
    'hold': [(15, 'hold', 3)],
    # 4 steps from 15 on, and their evaluation.
    'repeat': [(15, 'cycle_start', 4), (19, 'wait', 4)]
    + [(20, 'cycle_start', 5), (24, 'wait', 5)],
  }[policy]
  assert short == [
    (0, 'cycle_start', 1),
    # No evaluation yet: no period is known.
    (4, 'cycle_start', 2),
    (8, 'wait', 2),
    (10, 'cycle_start', 3),
    (12, 'wait', 3),
    *last,
  ]
