"""The cycle clock: cycles read in a run that may leave them early.

  local step = anchor_local + (count - anchor_step) * pace

The clock is traced data in the optimizer state. A cycle's schedule, over its
nominal length, is read at the local step: ending a cycle early or planning the
rest of a run anew moves the anchor and the pace, and compiles nothing. At pace
1 the learning rate is that of the static chain, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .phase import Schedule


class CycleClock(NamedTuple):
  """Where in which cycle the run is; traced, so that moving it is free."""

  count: Any  # shape=(), dtype=int32; steps taken in the whole run
  cycle: Any  # shape=(), dtype=int32; index of the current cycle, from 0
  anchor_step: Any  # shape=(), dtype=int32; step at which the anchor was set
  anchor_local: Any  # shape=(), dtype=float32; nominal step at the anchor
  pace: Any  # shape=(), dtype=float32; nominal steps per step, 1 as planned


def anchored_clock(
  step: int, cycle: int, local_step: float, nominal_length: int, end: int
) -> CycleClock:
  """A clock that goes from local_step to the cycle's nominal end until `end`.

  Args:
    step: the step about to be taken.
    cycle: index of the cycle, from 0.
    local_step: the nominal step of that cycle from which to go on; 0 starts it.
    nominal_length: steps of the cycle in the static chain.
    end: the step at which the cycle is to be over.

  Returns:
    The clock. Its pace is 1 if the cycle is as long as planned. Since only the
    anchor and the pace change, the learning rate does not jump.
  """
  pace = (nominal_length - local_step) / (end - step)
  return CycleClock(
    count=np.int32(step),
    cycle=np.int32(cycle),
    anchor_step=np.int32(step),
    anchor_local=np.float32(local_step),
    pace=np.float32(pace),
  )


def local_step(clock: CycleClock) -> jax.Array:
  """anchor_local + (count - anchor_step) * pace: the cycle's nominal step."""
  elapsed = (clock.count - clock.anchor_step).astype(jnp.float32)
  return clock.anchor_local + elapsed * clock.pace


def clock_learning_rate(
  clock: CycleClock, schedules: Sequence[Schedule], lengths: Sequence[int]
) -> jax.Array:
  """The current cycle's schedule, read at the clock's nominal step.

  Past its nominal end a cycle stays at its final rate. A weight decay is read
  in the same way.
  """

  def read(schedule, length):
    return lambda t: jnp.asarray(schedule(jnp.minimum(t, length)), jnp.float32)

  branches = [read(s, float(n)) for s, n in zip(schedules, lengths)]
  # All rates are computed and one is taken: on a GPU a lax.switch would have
  # the host wait for the index, at every step.
  t = local_step(clock)
  rates = jnp.stack([branch(t) for branch in branches])
  return jax.lax.dynamic_index_in_dim(rates, clock.cycle, keepdims=False)


def rate_tables(
  schedules: Sequence[Schedule], lengths: Sequence[int]
) -> tuple[np.ndarray, ...]:
  """Each cycle's learning rate at its nominal steps 0..length, on the host.

  For logging: reading a table costs no device time and compiles nothing.
  """
  return tuple(
    np.asarray(
      jax.vmap(lambda t, s=s: jnp.asarray(s(t), jnp.float32))(
        jnp.arange(n + 1, dtype=jnp.float32)
      )
    )
    for s, n in zip(schedules, lengths)
  )


def check_tables(name: str, tables: Sequence[np.ndarray]) -> None:
  """Refuses a schedule that leaves the numbers that can be multiplied with.

  Args:
    name: of the list that the schedules are from.
    tables: one per cycle.

  Raises:
    ValueError: if a value is negative or not finite.
  """
  for i, table in enumerate(tables):
    wrong = np.flatnonzero(~(np.isfinite(table) & (table >= 0)))
    if wrong.size:
      step = int(wrong[0])
      raise ValueError(
        f'{name}[{i}] gives {table[step]} at step {step} of its cycle; every value '
        'must be finite and at least 0.'
      )


def table_rate(
  tables: Sequence[np.ndarray], clock: CycleClock, step: int
) -> float:
  """The learning rate of a step, from the tables and a host copy of the clock.

  For logging. At a pace other than 1 it is read between two nominal steps, on a
  straight line: a jump in the schedule is blurred over one of them.
  """
  elapsed = step - int(clock.anchor_step)
  local = float(clock.anchor_local) + elapsed * float(clock.pace)
  table = tables[int(clock.cycle)]
  return float(np.interp(local, np.arange(table.size), table))


def scale_by_cycle_clock(
  schedules: Sequence[Schedule],
  lengths: Sequence[int],
  decay_schedules: Sequence[Schedule] | None = None,
) -> optax.GradientTransformation:
  """Scales updates by minus the learning rate at the cycle clock.

  The place of `optax.scale_by_learning_rate` at the end of a chain, and, with a
  scheduled weight decay, also that of `optax.add_decayed_weights` before it:
  both read the same clock. The state is a CycleClock; whoever ends a cycle
  early replaces it.

  Args:
    schedules: one optax schedule per cycle, over the cycle's nominal steps.
    lengths: nominal steps of each cycle.
    decay_schedules: likewise for the weight decay, or None for no decay here.

  Returns:
    An optax transformation.
  """

  def init_fn(params):
    del params
    return anchored_clock(0, 0, 0.0, lengths[0], lengths[0])

  def update_fn(updates, state, params=None):
    if decay_schedules is not None:
      decay = clock_learning_rate(state, decay_schedules, lengths)
      updates = jax.tree_util.tree_map(
        lambda u, p: u + decay.astype(p.dtype) * p, updates, params
      )
    rate = clock_learning_rate(state, schedules, lengths)
    updates = jax.tree_util.tree_map(
      lambda u: (-rate).astype(u.dtype) * u, updates
    )
    return updates, state._replace(count=state.count + 1)

  return optax.GradientTransformation(init_fn, update_fn)
