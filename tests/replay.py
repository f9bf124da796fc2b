"""Runs without a model: cycle_control, step by step as `run` calls it."""

from __future__ import annotations

from reset_cycles.control import decide as cycle_control
from reset_cycles.control.decide import Evaluation
from reset_cycles.schedule_params import ScheduleParams

PEAK = 0.0017486387539278373

# l = L, and what is a rise, and how long a plateau lasts, is easily seen.
EASY = {
  'switch_lam': 1.0,
  'switch_eps1': 0.5,
  'switch_eps2': 0.25,
  'switch_k': 2,
  'switch_m': 1,
}


def make_params(n=3, **changes):
  return ScheduleParams(
    **{
      'warmups': ('linear',) * n,
      'decays': ('cosine',) * n,
      'alter_lr': (0.0, 0.001, -0.001, 0.002, 0.003)[:n],
      'alter_warmup': (0.0,) * n,
      'lengths': (1.0,) * n,
      **EASY,
      **changes,
    }
  )


def replay(params, step_hint, evaluations, until=None, save=lambda c: c):
  """Goes through a run step by step, as `run` does.

  Args:
    params, step_hint: the configuration.
    evaluations: [(step, loss, metric)] or {step it is seen at: [those]}.
    until: the step not to be taken any more.
    save: what happens to the control before every step.

  Returns:
    Events with their global_step, in order, the last decision, and for each
    step that was taken the (cycle, local step) of the clock.
  """
  plan = cycle_control.make_plan(step_hint, params)
  if not isinstance(evaluations, dict):
    evaluations = {e[0]: [e] for e in evaluations}
  control = cycle_control.start(plan)
  clock = cycle_control.clock(control, 0, plan)
  events = [_stamp(0, cycle_control.cycle_start_event(control, 0, plan))]
  local_steps = []
  for step in range(plan.horizon + 1 if until is None else until):
    new = [Evaluation(*e) for e in evaluations.get(step, ())]
    decision = cycle_control.decide(save(control), new, step, plan)
    control = decision.control
    events += [_stamp(step, event) for event in decision.events]
    if decision.action == cycle_control.FINISH:
      break
    if decision.action == cycle_control.RESET:
      clock = cycle_control.clock(control, step, plan)
      start = cycle_control.cycle_start_event(control, step, plan)
      events += [_stamp(step, start)]
    local = float(clock.anchor_local)
    local += (step - int(clock.anchor_step)) * float(clock.pace)
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
