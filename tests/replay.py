"""Runs without a model: decisions, step by step as `run` takes them."""

from __future__ import annotations

import dataclasses

from reset_cycles.control import decide
from reset_cycles.control import events as what
from reset_cycles.control.state import Evaluation, Target
from reset_cycles.schedule_params import THESIS, make_rules
from reset_cycles.schedules import cycle_clock

PEAK = 0.0017486387539278373

# l = L, and what is a rise, and how long a plateau lasts, is easily seen.
EASY = {
  'name': 'thesis',
  'lam': 1.0,
  'eps1': 0.5,
  'eps2': 0.25,
  'k': 2,
  'm': 1,
}
TARGET = Target('validation/metric', 1.0, True)


def make_params(n=3, **changes):
  return dataclasses.replace(
    THESIS,
    **{
      'warmups': ('linear',) * n,
      'decays': ('cosine',) * n,
      'alter_lr': (0.0, 0.001, -0.001, 0.002, 0.003)[:n],
      'alter_warmup': (0.0,) * n,
      'lengths': (1.0,) * n,
      'switching': EASY,
      **changes,
    },
  )


def rules_of(params, step_hint, target=TARGET):
  return make_rules(step_hint, params, target)


def replay(params, step_hint, evaluations, until=None, save=lambda c: c):
  """Goes through a run step by step, as `run` does.

  Args:
    params, step_hint: the configuration; `params` may also be made Rules.
    evaluations: [(step, loss, metric)] or {step it is seen at: [those]}.
    until: the step not to be taken any more.
    save: what happens to the control before every step.

  Returns:
    Events with their global_step, in order, the last decision, and for each
    step that was taken the (cycle, local step) of the clock.
  """
  rules = params
  if not isinstance(params, decide.Rules):
    rules = rules_of(params, step_hint)
  if not isinstance(evaluations, dict):
    evaluations = {e[0]: [e] for e in evaluations}
  control, clock = decide.start(rules), decide.first_clock(rules)
  horizon = control.horizon
  events = [_stamp(0, what.cycle_start_event(control, clock, rules))]
  local_steps = []
  for step in range(horizon + 1 if until is None else until):
    new = [Evaluation(*e) for e in evaluations.get(step, ())]
    decision = decide.decide(save(control), clock, new, step, rules)
    control, clock = decision.control, decision.clock
    events += [_stamp(step, event) for event in decision.events]
    if decision.action == decide.FINISH:
      break
    if decision.action == decide.RESET:
      start = what.cycle_start_event(control, clock, rules)
      events += [_stamp(step, start)]
    local = cycle_clock.local_step_on_host(clock, step)
    local_steps.append((int(clock.cycle), local))
  return events, decision, local_steps


def _stamp(step, event):
  return {'global_step': step, **event}


def tape(events):
  """Events in short: (step, what, cycle, reason or end of the cycle or t)."""
  details = {'cycle_start': 'cycle_end', 'evaluation': 'evaluation'}
  return [
    (
      event['global_step'],
      event['event'],
      event['cycle'],
      event.get(details.get(event['event'], 'reason')),
    )
    for event in events
  ]
