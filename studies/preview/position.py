"""Where in a plan a step is: cycle, phase, learning rate, weight decay."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import optax

from ...schedule_params import ScheduleParams
from ...schedules import cycle_clock, lr_schedule, weight_decay
from ...schedules.phase import Schedule
from . import cycle_table


class Position(NamedTuple):
  """A step of a plan. Steps are counted from 0, as the cycle clock does."""

  step: int  # the step about to be taken
  cycle: int  # index of its cycle, from 0
  num_cycles: int
  start: int  # first step of the cycle
  warmup_end: int  # first step of its decay
  end: int  # first step after it
  learning_rate: float  # at which the step is taken
  weight_decay: float | None = None  # likewise, if it is scheduled

  @property
  def phase(self) -> str:
    """'warm-up' or 'decay'."""
    return 'warm-up' if self.step < self.warmup_end else 'decay'

  @property
  def phase_bounds(self) -> tuple[int, int]:
    """First step of the phase and the first one after it."""
    if self.phase == 'warm-up':
      return self.start, self.warmup_end
    return self.warmup_end, self.end


def planned_rates(step_hint: int, params: ScheduleParams) -> np.ndarray:
  """The rates at which the steps are taken when no cycle is left early.

  Args:
    step_hint: the workload's, steps.
    params: the chain.

  Returns:
    shape=(steps,), float32. The rate after the last step is not among them.

  Raises:
    ValueError: if a cycle would get no step, or gives what is no rate.
  """
  schedule, _, starts = lr_schedule.jax_lr_schedule(
    step_hint, params.hparams, params
  )
  rates = _at_all_steps(schedule, step_hint, params)
  cycle_clock.check_tables('decays', np.split(rates, starts))
  return rates


def planned_weight_decays(
  step_hint: int, params: ScheduleParams
) -> np.ndarray | None:
  """The weight decays of the same steps.

  Args:
    step_hint: the workload's, steps.
    params: the chain.

  Returns:
    shape=(steps,), float32; None if nothing is scheduled.

  Raises:
    ValueError: if a cycle would get no step.
  """
  lengths = lr_schedule.cycle_lengths(step_hint, params)
  rates = lr_schedule.cycle_schedules(step_hint, params.hparams, params)
  decays = weight_decay.decay_schedules(rates, lengths, params)
  if decays is None:
    return None
  chain = optax.join_schedules(decays, np.cumsum(lengths)[:-1].tolist())
  return _at_all_steps(chain, step_hint, params)


def _at_all_steps(
  schedule: Schedule, step_hint: int, params: ScheduleParams
) -> np.ndarray:
  steps = np.arange(
    lr_schedule.horizon_steps(step_hint, params), dtype=np.int32
  )
  return np.asarray(jax.vmap(schedule)(steps), np.float32)


def find_position(
  step: int,
  step_hint: int,
  params: ScheduleParams,
  rates: np.ndarray,
  weight_decays: np.ndarray | None = None,
) -> Position:
  """The position of a step.

  Args:
    step: steps taken before it.
    step_hint: the workload's, steps.
    params: the chain.
    rates: `planned_rates` of it.
    weight_decays: `planned_weight_decays` of it.

  Raises:
    ValueError: if it is no step of the plan.
  """
  if not 0 <= step < rates.size:
    raise ValueError(
      f'--at={step}: the plan has {rates.size:,} steps, counted from 0: give '
      f'one from 0 to {rates.size - 1}.'
    )
  ends = np.cumsum(lr_schedule.cycle_lengths(step_hint, params)).tolist()
  cycle = int(np.searchsorted(ends, step, side='right'))
  start = ends[cycle - 1] if cycle else 0
  warmup = cycle_table.warmup_lengths(step_hint, params)[cycle]
  return Position(
    step=step,
    cycle=cycle,
    num_cycles=params.num_cycles,
    start=start,
    warmup_end=start + warmup,
    end=ends[cycle],
    learning_rate=float(rates[step]),
    weight_decay=None if weight_decays is None else float(weight_decays[step]),
  )


def position_lines(at: Position) -> list[str]:
  """The position in words."""
  phase_start, phase_end = at.phase_bounds
  left = at.end - at.step
  last = at.cycle + 1 == at.num_cycles
  what = 'the plan ends' if last else f'cycle {at.cycle + 2} starts'
  scheduled = at.weight_decay is not None
  return [
    f'Step {at.step:,} (counted from 0, like the clock), about to be taken:',
    f'  cycle          {at.cycle + 1} of {at.num_cycles}; '
    + _progress(at.step - at.start, at.end - at.start),
    f'  phase          {at.phase}; '
    + _progress(at.step - phase_start, phase_end - phase_start),
    f'  learning rate  {at.learning_rate:.6g}',
    *([f'  weight decay   {at.weight_decay:.6g}'] if scheduled else []),
    f'  boundary       in {left:,} step{"s" * (left > 1)}: at step {at.end:,} '
    + what,
  ]


def _progress(done: int, steps: int) -> str:
  tenths = 1000 * done // steps  # down: what is not over is not at 100%
  return f'{done:,} of its {steps:,} steps are done ({tenths / 10:.1f}%)'
