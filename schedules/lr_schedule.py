"""Learning-rate cycles: one cycle, and the chain of cycles.

A cycle is a warm-up joined to a decay; a run is a chain of cycles (thesis
chapter 2.3 and section 3.1). `jax_lr_schedule` is the static chain, fixed before
the run; `cycle_clock` reads the same cycles in a run that may leave them early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import optax

from .phase import Schedule, as_written, floor_steps
from .warmup_decay import combine_warmup_decay_fn
from .warmups import warmup_steps


def horizon_steps(step_hint: int, schedule_params: Any) -> int:
  """Steps that the whole chain is planned for: budget_factor * step_hint.

  Raises:
    ValueError: if there are more cycles than steps.
  """
  horizon = floor_steps(as_written(schedule_params.budget_factor), step_hint)
  if horizon < schedule_params.num_cycles:
    raise ValueError(
      f'{schedule_params.num_cycles} cycles do not fit into {horizon} steps '
      f'(budget_factor={schedule_params.budget_factor} * '
      f'step_hint={step_hint}): at least one step per cycle is needed.'
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


def cycle_lengths(step_hint: int, schedule_params: Any) -> tuple[int, ...]:
  """Steps of each cycle when nothing is switched.

  Raises:
    ValueError: if a cycle would get no step.
  """
  horizon = horizon_steps(step_hint, schedule_params)
  ends = cycle_ends(0, horizon, schedule_params.lengths)
  steps = tuple(end - start for start, end in zip((0,) + ends, ends))
  if 0 in steps:
    raise ValueError(
      f'lengths={schedule_params.lengths}: over {horizon} steps the cycles get '
      f'{", ".join(map(str, steps))} of them, and each needs at least one.'
    )
  return steps


def cycle_schedules(
  step_hint: int, hyperparameters: Any, schedule_params: Any
) -> list[Schedule]:
  """Each cycle's schedule over its own steps, when nothing is switched.

  Raises:
    ValueError: if a cycle would get no step.
  """
  p, base = schedule_params, hyperparameters
  return [
    combine_warmup_decay_fn(
      length,
      warmup_steps(warmup, length, base.warmup_factor, factor),
      base.learning_rate + lr,
      warmup,
      decay,
    )
    for length, warmup, decay, lr, factor in zip(
      cycle_lengths(step_hint, p),
      p.warmups,
      p.decays,
      p.alter_lr,
      p.alter_warmup,
    )
  ]


def jax_lr_schedule(
  step_hint: int, hyperparameters: Any, schedule_params: Any
) -> tuple[Schedule, bool, tuple[int, ...]]:
  """The static chain: what the learning rate is when nothing is switched.

  Args:
    step_hint: the workload's step_hint, steps; the chain lasts
      budget_factor * step_hint of them.
    hyperparameters: has learning_rate and warmup_factor.
    schedule_params: a ScheduleParams, which has refused lists of different
      lengths when it was made.

  Returns:
    The schedule (step -> learning rate), whether there is more than one cycle
    (has_multiple), and the steps at which a new cycle starts (reinit_steps).
    The end of the run is not among them: there, the thesis reset a finished
    model to noise.

  Raises:
    ValueError: if a cycle would get no step.

  Source: thesis, section 3.1 and figure 3.2.
  """
  schedules = cycle_schedules(step_hint, hyperparameters, schedule_params)
  horizon = horizon_steps(step_hint, schedule_params)
  reinit_steps = cycle_ends(0, horizon, schedule_params.lengths)[:-1]
  chain = optax.join_schedules(schedules, list(reinit_steps))
  return chain, len(schedules) > 1, reinit_steps
