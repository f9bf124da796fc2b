"""A phase of a cycle, and steps as exact shares of it.

A shape is written in shares of its phase, so that the same parameters mean the
same curve on every workload. Here shares become steps.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import optax

# From a step count, whole or fractional, traced or not, to a value.
Schedule = optax.Schedule


class Phase(NamedTuple):
  """What a shape may know of where it stands.

  Attributes:
    steps: length of the phase, at least 1.
    warmup_steps: W, steps of the warm-up before the phase in the same cycle; 0
      for a warm-up, for a weight decay and within composites.
  """

  steps: int
  warmup_steps: int = 0

  @property
  def cycle_steps(self) -> int:
    """L, steps of the cycle."""
    return self.warmup_steps + self.steps


def as_written(number: float | Fraction) -> Fraction:
  """The decimal number that was written, e.g. 1/10 for 0.1.

  Step counts are floors of products such as 0.29 * 100; in binary floating
  point that one is 28.999..., and a step would be lost.
  """
  if isinstance(number, Fraction):
    return number
  return Fraction(repr(float(number)))


def floor_steps(share: float | Fraction, steps: int) -> int:
  """floor(share * steps), exactly: 0.29 of 100 steps are 29."""
  return math.floor(as_written(share) * steps)


def share_steps(share: float, steps: int) -> float:
  """share * steps, rounded once; it need not be whole."""
  return float(as_written(share) * steps)
