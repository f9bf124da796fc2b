"""Warm-ups: from a start up to the peak, over W steps.

Values are shares of the peak, u = t / W is the share of the warm-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from ..settings.kinds import BelowOne, Inner, Positive
from ..settings.named import Registry, Setting
from .formulas import between, passed_share
from .phase import Phase, Schedule, floor_steps

WARMUPS = Registry('warm-up')


def warmup_steps(warmup: Setting, cycle_steps: int, share: Fraction) -> int:
  """W = floor(share * L), exactly; 0 for the warm-up 'none'.

  Args:
    warmup: a setting of WARMUPS.
    cycle_steps: L, length of the cycle, steps.
    share: warm-up as a fraction of the cycle: Hparams.warmup_factor and, where
      a chain is written as lists, its alter_warmup.

  Source: thesis, section 3.1.
  """
  if warmup == 'none':
    return 0
  return floor_steps(share, cycle_steps)


@WARMUPS.register
def linear(phase: Phase, *, start: BelowOne = 0.0) -> Schedule:
  """A straight line: start + (1 - start) * u.

  Args:
    start: value at its first step.

  Example: {'name': 'linear', 'start': 0.2} over 10 steps is 0.2 at 0, 0.6 at 5,
  1 at 10.

  Source: thesis, section 2.3.
  """
  return polynomial(phase, start=start, power=1)


@WARMUPS.register
def cosine(phase: Phase, *, start: BelowOne = 0.0) -> Schedule:
  """Half a cosine: start + (1 - start) * (1 - cos(pi * u)) / 2.

  Args:
    start: value at its first step.

  Example: {'name': 'cosine', 'start': 0.2} over 10 steps is 0.2 at 0, 0.6 at 5,
  1 at 10.
  """

  def schedule(count: ArrayLike) -> jax.Array:
    share = passed_share(count, phase.steps)
    return between(1.0, start, 0.5 * (1.0 - jnp.cos(jnp.pi * share)))

  return schedule


def _has_inverse(p: Mapping[str, Any]) -> str:
  return '' if p['start'] >= 1e-38 else 'start must be at least 1e-38'


@WARMUPS.register(check=_has_inverse)
def exponential(phase: Phase, *, start: Inner = 0.01) -> Schedule:
  """A constant factor per step: start^(1 - u).

  It cannot start at 0; the default is our choice.

  Args:
    start: value at its first step.

  Example: {'name': 'exponential', 'start': 0.25} over 10 steps is 0.25 at 0,
  0.5 at 5, 1 at 10.
  """
  return optax.exponential_decay(start, phase.steps, 1.0 / start, end_value=1.0)


@WARMUPS.register
def none(phase: Phase) -> Schedule:
  """No warm-up: W = 0 whatever the warm-up factor, the decay begins at once.

  Example: {'name': 'none'} over 10 steps is 1 at 0, 1 at 10.
  """
  del phase
  return optax.constant_schedule(1.0)


@WARMUPS.register
def polynomial(
  phase: Phase, *, start: BelowOne = 0.0, power: Positive = 1.0
) -> Schedule:
  """A power of the share: start + (1 - start) * u^power.

  Exact also where u is small.

  Args:
    start: value at its first step.
    power: 1 is a straight line.

  Example: {'name': 'polynomial', 'power': 2} over 10 steps is 0 at 0, 0.25 at
  5, 1 at 10.
  """

  def schedule(count: ArrayLike) -> jax.Array:
    return between(1.0, start, passed_share(count, phase.steps) ** power)

  return schedule
