"""What several shapes share: types of their fields, jumps, ways down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..core.checks import check, check_shares
from ..core.schedules import Shape

# How far before its share a jump counts as reached: rounding in float32 could
# otherwise delay it by a step. Less than half a step for up to a million steps.
SLACK = 2.0**-21


def _check_shapes(name: str, value: Any) -> None:
  is_list = isinstance(value, (list, tuple)) and len(value) > 0
  is_right = is_list and all(
    callable(shape) and not isinstance(shape, type) for shape in value
  )
  must_be = 'a tuple of at least one shape, such as (Cosine(),)'
  check(is_right, name, value, must_be)


Fall = Annotated[str, ('linear', 'sqrt', 'inverse')]
Shapes = Annotated[tuple[Shape, ...], _check_shapes]
Shares = Annotated[tuple[float, ...], check_shares]


def check_fall(fall: str, floor: float) -> None:
  """Raises ValueError for an inverse fall to 0, whose limit is a jump."""
  must_be = "above 0 with fall='inverse'"
  check(fall != 'inverse' or floor > 0, 'floor', floor, must_be)


def num_reached(x: ArrayLike, shares: Sequence[float]) -> jax.Array:
  """How many of the shares x has reached; compared, so that no product errs."""
  x = jnp.asarray(x)
  ends = np.asarray(shares, np.float32) - np.float32(SLACK)
  ends = ends.reshape((1,) * x.ndim + (-1,))
  return jnp.sum(x[..., None] >= ends, axis=-1)


def part_of(
  x: ArrayLike, shares: Sequence[float]
) -> tuple[jax.Array, jax.Array]:
  """The index of the part that x lies in, and the share of it that has passed.

  Shares, in (0, 1) and rising, say where the second part and the others begin.
  """
  edges = jnp.asarray([0.0, *shares, 1.0], jnp.float32)
  index = num_reached(x, shares)
  start, end = edges[index], edges[index + 1]
  return index, _passed(jnp.asarray(x) - start, end - start)


def last_part(x: ArrayLike, share: float) -> jax.Array:
  """How much of the phase's last share has passed, in [0, 1]."""
  # 1 - x is exact where it matters; x - (1 - share) would round twice.
  return _passed(share - (1.0 - jnp.asarray(x)), share)


def _passed(passed: jax.Array, length: ArrayLike) -> jax.Array:
  """passed / length in [0, 1]; 0 and 1 are exact, or a root would show it."""
  share = jnp.where(passed < length - SLACK, passed / length, 1.0)
  return jnp.where(passed > SLACK, share, 0.0)


def falling(x: ArrayLike, start: float, end: float, kind: str) -> jax.Array:
  """How a stable rate comes down from start to end.

    linear   end + (start - end) * (1 - x)
    sqrt     end + (start - end) * (1 - sqrt(x))
    inverse  1 / (x / end + (1 - x) / start), for an end above 0

  Sources: linear and sqrt, Hägele et al. 2024, "Scaling laws and
  compute-optimal training beyond fixed training durations"; inverse, Wen et al.
  2024, "Understanding warmup-stable-decay learning rates".
  """
  x = jnp.asarray(x)
  if kind == 'inverse':
    return 1.0 / (x / end + (1.0 - x) / start)
  return end + (start - end) * (1.0 - (jnp.sqrt(x) if kind == 'sqrt' else x))
