"""The chain of cycles: how steps are shared out, and the static chain.

A cycle is a warm-up joined to a decay; a run is a chain of cycles (thesis
chapter 2.3 and section 3.1). `static_chain` is what the learning rate is when
nothing is switched; `cycle_clock` reads the same cycles in a run that may leave
them early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import optax

from .cycle import Cycle
from .formulas import Schedule
from .lr_shapes import as_written, floor_steps


def horizon_steps(step_hint: int, budget_factor: float, num_cycles: int) -> int:
  """Steps that the whole chain is planned for: budget_factor * step_hint.

  Raises:
    ValueError: if there are more cycles than steps.
  """
  horizon = floor_steps(as_written(budget_factor), step_hint)
  if horizon < num_cycles:
    raise ValueError(
      f'{num_cycles} cycles do not fit into {horizon} steps '
      f'(budget_factor={budget_factor} * step_hint={step_hint}): at least one '
      'step per cycle is needed.'
    )
  return horizon


def cycle_ends(
  start: int, horizon: int, lengths: Sequence[float]
) -> tuple[int, ...]:
  """Splits the steps from start to horizon over cycles.

  Each cycle in turn takes the ceiling of its share of what is left, so that
  equal cycles differ by at most one step, the longer ones first, and a plan
  made at any boundary of a plan is the rest of that plan.

  Args:
    start: first step of the first cycle.
    horizon: first step after the last cycle.
    lengths: relative length of each cycle (any unit).

  Returns:
    For each cycle the first step after it. The last one is the horizon.
  """
  shares = [as_written(length) for length in lengths]
  ends = []
  for i, share in enumerate(shares):
    start += math.ceil((horizon - start) * share / sum(shares[i:]))
    ends.append(start)
  return tuple(ends)


def cycle_lengths(horizon: int, lengths: Sequence[float]) -> tuple[int, ...]:
  """Steps of each cycle when nothing is switched.

  Raises:
    ValueError: if a cycle would get no step.
  """
  ends = cycle_ends(0, horizon, lengths)
  steps = tuple(end - start for start, end in zip((0,) + ends, ends))
  if 0 in steps:
    raise ValueError(
      f'lengths={tuple(lengths)}: over {horizon} steps the cycles get '
      f'{", ".join(map(str, steps))} of them, and each needs at least one.'
    )
  return steps


def static_chain(
  cycles: Sequence[Cycle],
) -> tuple[Schedule, bool, tuple[int, ...]]:
  """What the learning rate is when nothing is switched.

  Returns:
    The schedule (step -> learning rate), whether there is more than one cycle
    (has_multiple), and the steps at which a new cycle starts (reinit_steps).
    The end of the run is not among them: there, the thesis reset a finished
    model to noise.

  Source: thesis, section 3.1 and figure 3.2.
  """
  ends = [sum(c.steps for c in cycles[: i + 1]) for i in range(len(cycles))]
  reinit_steps = tuple(ends[:-1])
  rates = [cycle.rate for cycle in cycles]
  chain = optax.join_schedules(rates, list(reinit_steps))
  return chain, len(cycles) > 1, reinit_steps
