"""The chain of cycles over the steps of a run (thesis, section 3.1)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .checks import check, check_number
from .clock import (
  CycleClock,
  anchored_clock,
  rate_at,
  sampled_decays,
  sampled_rates,
)
from .schedules import Cycle, PlannedCycle, as_written

MOST_STEPS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Chain:
  """Cycles over the steps of a run; called with a step, it gives the rate.

  It is an `optax.Schedule` of the plan as it is written. A run reads its rates
  by the clock, since it may abandon a cycle or stretch one.
  """

  cycles: tuple[PlannedCycle, ...]

  @property
  def steps(self) -> int:
    """Those of the whole chain."""
    return sum(cycle.steps for cycle in self.cycles)

  @functools.cached_property
  def rates(self) -> np.ndarray:
    """Each cycle's rates, as planned: what `clock.sampled_rates` returns."""
    return sampled_rates(self.cycles)

  @property
  def reinit_steps(self) -> tuple[int, ...]:
    """The steps before which a further cycle starts, with a reset.

    In the thesis the end of the run is such a step as well. Here it is not: no
    reset turns a finished model into noise.
    """
    starts = np.cumsum([cycle.steps for cycle in self.cycles])[:-1]
    return tuple(starts.tolist())

  def with_decay_factors(self, factor: Callable[[int], float]) -> Chain:
    """The chain with a factor on the weight decay of each cycle.

    Args:
      factor: of the steps until the cycle ends, as planned here.
    """
    ends = np.cumsum([planned.steps for planned in self.cycles]).tolist()
    pairs = zip(self.cycles, ends)
    return Chain(
      tuple(c._replace(decay_factor=factor(end)) for c, end in pairs)
    )

  @property
  def has_multiple(self) -> bool:
    """Whether a further cycle is planned, and with it a reset."""
    return len(self.cycles) > 1

  def __call__(self, count: ArrayLike) -> jax.Array:
    """The planned learning rate of a step.

    Args:
      count: the step, from 0; a number, or an array, which may be traced. Past
        the end the last cycle's final rate stays.

    Returns:
      float32, of the shape of `count`.
    """
    count = jnp.asarray(count, jnp.int32)
    starts = (0, *self.reinit_steps)
    rows = [
      anchored_clock(start, 0.0, start + cycle.steps, i, self.cycles)
      for i, (start, cycle) in enumerate(zip(starts, self.cycles))
    ]
    setting = sum(
      (jnp.int32(count >= start) for start in starts[1:]), 0 * count
    )
    fields = (jnp.asarray(np.stack(field))[setting] for field in zip(*rows))
    clock = CycleClock(*fields)._replace(count=count)
    return rate_at(clock, self.cycles)


def cycle_ends(
  start: int,  # first step of the first cycle
  planned_end: int,  # first step after the last one
  lengths: Sequence[float],  # of each cycle, in any unit, above 0
) -> tuple[int, ...]:
  """Splits steps over cycles: for each one the first step after it.

  Each cycle in turn takes the ceiling of its share of the remaining steps, so
  that cycles laid out anew at the end of a cycle keep their ends.
  """
  shares = [as_written(length) for length in lengths]
  ends = []
  for i, share in enumerate(shares):
    start += math.ceil((planned_end - start) * share / sum(shares[i:]))
    ends.append(start)
  return tuple(ends)


def jax_lr_schedule(
  step_hint: int,
  cycles: Sequence[Cycle],
  budget_factor: float,
  name: str = 'budget_factor * step_hint',
  peak_factor: Callable[[int], float] = lambda end: 1.0,
) -> Chain:
  """Lays out the chain of cycles over floor(budget_factor * step_hint) steps.

  Errors call these steps by `name`. A cycle's peak is multiplied by
  `peak_factor` of the steps until the cycle ends, as planned here.

  Raises:
    ValueError: if step_hint is no number above 0, a cycle would get no step, a
      rate would be negative or not finite, or there are more steps than an
      int32 can count.

  Source: thesis, section 3.1 and figure 3.2. There, the end of the run is a
  boundary as well, at which a finished model is reset to noise; here it is not.
  """
  check_number('step_hint', step_hint, '(0, inf)')
  total = math.floor(as_written(budget_factor) * step_hint)
  must_be = f'at most {MOST_STEPS:,} steps, as many as an int32 can count'
  check(total <= MOST_STEPS, name, total, must_be)
  lengths = [cycle.length for cycle in cycles]
  ends = cycle_ends(0, total, lengths)
  steps = np.diff((0, *ends)).tolist()
  if not all(steps):
    raise ValueError(
      f'cycles have the lengths {lengths}: over {total} steps ({name}) they '
      f'get {", ".join(map(str, steps))}, and each needs at least one.'
    )
  planned_cycles = [
    PlannedCycle(
      n,
      math.floor(as_written(cycle.warmup_factor) * n),
      dataclasses.replace(cycle, peak=peak_factor(end) * cycle.peak),
    )
    for n, end, cycle in zip(steps, ends, cycles)
  ]
  chain = Chain(tuple(planned_cycles))
  _check_throughout('learning rate', chain.rates)
  decays = sampled_decays(planned_cycles)
  _check_throughout('factor on the weight decay', decays)
  return chain


def _check_throughout(name: str, values: np.ndarray) -> None:
  """Raises ValueError unless all are finite and at least 0; a row per cycle."""
  wrong = np.argwhere(~(np.isfinite(values) & (values >= 0)))
  if wrong.size:
    (i, j), must_be = wrong[0], 'finite and at least 0 throughout'
    check(False, f'{name} of cycles[{i}]', float(values[i, j]), must_be)
