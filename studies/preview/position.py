"""Where in a plan a step is: cycle, phase, learning rate, weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from ...schedules.cycle import Cycle, check_cycles
from ...schedules.lr_schedule import static_chain, static_weight_decay
from ...schedules.phase import Schedule


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


def planned_rates(cycles: Sequence[Cycle]) -> np.ndarray:
  """The rates at which the steps are taken when no cycle is left early.

  Args:
    cycles: the chain.

  Returns:
    shape=(steps,), float32. The rate after the last step is not among them.

  Raises:
    ValueError: if a rate or a weight decay is negative or not finite.
  """
  check_cycles(cycles)
  schedule, _, _ = static_chain(cycles)
  return _at_all_steps(schedule, cycles)


def planned_weight_decays(cycles: Sequence[Cycle]) -> np.ndarray | None:
  """The weight decays of the same steps.

  Args:
    cycles: the chain.

  Returns:
    shape=(steps,), float32; None if nothing is scheduled.
  """
  decay = static_weight_decay(cycles)
  return None if decay is None else _at_all_steps(decay, cycles)


def _at_all_steps(schedule: Schedule, cycles: Sequence[Cycle]) -> np.ndarray:
  steps = np.arange(sum(cycle.steps for cycle in cycles), dtype=np.int32)
  return np.asarray(jax.vmap(schedule)(steps), np.float32)


def find_position(
  step: int,
  cycles: Sequence[Cycle],
  rates: np.ndarray,
  weight_decays: np.ndarray | None = None,
) -> Position:
  """The position of a step.

  Args:
    step: steps taken before it.
    cycles: the chain.
    rates: `planned_rates` of it.
    weight_decays: `planned_weight_decays` of it.

  Raises:
    ValueError: if it is not a step of the plan.
  """
  if not 0 <= step < rates.size:
    raise ValueError(
      f'--at={step}: the plan has {rates.size:,} steps, counted from 0: give '
      f'one from 0 to {rates.size - 1}.'
    )
  ends = np.cumsum([cycle.steps for cycle in cycles]).tolist()
  cycle = int(np.searchsorted(ends, step, side='right'))
  start = ends[cycle - 1] if cycle else 0
  return Position(
    step=step,
    cycle=cycle,
    num_cycles=len(cycles),
    start=start,
    warmup_end=start + cycles[cycle].warmup_steps,
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
