"""Runs without a model: transitions, step by step as `engine.run` takes them."""

import dataclasses
import functools
import math
from types import SimpleNamespace

from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.clock import nominal_step
from reset_cycles.core.evaluation import Evaluation, Target
from reset_cycles.core.schedules import Cycle
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.engine import control as control_lib
from reset_cycles.engine.events import start_event
from reset_cycles.engine.state import RunConfig, clock_of
from reset_cycles.schedule_params import THESIS

PEAK = 0.0017486387539278373
# l = L, and what is a rise, and how long a plateau lasts, is easily seen.
EASY = SmoothedLossRule(lam=1.0, eps1=0.5, eps2=0.25, k=2, m=1)
TARGET = Target('validation/metric', 1.0, True)
SIZE = 0.75  # of the weights, of which a replay has none


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


lay_out = functools.cache(jax_lr_schedule)


def config_of(params, step_hint, target=TARGET, **numbers):
  """What decides; `numbers` are a budget or most_steps."""
  chain = lay_out(step_hint, params.cycles, params.budget_factor)
  return RunConfig(params, chain, target, **numbers)


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
    step that was taken the (setting, nominal step) of the clock.
  """
  config = params
  if not isinstance(params, RunConfig):
    config = config_of(params, step_hint)
  if not isinstance(evaluations, dict):
    evaluations = {e[0]: [e] for e in evaluations}
  control = control_lib.start(config)
  given = SimpleNamespace(
    relative_peak=SimpleNamespace(peak=lambda _: first_peak),
    optimizer=SimpleNamespace(needs_forms=lambda: True, size=lambda _: SIZE),
  )
  suits = config._replace(settings=given)
  control = control_lib.suited(control, None, suits)
  first = {'global_step': 0, **start_event(control, config)}
  events, nominal_steps, due = [first], [], 0
  for step in range(control.planned_end + 1 if until is None else until):
    new = [Evaluation(*e) for e in evaluations.get(step, ())]
    control = save(control)
    after = control_lib.transition(control, new, step, config, lambda: True)
    is_quiet = not after.events and after.control is control
    assert new or step >= due or is_quiet
    control, due = after.control, after.due
    assert control.size == SIZE  # through resets, full ones, and failures
    events += [{'global_step': step, **event} for event in after.events]
    if after.run_is_over:
      break
    nominal = nominal_step(clock_of(control, config), step)
    nominal_steps.append((control.setting, nominal))
  return events, after, nominal_steps


def transitions(config, seen, steps, is_model_finite=lambda: True):
  """The transitions before each of the steps, with what has come in by then."""
  control = control_lib.start(config)
  found = []
  for step in steps:
    new = [Evaluation(*e) for e in seen.get(step, ())]
    given = control, new, step, config, is_model_finite
    found.append(control_lib.transition(*given))
    control = found[-1].control
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
