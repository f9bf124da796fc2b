"""Runs without a model: decisions, step by step as `core.run` takes them."""

from __future__ import annotations

import dataclasses

from reset_cycles.core import control as control_lib
from reset_cycles.core import schedules
from reset_cycles.core.state import RunConfig
from reset_cycles.core.workload import Evaluation, Target
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.parts.chains import chain_of_lists
from reset_cycles.schedule_params import THESIS

PEAK = 0.0017486387539278373
# l = L, and what is a rise, and how long a plateau lasts, is easily seen.
EASY = SmoothedLossRule(lam=1.0, eps1=0.5, eps2=0.25, k=2, m=1)
TARGET = Target('validation/metric', 1.0, True)


def make_params(n=3, lengths=None, **changes):
  """n cycles without a warm-up, whose peaks differ."""
  cycles = chain_of_lists(
    alter_lr=(0.0, 0.001, -0.001, 0.002, 0.003)[:n],
    alter_warmup=(-0.02,) * n,
    warmups=(THESIS.cycles[0].warmup,) * n,
    decays=(THESIS.cycles[0].decay,) * n,
  )
  cycles = tuple(
    dataclasses.replace(cycle, length=length)
    for cycle, length in zip(cycles, lengths or (1.0,) * n)
  )
  changes = {'switching': EASY, **changes}
  return dataclasses.replace(THESIS, cycles=cycles, **changes)


def config_of(params, step_hint, target=TARGET, **numbers):
  """What decides; `numbers` are a budget or most_steps."""
  return RunConfig(params, params.chain(step_hint).cycles, target, **numbers)


def replay(params, step_hint, evaluations, until=None, save=lambda c: c):
  """Goes through a run step by step, as `core.run` does.

  Args:
    params, step_hint: the configuration; `params` may also be a RunConfig.
    evaluations: [(step, loss, metric, ...)] or {step it is seen at: [those]}.
    until: the step not to be taken any more.
    save: what happens to the control before every step.

  Returns:
    Events with their global_step, in order, the last decision, and for each
    step that was taken the (cycle, local step) of the clock.
  """
  config = params
  if not isinstance(params, RunConfig):
    config = config_of(params, step_hint)
  if not isinstance(evaluations, dict):
    evaluations = {e[0]: [e] for e in evaluations}
  control, clock = control_lib.start(config)
  horizon = control.horizon
  first = control_lib.cycle_start_event(control, clock, config)
  events = [{'global_step': 0, **first}]
  local_steps = []
  for step in range(horizon + 1 if until is None else until):
    new = [Evaluation(*e) for e in evaluations.get(step, ())]
    decision = control_lib.decide(save(control), clock, new, step, config)
    control, clock = decision.control, decision.clock
    events += [{'global_step': step, **event} for event in decision.events]
    if decision.action == control_lib.FINISH:
      break
    if decision.action == control_lib.RESET:
      plan, reset = control_lib.plan_reset(decision, config, lambda: True)
      control = control_lib.after_reset(control, plan, config)
      start = control_lib.cycle_start_event(control, clock, config)
      events += [{'global_step': step, **event} for event in (reset, start)]
    local = schedules.local_step_on_host(clock, step)
    local_steps.append((int(clock.cycle), local))
  return events, decision, local_steps


def tape(events, without=('reset',)):
  """Events in short: (step, what, cycle, reason or end of the cycle or t)."""
  details = {
    'cycle_start': 'cycle_end',
    'evaluation': 'evaluation',
    'reset': 'note',
  }
  return [
    (
      event['global_step'],
      event['event'],
      event['cycle'],
      event.get(details.get(event['event'], 'reason')),
    )
    for event in events
    if event['event'] not in without
  ]


def cycle_ends_of(events):
  """(step, what, its cycle's end) of what sets an end."""
  kinds = ('cycle_start', 'clock')
  return [
    (e['global_step'], e['event'], e['cycle_end'])
    for e in events
    if e['event'] in kinds
  ]
