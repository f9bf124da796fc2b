"""The cycle clock: cycles read in a run that may leave them early.

  local step = anchor_local + (count - anchor_step) * pace

The clock is traced data in the optimizer state. A cycle's schedules, over its
nominal steps, are read at the local step: ending a cycle early or planning the
rest of a run anew moves the anchor and the pace, and compiles nothing. At pace
1 and scale 1 the learning rate is that of the static chain, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .cycle import Cycle
from .phase import Schedule


class CycleClock(NamedTuple):
  """Where in which cycle the run is; traced, so that moving it is free."""

  count: Any  # shape=(), dtype=int32; steps taken in the whole run
  cycle: Any  # shape=(), dtype=int32; index of the current cycle, from 0
  anchor_step: Any  # shape=(), dtype=int32; step at which the anchor was set
  anchor_local: Any  # shape=(), dtype=float32; nominal step at the anchor
  pace: Any  # shape=(), dtype=float32; nominal steps per step, 1 as planned
  scale: Any  # shape=(), dtype=float32; factor on the cycle's learning rate


def anchored_clock(
  step: int,
  cycle: int,
  local_step: float,
  nominal_end: float,
  end: int,
  scale: float = 1.0,
) -> CycleClock:
  """A clock that goes from local_step to nominal_end until `end`.

  Args:
    step: the step about to be taken.
    cycle: index of the cycle, from 0.
    local_step: the nominal step of that cycle from which to go on; 0 starts it.
    nominal_end: the nominal step to be reached by `end`: the cycle's last, or
      that at which it is to be paused.
    end: the step at which the cycle is to be over.
    scale: factor on the cycle's learning rate.

  Returns:
    The clock. Its pace is 1 if the cycle is as long as planned. Since only the
    anchor and the pace change, the learning rate does not jump.
  """
  pace = (nominal_end - local_step) / (end - step)
  return CycleClock(
    count=np.int32(step),
    cycle=np.int32(cycle),
    anchor_step=np.int32(step),
    anchor_local=np.float32(local_step),
    pace=np.float32(pace),
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


def learning_rate(clock: CycleClock, cycles: Sequence[Cycle]) -> jax.Array:
  """The learning rate of the step that the clock counts.

  Past its nominal end a cycle stays at its final rate.

  Args:
    clock: as of that step, traced or not.
    cycles: the chain.

  Returns:
    shape=(), dtype=float32.
  """
  rates = [cycle.rate for cycle in cycles]
  return clock.scale * _read(clock, rates, cycles)


def weight_decay(
  clock: CycleClock, cycles: Sequence[Cycle]
) -> float | jax.Array:
  """The weight decay of the step that the clock counts.

  Returns:
    A Python number if it is the same constant in all cycles.
  """
  if all(cycle.weight_decay is None for cycle in cycles):
    return number([c.hparams.weight_decay for c in cycles], clock.cycle)

  def decay(cycle: Cycle) -> Schedule:
    constant = cycle.hparams.weight_decay
    return cycle.weight_decay or (lambda t: constant)

  return _read(clock, list(map(decay, cycles)), cycles)


def number(values: Sequence[float], cycle: Any) -> float | jax.Array:
  """The current cycle's number; a Python number where cycles agree in it."""
  if len(set(values)) == 1:
    return values[0]
  table = jnp.asarray(values, jnp.float32)
  return jax.lax.dynamic_index_in_dim(table, cycle, keepdims=False)


def _read(
  clock: CycleClock, schedules: Sequence[Schedule], cycles: Sequence[Cycle]
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
