"""The chain of cycles, laid out once over the steps of a run.

A cycle is a warm-up joined to a decay; a run is a chain of cycles (thesis
chapter 2.3 and section 3.1). `static_chain` is what the learning rate is when
nothing is switched; `cycle_clock` reads the same cycles in a run that may leave
them early.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol

import optax

from ..settings.hparams import Hparams
from .cycle import Cycle
from .phase import Schedule, as_written, floor_steps
from .plan import CyclePlan
from .warmup_decay import combine_warmup_decay_fn
from .warmups import warmup_steps
from .weight_decay import decay_schedule

_MOST_STEPS = 2**31 - 1


class ChainSettings(Protocol):
  """A chain as it is written; see ScheduleParams."""

  plans: Sequence[CyclePlan]
  budget_factor: float


def lay_out(step_hint: int, settings: ChainSettings) -> tuple[Cycle, ...]:
  """The chain of cycles over budget_factor * step_hint steps.

  Args:
    step_hint: the workload's, steps.
    settings: how the chain is written.

  Raises:
    ValueError: if a cycle would get no step.
  """
  plans = settings.plans
  lengths = [plan.length for plan in plans]
  horizon = horizon_steps(step_hint, settings.budget_factor, len(plans))
  steps = cycle_lengths(horizon, lengths)
  return tuple(map(_lay_out_cycle, steps, plans))


def _lay_out_cycle(steps: int, plan: CyclePlan) -> Cycle:
  length = warmup_steps(plan.warmup, steps, plan.warmup_share)
  rate = combine_warmup_decay_fn(
    steps, length, plan.peak, plan.warmup, plan.decay
  )
  weight_decay = None
  if plan.weight_decay_shape is not None:
    weight_decay = decay_schedule(
      plan.weight_decay_shape, plan.weight_decay, steps, rate, plan.peak
    )
  return Cycle(
    steps=steps,
    warmup_steps=length,
    peak=plan.peak,
    rate=rate,
    weight_decay=weight_decay,
    hparams=plan.hparams,
    length=plan.length,
    optimizer=plan.optimizer,
    averaging=plan.averaging,
    start_from=plan.start_from,
  )


def horizon_steps(step_hint: int, budget_factor: float, num_cycles: int) -> int:
  """Steps that the whole chain is planned for: budget_factor * step_hint.

  Raises:
    ValueError: if there are more cycles than steps, or too many steps.
  """
  horizon = floor_steps(as_written(budget_factor), step_hint)
  if horizon > _MOST_STEPS:
    raise ValueError(
      f'budget_factor={budget_factor} * step_hint={step_hint}: a run has at '
      f'most {_MOST_STEPS:,} steps, as many as an int32 can count.'
    )
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


def static_weight_decay(cycles: Sequence[Cycle]) -> Schedule | None:
  """The weight decay when nothing is switched; None if none is scheduled."""
  decays = [cycle.weight_decay for cycle in cycles]
  if None in decays:
    return None
  ends = [sum(c.steps for c in cycles[: i + 1]) for i in range(len(cycles))]
  return optax.join_schedules(decays, ends[:-1])


def jax_lr_schedule(
  step_hint: int, hyperparameters: Hparams, schedule_params: ChainSettings
) -> tuple[Schedule, bool, tuple[int, ...]]:
  """The static chain by its name in the thesis.

  Args:
    step_hint: the workload's, steps.
    hyperparameters: take the place of those of schedule_params.
    schedule_params: a ScheduleParams.

  Returns:
    The schedule (step -> learning rate), has_multiple and reinit_steps; see
    `static_chain`.

  Source: thesis, section 3.1.
  """
  params = dataclasses.replace(schedule_params, hparams=hyperparameters)
  return static_chain(lay_out(step_hint, params))
