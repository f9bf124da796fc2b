"""Learning-rate cycles, and the clock by which a run reads their rate.

A cycle is a warm-up followed by a decay; a run is a chain of cycles, laid out
over its steps (thesis, section 2.3 and 3.1). A shape maps the share of its phase
that has passed to a share of the cycle's peak. Since a run may abandon cycles
early, it reads them by a clock:

  local step = anchor_local + (count - anchor_step) * pace

The clock is traced data in the optimizer's state: moving it compiles nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .checks import Checked, Floor, Level, Positive, Share, check

_MOST_STEPS = 2**31 - 1
_LARGEST = float(np.finfo(np.float32).max)


class Shape(Protocol):
  """A warm-up or a decay: a frozen dataclass of numbers that is a function."""

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    """The rate, as a share of the cycle's peak.

    Args:
      x: share of the phase that has passed, in [0, 1]; may be traced.
      warmup: for a decay, the share of the cycle that its warm-up takes.
    """


OneShape = Annotated[Shape, 'a shape such as Cosine()']


@dataclasses.dataclass(frozen=True)
class LinearWarmup(Checked):
  """A straight line up to the peak: start + (1 - start) * x (thesis, 2.3)."""

  start: Floor = 0.0  # at its first step, a share of the peak

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return self.start + (1.0 - self.start) * x


@dataclasses.dataclass(frozen=True)
class Cosine(Checked):
  """Half a cosine: floor + (1 - floor) (1 + cos(pi x)) / 2 (thesis, 2.3)."""

  floor: Floor = 0.0  # the end, a share of the peak

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    half = 0.5 * (1.0 + jnp.cos(jnp.pi * x))
    return self.floor + (1.0 - self.floor) * half


@dataclasses.dataclass(frozen=True)
class Cooldown(Checked):
  """The peak, and then straight down to 0: min((1 - x) / share, 1).

  Source: Hägele et al. 2024, "Scaling laws and compute-optimal training beyond
  fixed training durations".
  """

  share: Share = 0.1  # of the phase, at its end, in which the rate falls

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return jnp.minimum((1.0 - x) / self.share, 1.0)


@dataclasses.dataclass(frozen=True)
class Cycle(Checked):
  """One cycle of a chain; the default peak is the thesis'."""

  peak: Positive = 0.0017486387539278373  # rate at the end of the warm-up
  length: Positive = 1.0  # relative to the lengths of the chain's other cycles
  warmup_factor: Level = 0.02  # share of the cycle that is warm-up
  warmup: OneShape = LinearWarmup()  # shape of the warm-up
  decay: OneShape = Cosine()  # shape of the rest


class PlannedCycle(NamedTuple):
  """A cycle over its nominal steps: those that it was planned for."""

  steps: int
  warmup_steps: int  # how many of them are warm-up
  setting: Cycle


def as_written(number: float) -> Fraction:
  """The decimal number that was written, e.g. 1/10 for 0.1.

  In binary floating point, the floor of .29 * 100 is 28: a step would be lost.
  """
  return Fraction(repr(float(number)))


def cycle_ends(
  start: int,  # first step of the first cycle
  horizon: int,  # first step after the last one
  lengths: Sequence[float],  # of each cycle, in any unit, above 0
) -> tuple[int, ...]:
  """Splits steps over cycles: for each one the first step after it.

  Each cycle in turn takes the ceiling of its share of the remaining steps, so
  that a plan made at any boundary of a plan is the rest of that plan.
  """
  shares = [as_written(length) for length in lengths]
  ends = []
  for i, share in enumerate(shares):
    start += math.ceil((horizon - start) * share / sum(shares[i:]))
    ends.append(start)
  return tuple(ends)


def jax_lr_schedule(
  step_hint: int,
  cycles: Sequence[Cycle],
  budget_factor: float,
  name: str = 'budget_factor * step_hint',
) -> tuple[PlannedCycle, ...]:
  """Lays out the chain of cycles over floor(budget_factor * step_hint) steps.

  Errors call these steps by `name`.

  Raises:
    ValueError: if a cycle would get no step, a rate would be negative or not
      finite, or there are more steps than an int32 can count.

  Source: thesis, section 3.1 and figure 3.2. There, the end of the run is a
  boundary as well, at which a finished model is reset to noise; here it is not.
  """
  horizon = math.floor(as_written(budget_factor) * step_hint)
  right = f'at most {_MOST_STEPS:,} steps, as many as an int32 can count'
  check(horizon <= _MOST_STEPS, name, horizon, right)
  lengths = [cycle.length for cycle in cycles]
  steps = np.diff((0, *cycle_ends(0, horizon, lengths))).tolist()
  if not all(steps):
    raise ValueError(
      f'cycles have the lengths {lengths}: over {horizon} steps ({name}) they '
      f'get {", ".join(map(str, steps))}, and each needs at least one.'
    )
  planned = [
    PlannedCycle(n, math.floor(as_written(cycle.warmup_factor) * n), cycle)
    for n, cycle in zip(steps, cycles)
  ]
  rates = sampled_rates(planned)
  wrong = np.argwhere(~(np.isfinite(rates) & (rates >= 0)))
  if wrong.size:
    (i, j), right = wrong[0], 'finite and at least 0 throughout'
    check(False, f'learning rate of cycles[{i}]', float(rates[i, j]), right)
  return tuple(planned)


