"""The clock by which a run reads the learning rate of its cycles.

  nominal step = anchor_nominal + (count - anchor_step) * pace

A cycle's nominal steps are those that it was planned for. The clock is traced
data in the optimizer's state: a run that abandons a cycle, or stretches one,
moves the clock and compiles nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .schedules import Constant, PlannedCycle

# What float32 holds with all of its digits.
_SMALLEST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)


class CycleClock(NamedTuple):
  """Where in which cycle the run is; one array in the state, see `packed`."""

  count: Any  # shape=(), dtype=int32; steps taken in the whole run
  setting: Any  # shape=(), dtype=int32; index of the cycle in the chain, from 0
  steps: Any  # shape=(), dtype=int32; nominal steps of the cycle
  warmup_steps: Any  # shape=(), dtype=int32; how many of them are warm-up
  anchor_step: Any  # shape=(), dtype=int32; step at which the anchor was set
  before: Any  # shape=(), dtype=int32; nominal steps of the cycles before it
  anchor_nominal: Any  # shape=(), dtype=float32; nominal step at the anchor
  pace: Any  # shape=(), dtype=float32; nominal steps per step
  peak: Any  # shape=(), dtype=float32; the cycle's, times its rate factor
  size: Any  # shape=(), dtype=float32; of the weights; see `Step.size`
  decay_factor: Any  # shape=(), dtype=float32; of the epochs, on the decay


_NUM_INTS = 6  # how many of its fields are whole numbers


def packed(clock: CycleClock) -> np.ndarray:
  """Clocks on the host as rows of words, exact.

  shape=(..., 11), dtype=int32.
  """
  words = np.zeros((*np.shape(clock.count), len(clock)), np.int32)
  words[..., :_NUM_INTS] = np.stack(clock[:_NUM_INTS], -1)
  words.view(np.float32)[..., _NUM_INTS:] = np.stack(clock[_NUM_INTS:], -1)
  return words


def unpacked(words: Any) -> CycleClock:
  """The clock of an array of `packed`, traced or on the host."""
  return CycleClock(*words[:_NUM_INTS], *words.view(np.float32)[_NUM_INTS:])


def anchored_clock(
  step: int,  # about to be taken
  nominal: float,  # step from which to continue; 0 starts the cycle
  end: int,  # step at which the cycle is to be over
  setting: int,  # index of the cycle in `cycles`
  cycles: Sequence[PlannedCycle],
  rate_factor: float = 1.0,  # on the cycle's learning rate
  size: float = 1.0,  # of the weights, above 0
) -> CycleClock:
  """A clock that goes from a nominal step of a cycle to the cycle's end."""
  steps, warmup_steps, cycle, decay_factor = cycles[setting]
  before = sum(planned.steps for planned in cycles[:setting])
  pace = (steps - nominal) / (end - step)
  peak = min(cycle.peak * rate_factor, _LARGEST)
  size = min(max(size, _SMALLEST), _LARGEST)
  exact = CycleClock(
    count=step,
    setting=setting,
    steps=steps,
    warmup_steps=warmup_steps,
    anchor_step=step,
    before=before,
    anchor_nominal=nominal,
    pace=pace,
    peak=peak,
    size=size,
    decay_factor=1.0 if decay_factor is None else decay_factor,
  )
  return unpacked(packed(exact))  # as the devices have it


def nominal_step(clock: CycleClock, step: int) -> float:
  """The cycle's nominal step at any step, in float64, from a host's clock."""
  elapsed = step - int(clock.anchor_step)
  return float(clock.anchor_nominal) + elapsed * float(clock.pace)


def learning_rate(words: Any, cycles: Sequence[PlannedCycle]) -> jax.Array:
  """The learning rate of the step that a clock counts, an array of `packed`.

  Past its nominal end a cycle stays at its final rate. float32, of shape ().
  """
  return rate_at(unpacked(words), cycles)


