"""Formulas that several shapes are made of.

A value may be read by two compiled programs and has to be the same to the last
bit. Besides the rule of `core.cycle` (nothing is added to a bare product), no
quotient decides where a jump is: compilers replace a division by a constant by
a product with its reciprocal, and floor(7 * 115 / 115) is then 6, as in
`optax.exponential_decay(staircase=True)`. A remainder is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from ..core.checks import check, check_number
from ..core.cycle import (
  Schedule,
  Shape,
  as_written,
  between,
  passed_share,
  rounded,
)

FALLS = ('linear', 'sqrt', 'inverse')


def check_shares(name: str, value: Sequence[float]) -> tuple[float, ...]:
  """The shares as a tuple.

  Raises:
    ValueError: unless they are numbers in (0, 1) in rising order.
  """
  shares = check_list(name, value, '(0, 1)')
  rising = all(a < b for a, b in zip(shares, shares[1:]))
  check(rising, name, value, 'in rising order')
  return shares


def check_list(
  name: str, value: Sequence[float], interval: str
) -> tuple[float, ...]:
  """The numbers as a tuple; ValueError unless each is in the interval."""
  is_list = isinstance(value, (list, tuple))
  check(is_list, name, value, f'a tuple of numbers in {interval}')
  for i, number in enumerate(value):
    check_number(f'{name}[{i}]', number, interval)
  return tuple(value)


def check_shapes(name: str, value: Sequence[Shape]) -> tuple[Shape, ...]:
  """The shapes as a tuple; ValueError unless there is at least one."""
  is_list = isinstance(value, (list, tuple)) and len(value) > 0
  is_right = is_list and all(
    hasattr(shape, 'schedule') and not isinstance(shape, type)
    for shape in value
  )
  right = 'a tuple of at least one shape, such as (Cosine(),)'
  check(is_right, name, value, right)
  return tuple(value)


def check_periods(name: str, value: int, most: int) -> None:
  """Raises ValueError unless it is a whole number from 1 to `most`.

  Larger ones only take time to compile.
  """
  is_whole = isinstance(value, int) and not isinstance(value, bool)
  is_right = is_whole and 1 <= value <= most
  check(is_right, name, value, f'a whole number from 1 to {most}')


def check_fall(fall: str, floor: float) -> None:
  """Raises ValueError for an inverse fall to 0, whose limit is a jump."""
  right = "above 0 with fall='inverse'"
  check(fall != 'inverse' or floor > 0, 'floor', floor, right)


def floor_steps(share: float | Fraction, steps: int) -> int:
  """floor(share * steps), exactly: 0.29 of 100 steps are 29."""
  exact = share if isinstance(share, Fraction) else as_written(share)
  return math.floor(exact * steps)


def share_steps(share: float, steps: int) -> float:
  """share * steps, rounded once; it need not be whole."""
  return float(as_written(share) * steps)


def whole_parts(shares: Sequence[Fraction | float], steps: int) -> list[int]:
  """Whole steps of the parts that end at the given shares."""
  ends = [floor_steps(share, steps) for share in shares]
  return [end - start for start, end in zip([0, *ends], ends)]


def share_left(count: ArrayLike, steps: ArrayLike) -> jax.Array:
  """1 - count / steps between 0 and 1, and no more than 0 at the end.

  A quotient of the difference: compilers make a product of a division by a
  constant, and 1 - 41 * (1 / 41) is 2^-24, whose tenth root is 0.19.
  """
  return jnp.clip(jnp.subtract(steps, count), 0.0, steps) / steps


def whole_periods(
  count: ArrayLike, period: float
) -> tuple[jax.Array, jax.Array]:
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
  `optax.linear_schedule` adds to a product.
  """
  return lambda count: between(start, end, share_left(count, steps))


def half_cosine(start: float, end: float, steps: int) -> Schedule:
  """end + (start - end) * (1 + cos(pi * t / N)) / 2, then the end."""
  unit = optax.cosine_decay_schedule(1.0, steps)
  return lambda count: between(start, end, unit(jnp.maximum(count, 0)))


def falling(start: float, end: float, steps: float, kind: str) -> Schedule:
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