class CycleClock(NamedTuple):
  """Where in which cycle the run is; one array in the state, see `packed`."""

  count: Any  # shape=(), dtype=int32; steps taken in the whole run
  cycle: Any  # shape=(), dtype=int32; index of the current setting, from 0
  steps: Any  # shape=(), dtype=int32; nominal steps of the cycle
  warmup_steps: Any  # shape=(), dtype=int32; how many of them are warm-up
  anchor_step: Any  # shape=(), dtype=int32; step at which the anchor was set
  anchor_local: Any  # shape=(), dtype=float32; nominal step at the anchor
  pace: Any  # shape=(), dtype=float32; nominal steps per step, 1 as planned
  peak: Any  # shape=(), dtype=float32; learning rate after the warm-up


_NUM_INTS = 5  # how many of its fields are whole numbers


def packed(clock: CycleClock) -> np.ndarray:
  """Clocks on the host as rows of words, exact: shape=(..., 8), dtype=int32."""
  words = np.zeros((*np.shape(clock.count), len(clock)), np.int32)
  words[..., :_NUM_INTS] = np.stack(clock[:_NUM_INTS], -1)
  words.view(np.float32)[..., _NUM_INTS:] = np.stack(clock[_NUM_INTS:], -1)
  return words


def unpacked(words: Any) -> CycleClock:
  """The clock of an array of `packed`, traced or on the host."""
  return CycleClock(*words[:_NUM_INTS], *words.view(np.float32)[_NUM_INTS:])


def anchored_clock(
  step: int,  # about to be taken
  local: float,  # nominal step from which to continue; 0 starts the cycle
  end: int,  # step at which the cycle is to be over
  cycle: int,  # index of its setting in `cycles`
  cycles: Sequence[PlannedCycle],
  scale: float = 1.0,  # factor on its learning rate
) -> CycleClock:
  """A clock that goes from a nominal step of a cycle to the cycle's end."""
  steps, warmup_steps, setting = cycles[cycle]
  pace = (steps - local) / (end - step)
  peak = min(setting.peak * scale, _LARGEST)
  exact = CycleClock(step, cycle, steps, warmup_steps, step, local, pace, peak)
  return unpacked(packed(exact))  # as the devices have it


def local_step(clock: CycleClock, step: int) -> float:
  """The cycle's nominal step at any step, in float64, from a host's clock."""
  elapsed = step - int(clock.anchor_step)
  return float(clock.anchor_local) + elapsed * float(clock.pace)


def learning_rate(words: Any, cycles: Sequence[PlannedCycle]) -> jax.Array:
  """The learning rate of the step that a clock counts, an array of `packed`.

  Past its nominal end a cycle stays at its final rate. float32, of shape ().
  """
  clock = unpacked(words)
  elapsed = jnp.float32(clock.count - clock.anchor_step)
  steps, warmup_steps = map(jnp.float32, (clock.steps, clock.warmup_steps))
  t = jnp.minimum(clock.anchor_local + elapsed * clock.pace, steps)
  is_warmup = t < warmup_steps
  passed = jnp.where(is_warmup, t, t - warmup_steps)
  length = jnp.where(is_warmup, warmup_steps, steps - warmup_steps)
  x = jnp.clip(passed / jnp.maximum(length, 1.0), 0.0, 1.0)
  share = jnp.float32(0.0)
  # All are computed and one is taken: on a GPU a lax.switch would have the host
  # wait for the index, at every step. XLA computes equal shapes once.
  for i, (_, _, setting) in enumerate(cycles):
    rise, fall = setting.warmup(x), setting.decay(x, warmup_steps / steps)
    own = jnp.where(is_warmup, rise, fall).astype(jnp.float32)
    share = jnp.where(clock.cycle == i, own, share)
  return clock.peak * share


def sampled_rates(
  cycles: Sequence[PlannedCycle], points: int = 1000
) -> np.ndarray:
  """Each cycle's rates, as planned, at evenly spread steps, its end included.

  float32, of shape (cycles, points).
  """
  starts = [
    anchored_clock(0, 0.0, c.steps, i, cycles) for i, c in enumerate(cycles)
  ]
  clocks = CycleClock(*(np.repeat(field, points) for field in zip(*starts)))
  steps = np.linspace(0, [c.steps for c in cycles], points, axis=1)
  words = packed(clocks._replace(anchor_local=steps.ravel()))
  rate = functools.partial(learning_rate, cycles=cycles)
  return np.asarray(jax.jit(jax.vmap(rate))(words)).reshape(-1, points)
