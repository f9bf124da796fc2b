"""Which arrays count as matrices, and U V^T of stacks of one shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

# Newton-Schulz maps each singular value x to a x + b x^3 + c x^5.
_A, _B, _C = 3.4445, -4.7750, 2.0315
# The iterations; on the smaller side's products they are done in two runs.
_RUNS = (3, 2)
# No layer is as wide as this; a table of words may be longer.
_LONGEST = 2**16


def split_of(shape: Sequence[int]) -> tuple[int, int]:
  """(rows, columns) of the matrix that an array of two or more axes is.

  The axes are split where both sides are nearest to each other. The kernels of
  attention, (d, heads, d / heads) and (heads, d / heads, d), become square.
  Convolutions become (height * width * in, out).
  """
  sides = [
    (math.prod(shape[:i]), math.prod(shape[i:])) for i in range(1, len(shape))
  ]
  return min(sides, key=lambda side: max(side) / max(min(side), 1))


def is_matrix(shape: Sequence[int]) -> bool:
  """Whether an array of this shape can be the matrix of a layer."""
  if len(shape) < 2:
    return False
  short, long = sorted(split_of(shape))
  return short > 1 and long <= _LONGEST


def orthogonalised(stack: jax.Array) -> jax.Array:
  """U V^T of each matrix U S V^T of a stack, approximately.

  Args:
    stack: shape=(matrices, rows, columns).

  Returns:
    The same shape and dtype, computed in float32. A matrix that is 0, or has a
    value that is not finite, gives zeros.

  Where one side is 1.5 times the other or more, the iterations are done on the
  smaller side's products. In cubes of the smaller side that takes 14 + 4 ratio
  multiply-adds, in the place of 5 + 10 ratio. The products hold the squares of
  the singular values, and a square that is rounded below 0 grows with every
  iteration. So after three iterations the matrix itself is computed again. That
  keeps the result within .05 where an accelerator multiplies float32 in
  TensorFloat-32, and within .4 in bfloat16.
  """
  x = stack.astype(jnp.float32)
  is_wide = x.shape[1] <= x.shape[2]
  x = x if is_wide else jnp.swapaxes(x, 1, 2)
  # Divide by the largest entry first: squares of very large or tiny entries
  # leave the range of float32.
  largest = jnp.max(jnp.abs(x), axis=(1, 2), keepdims=True)
  is_usable = jnp.isfinite(largest) & (largest > 0)
  x = jnp.where(is_usable, x / jnp.where(is_usable, largest, 1.0), 0.0)
  norm = jnp.sqrt(jnp.sum(jnp.square(x), axis=(1, 2), keepdims=True))
  x = x / jnp.where(is_usable, norm, 1.0)
  if 2 * x.shape[2] < 3 * x.shape[1]:
    for _ in range(sum(_RUNS)):
      gram = x @ jnp.swapaxes(x, 1, 2)
      x = _A * x + (_B * gram + _C * (gram @ gram)) @ x
  else:  # on x x^T, the smaller by far: all factors commute with it
    eye = jnp.eye(x.shape[1])[None]
    for run in _RUNS:
      gram = x @ jnp.swapaxes(x, 1, 2)
      product = eye
      for i in range(run):
        factor = _A * eye + _B * gram + _C * (gram @ gram)
        product = factor @ product if i else factor
        if i < run - 1:
          gram = factor @ gram @ factor
      x = product @ x
  x = x if is_wide else jnp.swapaxes(x, 1, 2)
  return x.astype(stack.dtype)


def by_stacks(
  fn: Callable[[jax.Array], jax.Array], matrices: Sequence[jax.Array]
) -> list[jax.Array]:
  """fn of stacks of the matrices, a stack for each shape; the order stays.

  Args:
    fn: of an array of shape (matrices, rows, columns); keeps the shape.
    matrices: arrays of two or more axes, which `split_of` splits.
  """
  stacks: dict[tuple[tuple[int, int], Any], list[int]] = {}
  for i, matrix in enumerate(matrices):
    stacks.setdefault((split_of(matrix.shape), matrix.dtype), []).append(i)
  results = list(matrices)
  for (sides, _), members in stacks.items():
    stack = jnp.stack([matrices[i].reshape(sides) for i in members])
    for i, result in zip(members, fn(stack)):
      results[i] = result.reshape(matrices[i].shape)
  return results
