"""The chain of learning-rate cycles, and the clock by which a run reads it.

A cycle is a warm-up joined to a decay; a run is a chain of cycles, laid out
once over its steps (thesis, chapter 2.3 and section 3.1). A run may leave
cycles early, so it reads them by a clock:

  local step = anchor_local + (count - anchor_step) * pace

The clock is traced data in the optimizer state. A cycle's schedules, over its
nominal steps, are read at the local step: ending a cycle early or planning the
rest of a run anew moves the anchor and the pace, and compiles nothing. At pace
1 and scale 1 the learning rate is that of the static chain, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .cycle import Cycle, Phase, Schedule, Shape, as_written, scaled

_MOST_STEPS = 2**31 - 1


class PlannedCycle(NamedTuple):
  """A cycle over its nominal steps: those that it was planned for.

  Attributes:
    steps: nominal steps.
    warmup_steps: how many of them are warm-up.
    rate: nominal step -> learning rate.
    weight_decay: nominal step -> weight decay; None for a constant.
    setting: the cycle as it was written.
  """

  steps: int
  warmup_steps: int
  rate: Schedule
  weight_decay: Schedule | None
  setting: Cycle


class Chain(NamedTuple):
  """What `jax_lr_schedule` returns; the first three are the thesis'.

  Attributes:
    schedule: step of the run -> learning rate, if nothing is switched.
    has_multiple: whether there is more than one cycle.
    reinit_steps: the steps at which a further cycle starts. The end of the run
      is not among them: there, the thesis reset a finished model to noise.
    cycles: the cycles of the chain.
  """

  schedule: Schedule
  has_multiple: bool
  reinit_steps: tuple[int, ...]
  cycles: tuple[PlannedCycle, ...]


def combine_warmup_decay_fn(
  cycle_steps: int,
  warmup_steps: int,
  peak: float,
  warmup: Shape,
  decay: Shape,
) -> Schedule:
  """One cycle: the warm-up for W steps, then the decay; without W the decay.

  Args:
    cycle_steps: L, length of the cycle, steps.
    warmup_steps: W, steps.
    peak: learning rate at the end of the warm-up.
    warmup, decay: shapes; the decay's steps count from the end of the warm-up.

  Returns:
    An optax schedule over the steps of the cycle.

  Source: thesis, section 3.1.
  """
  phase = Phase(max(cycle_steps - warmup_steps, 1), warmup_steps)
  fall = scaled(peak, decay.schedule(phase))
  if warmup_steps == 0:
    return fall
  rise = scaled(peak, warmup.schedule(Phase(warmup_steps)))
  return optax.join_schedules([rise, fall], [warmup_steps])


def jax_lr_schedule(
  step_hint: int, cycles: Sequence[Cycle], budget_factor: float
) -> Chain:
  """Lays out the chain of cycles over budget_factor * step_hint steps.

  Args:
    step_hint: the workload's, steps.
    cycles: as they are written.
    budget_factor: steps of the whole chain as a multiple of step_hint.

  Raises:
    ValueError: if a cycle would get no step, or there are more steps than an
      int32 can count.

  Source: thesis, section 3.1 and figure 3.2.
  """
  lengths = [cycle.length for cycle in cycles]
  horizon = math.floor(as_written(budget_factor) * step_hint)
  if horizon > _MOST_STEPS:
    raise ValueError(
      f'budget_factor={budget_factor} * step_hint={step_hint}: a run has at '
      f'most {_MOST_STEPS:,} steps, as many as an int32 can count.'
    )
  ends = cycle_ends(0, horizon, lengths)
  steps = [end - start for start, end in zip((0, *ends), ends)]
  if not all(steps):
    raise ValueError(
      f'cycles have the lengths {lengths}: over {horizon} steps '
      f'(budget_factor={budget_factor} * step_hint={step_hint}) they get '
      f'{", ".join(map(str, steps))}, and each needs at least one.'
    )
  planned = tuple(map(_lay_out, steps, cycles))
  schedule = optax.join_schedules([c.rate for c in planned], list(ends[:-1]))
  return Chain(schedule, len(cycles) > 1, ends[:-1], planned)


def _lay_out(steps: int, cycle: Cycle) -> PlannedCycle:
  peak = cycle.hparams.learning_rate
  warmup_steps = math.floor(as_written(cycle.hparams.warmup_factor) * steps)
  warmup_steps = min(max(warmup_steps, cycle.min_warmup_steps), steps)
  rate = combine_warmup_decay_fn(
    steps, warmup_steps, peak, cycle.warmup, cycle.decay
  )
  decay = None
  if cycle.weight_decay_shape is not None:
    share = combine_warmup_decay_fn(
      steps, warmup_steps, 1.0, cycle.warmup, cycle.decay
    )
    shape = cycle.weight_decay_shape.schedule(Phase(steps, rate=share))
    decay = scaled(cycle.hparams.weight_decay, shape)
  return PlannedCycle(steps, warmup_steps, rate, decay, cycle)


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


def check_rates(cycles: Sequence[PlannedCycle]) -> None:
  """Refuses schedules with values that are negative or not finite.

  Raises:
    ValueError: if a learning rate or a weight decay is negative or not finite
      at a nominal step of its cycle.
  """
  for i, cycle in enumerate(cycles):
    for name, schedule in (
      ('learning rate', cycle.rate),
      ('weight decay', cycle.weight_decay),
    ):
      if schedule is None:
        continue
      counts = jnp.arange(cycle.steps + 1, dtype=jnp.float32)
      values = np.asarray(jax.vmap(_as_float32(schedule))(counts))
      wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
      if wrong.size:
        step = int(wrong[0])
        raise ValueError(
          f'cycles[{i}]: the {name} is {values[step]} at step {step} of the '
          'cycle; it must be finite and at least 0 at every step.'
        )


def _as_float32(schedule: Schedule) -> Schedule:
  return lambda count: jnp.asarray(schedule(count), jnp.float32)


class CycleClock(NamedTuple):
  """Where in which cycle the run is; traced, so that moving it is free."""

  count: Any  # shape=(), dtype=int32; steps taken in the whole run
  cycle: Any  # shape=(), dtype=int32; index of the current setting, from 0
  anchor_step: Any  # shape=(), dtype=int32; step at which the anchor was set
  anchor_local: Any  # shape=(), dtype=float32; nominal step at the anchor
  pace: Any  # shape=(), dtype=float32; nominal steps per step, 1 as planned
  scale: Any  # shape=(), dtype=float32; factor on the cycle's learning rate


def anchored_clock(
  step: int,
  cycle: int,
  local: float,
  nominal_end: float,
  end: int,
  scale: float = 1.0,
) -> CycleClock:
  """A clock that goes from `local` to `nominal_end` until `end`.

  Args:
    step: the step about to be taken.
    cycle: index of the cycle's setting, from 0.
    local: the nominal step of that cycle from which to go on; 0 starts it.
    nominal_end: the nominal step to be reached by `end`.
    end: the step at which the cycle is to be over.
    scale: factor on the cycle's learning rate.

  Returns:
    The clock; its pace is 1 if the cycle is as long as planned.
  """
  return CycleClock(
    count=np.int32(step),
    cycle=np.int32(cycle),
    anchor_step=np.int32(step),
    anchor_local=np.float32(local),
    pace=np.float32((nominal_end - local) / (end - step)),
    scale=np.float32(scale),
  )


def local_step(clock: CycleClock) -> jax.Array:
  """anchor_local + (count - anchor_step) * pace: the cycle's nominal step."""
  elapsed = jnp.asarray(clock.count - clock.anchor_step).astype(jnp.float32)
  return clock.anchor_local + elapsed * clock.pace


