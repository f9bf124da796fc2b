"""Learning-rate cycles, as they are written.

A cycle is a warm-up followed by a decay (thesis, section 2.3). A shape maps the
share of its phase that has passed to a share of the cycle's peak.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Annotated, NamedTuple, Protocol

import jax.numpy as jnp
from jax.typing import ArrayLike

from .checks import Checked, Floor, Level, Positive, Share


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
  """The peak, then straight down: floor + (1 - floor) min((1 - x) / share, 1).

  Source: Hägele et al. 2024, "Scaling laws and compute-optimal training beyond
  fixed training durations".
  """

  share: Share = 0.1  # of the phase, at its end, in which the rate falls
  floor: Floor = 0.0  # the end, a share of the peak

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    remaining = jnp.minimum((1.0 - x) / self.share, 1.0)
    return self.floor + (1.0 - self.floor) * remaining


@dataclasses.dataclass(frozen=True)
class Constant:
  """The peak throughout.

  Example: Constant() over 10 steps is 1 at 0, 1 at 5, 1 at 10.
  """

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return jnp.ones_like(x, jnp.float32)


@dataclasses.dataclass(frozen=True)
class Cycle(Checked):
  """One cycle of a chain; the default peak is the thesis'."""

  peak: Positive = 0.0017486387539278373  # rate at the end of the warm-up
  length: Positive = 1.0  # relative to the lengths of the chain's other cycles
  warmup_factor: Level = 0.02  # share of the cycle that is warm-up
  warmup: OneShape = LinearWarmup()  # shape of the warm-up
  decay: OneShape = Cosine()  # shape of the rest
  weight_decay: OneShape = Constant()  # factor on it over the whole cycle


class PlannedCycle(NamedTuple):
  """A cycle over its nominal steps: those that it was planned for."""

  steps: int
  warmup_steps: int  # how many of them are warm-up
  cycle: Cycle
  # On the weight decay, beside the cycle's shape. None: there is none, and none
  # comes with the first batch or a new stage.
  decay_factor: float | None = None


def as_written(number: float) -> Fraction:
  """The decimal number that was written, e.g. 1/10 for 0.1.

  In binary floating point, the floor of .29 * 100 is 28: a step would be lost.
  """
  return Fraction(repr(float(number)))