def rate_at(clock: CycleClock, cycles: Sequence[PlannedCycle]) -> jax.Array:
  """The learning rate of a clock whose fields are arrays of one shape."""
  steps, warmup_steps = map(jnp.float32, (clock.steps, clock.warmup_steps))
  t = _nominal_of(clock)
  is_warmup = t < warmup_steps
  passed = jnp.where(is_warmup, t, t - warmup_steps)
  length = jnp.where(is_warmup, warmup_steps, steps - warmup_steps)
  x = jnp.clip(passed / jnp.maximum(length, 1.0), 0.0, 1.0)
  factor = jnp.float32(0.0)
  # The rates of all cycles are computed, and one of them is taken. With a
  # lax.switch on a GPU the host would wait for the index at every step. XLA
  # computes equal shapes once.
  for i, (_, _, cycle, _) in enumerate(cycles):
    rise, fall = cycle.warmup(x), cycle.decay(x, warmup_steps / steps)
    factor_of_cycle = jnp.where(is_warmup, rise, fall).astype(jnp.float32)
    factor = jnp.where(clock.setting == i, factor_of_cycle, factor)
  return clock.peak * factor


def share_passed(words: Any) -> jax.Array:
  """The share of its cycle's steps that a clock has passed, in [0, 1].

  words: an array of `packed`. float32, of shape ().
  """
  clock = unpacked(words)
  return _nominal_of(clock) / jnp.float32(clock.steps)


def steps_taken(words: Any) -> jax.Array:
  """The nominal steps of the chain before the step that a clock counts.

  A chain begun anew and a new stage count from 0. float32, of shape ().
  """
  clock = unpacked(words)
  return jnp.float32(clock.before) + _nominal_of(clock)


def weight_decay(words: Any, cycles: Sequence[PlannedCycle]) -> ArrayLike:
  """The factor of the cycle on the weight decay, at the step of a clock.

  It is that of the cycle's shape. The number 1.0, not an array, if no cycle
  schedules the weight decay: a step then compiles as without. Else float32, of
  shape ().
  """
  shapes = [planned.cycle.weight_decay for planned in cycles]
  if all(shape == Constant() for shape in shapes):
    return 1.0
  clock, x = unpacked(words), share_passed(words)
  factor = jnp.float32(1.0)
  for i, shape in enumerate(shapes):
    factor = jnp.where(clock.setting == i, jnp.float32(shape(x)), factor)
  return factor


def decay_factor(words: Any, cycles: Sequence[PlannedCycle]) -> ArrayLike:
  """The factor of the epochs on the weight decay, beside the cycle's shape.

  As `weight_decay`: the number 1.0 if no cycle has one.
  """
  if all(planned.decay_factor is None for planned in cycles):
    return 1.0
  return unpacked(words).decay_factor


def _nominal_of(clock: CycleClock) -> jax.Array:
  """The nominal step of a traced clock, at most its cycle's steps."""
  elapsed = jnp.float32(clock.count - clock.anchor_step)
  nominal = clock.anchor_nominal + elapsed * clock.pace
  return jnp.minimum(nominal, jnp.float32(clock.steps))


def sampled_rates(
  cycles: Sequence[PlannedCycle], points: int = 1000
) -> np.ndarray:
  """Each cycle's rates, as planned, at evenly spread steps, its end included.

  float32, of shape (cycles, points).
  """
  starts = [
    anchored_clock(0, 0.0, c.steps, i, cycles) for i, c in enumerate(cycles)
  ]
  # One clock a point: it stands at the step to which its anchor is moved.
  clocks = CycleClock(*(np.repeat(field, points) for field in zip(*starts)))
  steps = np.linspace(0, [c.steps for c in cycles], points, axis=1)
  words = packed(clocks._replace(anchor_nominal=steps.ravel()))
  # A copy: a view would keep the array on the device.
  return np.array(_rates_program(cycles)(words)).reshape(-1, points)


def _rates_program(cycles: Sequence[PlannedCycle]) -> Callable[[Any], Any]:
  """The rates of rows of words; lengths and peaks are in the words."""
  return jax.jit(jax.vmap(functools.partial(learning_rate, cycles=cycles)))


def sampled_decays(
  cycles: Sequence[PlannedCycle], points: int = 1000
) -> np.ndarray:
  """The factors of each cycle's shape on the weight decay, from 0 to 1.

  float32, of shape (cycles, points).
  """
  shares = np.linspace(0.0, 1.0, points, dtype=np.float32)
  factors = np.ones((len(cycles), points), np.float32)
  for row, planned in zip(factors, cycles):
    if planned.cycle.weight_decay != Constant():
      shape = planned.cycle.weight_decay
      factor = lambda x, shape=shape: jnp.float32(shape(x))
      row[:] = jax.jit(jax.vmap(factor))(shares)
  return factors
