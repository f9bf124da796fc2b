"""Runs without a model: transitions, step by step as `core.run` takes them."""

import dataclasses
import functools
import math

from reset_cycles.core import control as control_lib
from reset_cycles.core import schedules
from reset_cycles.core.control import RunConfig
from reset_cycles.core.evaluation import Evaluation, Target
from reset_cycles.core.schedules import Cycle
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.schedule_params import THESIS

PEAK = 0.0017486387539278373
# l = L, and what is a rise, and how long a plateau lasts, is easily seen.
EASY = SmoothedLossRule(lam=1.0, eps1=0.5, eps2=0.25, k=2, m=1)
TARGET = Target('validation/metric', 1.0, True)


class Still:
  """A horizon that stays as planned."""

  def steps_to_come(self, intervals, seconds_left):
    return 0


def make_params(n=3, lengths=None, **changes):
  """n cycles, or those lengths, without a warm-up; their peaks differ."""
  lengths = lengths or (1.0,) * n
  cycles = tuple(
    Cycle(PEAK + added, length, warmup_factor=0.0)
    for added, length in zip((0.0, 0.001, -0.001, 0.002, 0.003), lengths)
  )
  return dataclasses.replace(
    THESIS, **{'cycles': cycles, 'switching': EASY, **changes}
  )


lay_out = functools.cache(schedules.jax_lr_schedule)


def config_of(params, step_hint, target=TARGET, **numbers):
  """What decides; `numbers` are a budget or most_steps."""
  cycles = lay_out(step_hint, params.cycles, params.budget_factor)
  return RunConfig(params, cycles, target, **numbers)


def replay(
  params,
  step_hint,
  evaluations,
  until=None,
  save=lambda c: c,
  first_peak=math.nan,
):
  """Goes through a run step by step; nothing may happen where nothing is due.

  Args:
    params, step_hint: the configuration; `params` may also be a RunConfig.
    evaluations: [(step, loss, metric, ...)] or {step it is seen at: [those]}.
    until: the step not to be taken any more.
    save: what happens to the control before every step.
    first_peak: of the first cycle; NaN: as it is written.

  Returns:
    Events with their global_step, in order, the last transition, and for each
    step that was taken the (cycle, local step) of the clock.
  """
  config = params
  if not isinstance(params, RunConfig):
    config = config_of(params, step_hint)
  if not isinstance(evaluations, dict):
    evaluations = {e[0]: [e] for e in evaluations}
  control, clock, first = control_lib.start(config, first_peak)
  events, local_steps, due = [{'global_step': 0, **first}], [], 0
  for step in range(control.horizon + 1 if until is None else until):
    new = [Evaluation(*e) for e in evaluations.get(step, ())]
    after = control_lib.transition(
      save(control), clock, new, step, config, lambda: True
    )
    assert new or step >= due or (not after.events and after.clock is clock)
    control, clock, due = after.control, after.clock, after.due
    events += [{'global_step': step, **event} for event in after.events]
    if after.is_over:
      break
    local = schedules.local_step(clock, step)
    local_steps.append((int(clock.cycle), local))
  return events, after, local_steps


def transitions(config, seen, steps, is_model_finite=lambda: True):
  """The transitions before each of the steps, with what has come in by then."""
  control, clock, _ = control_lib.start(config)
  found = []
  for step in steps:
    new = [Evaluation(*e) for e in seen.get(step, ())]
    given = control, clock, new, step, config, is_model_finite
    found.append(control_lib.transition(*given))
    control, clock = found[-1].control, found[-1].clock
  return found


def of(events, kind, *names):
  """(global_step, these values) of each event of a kind."""
  return [
    (e['global_step'], *(e[name] for name in names))
    for e in events
    if e['event'] == kind
  ]


# What is said of an event; of others their reason.
_DETAILS = {
  **dict.fromkeys(('cycle_start', 'clock', 'wait'), 'cycle_end'),
  **{'evaluation': 'evaluation', 'reset': 'note', 'finish': None},
}


def story(events, without=('evaluation',)):
  """In one line: '0 start 1 4, 4 reset 2, 4 start 2 8, 8 finish 2'."""
  told = [
    f'{e["global_step"]} {e["event"]} {e["cycle"]} '
    f'{e.get(_DETAILS.get(e["event"], "reason"), "")}'
    for e in events
    if e['event'] not in without
  ]
  return ', '.join(map(str.strip, told)).replace('cycle_start', 'start')