def local_step_on_host(clock: CycleClock, step: int) -> float:
  """The same for any step, in float64, from a host copy of the clock."""
  elapsed = step - int(clock.anchor_step)
  return float(clock.anchor_local) + elapsed * float(clock.pace)


def learning_rate(
  clock: CycleClock, cycles: Sequence[PlannedCycle]
) -> jax.Array:
  """The learning rate of the step that the clock counts.

  Past its nominal end a cycle stays at its final rate.

  Returns:
    shape=(), dtype=float32; traced if the clock is.
  """
  return clock.scale * _read(clock, [cycle.rate for cycle in cycles], cycles)


def weight_decay(
  clock: CycleClock, cycles: Sequence[PlannedCycle]
) -> float | jax.Array:
  """The weight decay of the step that the clock counts.

  Returns:
    A Python number if it is the same constant in all cycles.
  """
  constants = [cycle.setting.hparams.weight_decay for cycle in cycles]
  if all(cycle.weight_decay is None for cycle in cycles):
    return number(constants, clock.cycle)
  schedules = [
    cycle.weight_decay or optax.constant_schedule(value)
    for cycle, value in zip(cycles, constants)
  ]
  return _read(clock, schedules, cycles)


def number(values: Sequence[float], cycle: Any) -> float | jax.Array:
  """The current cycle's number; a Python number where cycles agree in it."""
  if len(set(values)) == 1:
    return values[0]
  table = jnp.asarray(values, jnp.float32)
  return jax.lax.dynamic_index_in_dim(table, cycle, keepdims=False)


def _read(
  clock: CycleClock,
  schedules: Sequence[Schedule],
  cycles: Sequence[PlannedCycle],
) -> jax.Array:
  # All values are computed and one is taken: on a GPU a lax.switch would have
  # the host wait for the index, at every step.
  t = local_step(clock)
  values = [
    jnp.asarray(schedule(jnp.minimum(t, float(cycle.steps))), jnp.float32)
    for schedule, cycle in zip(schedules, cycles)
  ]
  return jax.lax.dynamic_index_in_dim(
    jnp.stack(values), clock.cycle, keepdims=False
  )
