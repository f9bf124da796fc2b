"""The stages of a loop: each is a chain of cycles, on the model at hand."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ..core.chain import MOST_STEPS, Chain, jax_lr_schedule
from ..core.checks import check, check_count, check_number
from ..core.evaluation import Target
from ..engine import control as control_lib
from ..engine.control import Transition
from ..engine.events import event, start_event
from ..engine.state import Control, RunConfig, words_of
from ..optimizers.step import RunStart
from ..schedule_params import ScheduleParams
from ..soft_reset import FULL, SoftReset

# Chosen on the selection set of research/growing/GROWING_DATA.md.
STAGE_TAU = 0.1


class Stage(NamedTuple):
  """What decides in a stage, and the control of a run that begins with it."""

  config: RunConfig
  start: Control
  steps_per_epoch: float | None = None  # None: there is no end of the data

  @property
  def words(self) -> tuple[np.ndarray, np.ndarray]:
    """Clock and control of a run that begins here; see `words_of`."""
    return words_of(self.start, self.config)

  def plan_at(self, factor: float) -> Chain:
    """The chain, its peaks multiplied by a factor."""
    cycles = []
    for planned in self.config.chain.cycles:
      peak = planned.cycle.peak * factor
      cycle = dataclasses.replace(planned.cycle, peak=peak)
      cycles.append(planned._replace(cycle=cycle))
    return Chain(tuple(cycles))

  def is_over(self, control: Control, steps: int) -> bool:
    """Whether the last planned step is taken, or the horizon reached.

    Args:
      control: of the stage.
      steps: taken so far.
    """
    planned_end = control.stage_start + self.config.chain.steps
    return steps >= control.planned_end or steps == planned_end


def stage_of(
  settings: ScheduleParams,
  num_steps: int,
  target: Target,
  steps_per_epoch: float | None = None,
) -> Stage:
  """The stage of these cycles over so many steps.

  Raises:
    ValueError: if the cycles do not fit into the steps.
  """
  check_count('num_steps', num_steps)
  if steps_per_epoch is not None:
    check_number('steps_per_epoch', steps_per_epoch, '[1, inf)')
  chain = jax_lr_schedule(
    num_steps,
    settings.cycles,
    1.0,
    'num_steps',
    settings.peak_factor,
  )
  if steps_per_epoch is not None:
    chain = chain.with_decay_factors(
      lambda end: settings.decay_factor(end, steps_per_epoch)
    )
  config = RunConfig(settings, chain, target)
  return Stage(config, control_lib.start(config), steps_per_epoch)


def suited(stage: Stage, run_start: RunStart) -> Stage:
  """The stage whose size and peaks suit the weights that a run begins with."""
  start = control_lib.suited(stage.start, run_start, stage.config)
  return stage._replace(start=start)


def next_stage(
  stage: Stage, num_steps: int | None, steps_per_epoch: float | None
) -> Stage:
  """The stage with the same settings over num_steps.

  None: as many steps, or as many of an epoch, as the stage before.

  Raises:
    ValueError: if the cycles do not fit into the steps; for the steps of an
      epoch where the stage before has none, since its steps are compiled so.
  """
  settings, chain, target, *_ = stage.config
  num_steps = chain.steps if num_steps is None else num_steps
  if steps_per_epoch is None:
    steps_per_epoch = stage.steps_per_epoch
  must_be = 'None where Cycles was set up without steps_per_epoch'
  is_told = steps_per_epoch is None or stage.steps_per_epoch is not None
  check(is_told, 'steps_per_epoch', steps_per_epoch, must_be)
  if (num_steps, steps_per_epoch) == (chain.steps, stage.steps_per_epoch):
    return stage
  after = stage_of(settings, num_steps, target, steps_per_epoch)
  before = stage.start
  start = after.start._replace(rate_factor=before.rate_factor, size=before.size)
  return after._replace(start=start)


def begin_stage(
  stage: Stage, before: Control, step: int, tau: float, is_finite: bool
) -> Transition:
  """Begins a stage on the model at hand.

  Args:
    stage: the new one.
    before: the control of the stage before.
    step: the first one of the new stage.
    tau: share of fresh values.
    is_finite: whether the model is finite; else the model is replaced.

  Raises:
    ValueError: if the stage has more steps than an int32 can still count.
  """
  config, most = stage.config, MOST_STEPS - step
  must_be = f'at most {most:,} after {step:,} steps'
  check(config.chain.steps <= most, 'num_steps', config.chain.steps, must_be)
  alpha = getattr(config.settings.reset, 'alpha', SoftReset.alpha)
  reset_plan = SoftReset(alpha).plan(tau) if is_finite else FULL
  control = control_lib.next_stage(before, step, config)
  reset = event(
    'reset',
    control,
    reason='new stage',
    reset='SoftReset' if is_finite else 'FullReset',
    tau=reset_plan.tau,
    alpha=alpha,
    metric=before.last.metric,
    metric_step=before.last.step,
    note='' if is_finite else 'the model is not finite',
  )
  events = [reset, start_event(control, config)]
  return Transition(control, reset_plan, events, control.end)
