"""Formulas that several shapes are made of.

A value may be read by two compiled programs, the static chain and the cycle
clock, and has to be the same to the last bit. Hence two rules:

- Nothing is added to a bare product. A compiler may contract a * b + c to one
  operation with one rounding, and does so in one program and not in another;
  `rounded` prevents it.
- No quotient decides where a jump is. Compilers replace a division by a
  constant by a product with its reciprocal: floor(7 * 115 / 115) is then 6, as
  in `optax.exponential_decay(staircase=True)`. A remainder is exact.

Where optax's own form keeps to them, it is used. `optax.linear_schedule` adds
to a product, and the first steps of a warm-up are off by up to W / 2 ulps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from ..settings.kinds import LARGEST, Choice
from .phase import Schedule, as_written

Fall = Choice('linear', 'sqrt', 'inverse')


def rounded(number: ArrayLike) -> jax.Array:
  """The number as it is, rounded before anything is added to it.

  Clipping to the largest floats changes nothing, and no compiler can know that.
  Of a product whose sign it knows, it drops one of the two bounds.
  """
  return jnp.clip(number, -LARGEST, LARGEST)


def between(start: float, end: float, share_left: ArrayLike) -> jax.Array:
  """end + (start - end) * share_left, with two roundings."""
  return end + rounded((start - end) * share_left)


def scaled(factor: float, schedule: Schedule) -> Schedule:
  """factor * schedule. A float beyond float32's largest is infinite.

  NumPy would warn of it; whoever asks for such a rate is told so when its table
  is checked.
  """
  if isinstance(factor, float) and abs(factor) > LARGEST:
    factor = math.copysign(math.inf, factor)
  return lambda count: factor * schedule(count)


def passed_share(count: ArrayLike, steps: float) -> jax.Array:
  """u = count / steps, at least 0 and at most 1."""
  return jnp.clip(count / steps, 0.0, 1.0)


def share_left(count: ArrayLike, steps: ArrayLike) -> jax.Array:
  """1 - count / steps between 0 and 1, and no more than 0 at the end.

  A quotient of the difference: compilers make a product of a division by a
  constant, and 1 - 41 * (1 / 41) is 2^-24, whose tenth root is 0.19.
  """
  return jnp.clip(steps - count, 0.0, steps) / steps


def whole_periods(count: ArrayLike, period: float) -> tuple:
  """How many periods have passed, and the steps since the last one.

  Exact if float32 holds the period; `ends_passed` is for others.
  """
  count = jnp.maximum(jnp.asarray(count, jnp.float32), 0.0)
  rest = jnp.fmod(count, jnp.float32(period))
  return jnp.round((count - rest) / period), rest


def ends_of_parts(share: float, steps: int) -> list[float]:
  """The ends of as many whole parts of the share as the phase has."""
  part = as_written(share) * steps
  return [float(i * part) for i in range(1, int(steps / part) + 1)]


def ends_passed(
  ends: Sequence[float], count: ArrayLike, side: str
) -> jax.Array:
  """How many of some steps have been passed, compared one by one.

  Args:
    ends: shape=(n,), ascending.
    count: the step.
    side: 'right' counts an end that is just reached, 'left' does not.
  """
  return jnp.searchsorted(
    jnp.asarray(ends, jnp.float32),
    jnp.asarray(count, jnp.float32),
    side=side,
    method='compare_all',
  )


def straight(start: float, end: float, steps: float) -> Schedule:
  """A straight line from start to end over the steps, then the end.

  Exact near an end of 0 only; a warm-up goes the other way round.
  """
  return lambda count: between(start, end, share_left(count, steps))


def half_cosine(start: float, end: float, steps: float) -> Schedule:
  """end + (start - end) * (1 + cos(pi * t / N)) / 2, then the end.

  `optax.cosine_decay_schedule`, with the end added here for the reason that the
  module gives.
  """
  unit = optax.cosine_decay_schedule(1.0, steps)
  return lambda count: between(start, end, unit(jnp.maximum(count, 0)))


def falling(start: float, end: float, steps: float, kind: Fall) -> Schedule:
  """How a stable rate comes down: over N steps, then the end.

  With r = t / N:
    linear   end + (start - end) * (1 - r)
    sqrt     end + (start - end) * (1 - sqrt(r))
    inverse  1 / (r / end + (1 - r) / start), for an end above 0

  Sources: linear and sqrt, Hägele et al. 2024, "Scaling laws and
  compute-optimal training beyond fixed training durations"; inverse, Wen et al.
  2024, "Understanding warmup-stable-decay learning rates".
  """

  def schedule(count: ArrayLike) -> jax.Array:
    share = passed_share(count, steps)
    if kind == 'inverse':
      return start / (rounded(start / end * share) + (1.0 - share))
    left = 1.0 - (jnp.sqrt(share) if kind == 'sqrt' else share)
    return between(start, end, left)

  return schedule


def joined(pieces: Sequence[tuple[Schedule, int]]) -> Schedule:
  """Pieces of (schedule, steps) in turn; the last one goes on for ever.

  Each counts from its own start. Steps are whole: compilers fold two
  subtractions of constants into one, and would round other boundaries in one
  program as they do not in another.
  """
  schedules, steps = zip(*pieces)
  return optax.join_schedules(list(schedules), np.cumsum(steps[:-1]).tolist())
