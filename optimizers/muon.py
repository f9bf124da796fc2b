"""Muon with an average: orthogonalised momentum takes the steps of matrices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from ..core.checks import Floor, Level, NonNegative, Share
from .step import ScheduleFreeAdamW, Step, averaged, clipped

# Of Newton-Schulz: x -> a x + b x^3 + c x^5 on the singular values.
_A, _B, _C = 3.4445, -4.7750, 2.0315
# Its iterations, in two runs where they are done on the smaller side's products.
_RUNS = (3, 2)
# No layer is as wide as this; a table of words may be longer.
_LONGEST = 2**16


def split_of(shape: Sequence[int]) -> tuple[int, int]:
  """(rows, columns) of the matrix that an array of two or more axes is.

  The axes are split where both sides are nearest to each other: the kernels of
  attention, (d, heads, d / heads) and (heads, d / heads, d), become square, and
  convolutions (height * width * in, out).
  """
  sides = [
    (math.prod(shape[:i]), math.prod(shape[i:])) for i in range(1, len(shape))
  ]
  return min(sides, key=lambda side: max(side) / max(min(side), 1))


def is_matrix(shape: Sequence[int]) -> bool:
  """Whether an array of this shape can be a layer's matrix."""
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
  smaller side's products: 14 + 4 ratio multiply-adds, in cubes of that side, in
  the place of 5 + 10 ratio. There singular values near 0 are known by their squares,
  and a square that is rounded below 0 grows with every iteration. So after three of
  them the matrix itself is made again. That keeps the result within .05 where an
  accelerator multiplies float32 in TensorFloat-32, and within .4 in bfloat16.
  """
  x = stack.astype(jnp.float32)
  is_wide = x.shape[1] <= x.shape[2]
  x = x if is_wide else jnp.swapaxes(x, 1, 2)
  # Of the largest entry first: squares of large or tiny entries are no float32.
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
  """fn of stacks of the matrices, those of one shape in one; their order stays.

  Args:
    fn: of an array of shape (matrices, rows, columns); keeps the shape.
    matrices: arrays of two or more axes, which `split_of` splits.
  """
  stacks: dict[tuple[tuple[int, int], Any], list[int]] = {}
  for i, matrix in enumerate(matrices):
    stacks.setdefault((split_of(matrix.shape), matrix.dtype), []).append(i)
  found = list(matrices)
  for (sides, _), members in stacks.items():
    stack = jnp.stack([matrices[i].reshape(sides) for i in members])
    for i, result in zip(members, fn(stack)):
      found[i] = result.reshape(matrices[i].shape)
  return found


class MuonState(NamedTuple):
  """What is kept besides x, the parameters that are evaluated."""

  count: Any  # shape=(), dtype=int32
  weight_sum: jax.Array  # shape=(), dtype=float32; of w over the steps in x
  z: Any  # the iterate that takes the steps
  moment: Any  # the average of a matrix's gradients; of squared ones elsewhere


@dataclasses.dataclass(frozen=True)
class ScheduleFreeMuon(ScheduleFreeAdamW):
  """Muon in the place of AdamW for the matrices, inside Schedule-Free's average.

    y = b1 x + (1 - b1) z, at which the gradient g is taken
    matrices    m <- mu m + (1 - mu) g
                mu m + (1 - mu) g = U S V^T
                d = max(1, sqrt(out / in)) U V^T + decay y
    the rest    v <- b2 v + (1 - b2) g^2
                d = adam_share (g / (sqrt(v / (1 - b2^t)) + eps) + decay y)
    z <- z - rate d                       x <- x + c (z - x)

  with c, t, and what a rate of 0 and a reset do, as in `ScheduleFreeAdamW`. The rest
  steps as it does there, at adam_share of the rate. Five Newton-Schulz iterations
  stand for U V^T. They bring singular values above .0015 of the matrix's norm to
  .7 to 1.2. So the rate is about the largest stretch by a step, for a matrix that
  does not widen.

  A kernel of several axes is split where its sides, in and out, are nearest to
  each other. Matrices are told by shape and, where the step is told them, by the
  types of the parameters: embeddings are none, and no table longer than 65,536.
  A matrix with a gradient that is not finite steps by its momentum.

  Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
  networks"; the average as in `ScheduleFreeAdamW`. That both go together is ours.
  """

  one_minus_beta1: Share = 0.3  # share of z where the gradient is taken
  r: NonNegative = 2.0  # power of the step in the weights; 0: all weigh alike
  momentum: Floor = 0.8  # decay of the mean of a matrix's gradients
  adam_share: Level = 0.3  # of the rate, for what is no matrix

  moments: ClassVar[tuple[str, ...]] = ('moment',)

  def build(self, step: Step) -> optax.GradientTransformation:
    clip, rate = clipped(self.grad_clip), step.rate
    decay = self.weight_decay * step.weight_decay
    mu, b2 = self.momentum, self.beta2

    def are_matrices(params: Any) -> list[bool]:
      leaves = tree_leaves(params)
      told = step.matrices or (True,) * len(leaves)
      return [t and is_matrix(leaf.shape) for t, leaf in zip(told, leaves)]

    def init(params: Any) -> MuonState:
      # Copied: one buffer must not be donated twice.
      z = tree_map(lambda p: jnp.array(p, copy=True), params)
      moment = tree_map(jnp.zeros_like, params)
      return MuonState(jnp.int32(0), jnp.float32(0), z, moment)

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      grads, _ = clip.update(grads, clip.init(params), params)
      moves, count, total, c = self.weighed(state, rate)
      y = self.gradient_point(state, params)
      flat = (grads, state.moment, state.z, y)
      leaves = list(zip(are_matrices(params), *map(tree_leaves, flat)))
      moments, means = [], []
      for is_one, g, moment, _, _ in leaves:
        if is_one:
          # Else one value would stay in the momentum for good.
          g = jnp.where(jnp.all(jnp.isfinite(g)), g, moment)
          moment = averaged(moment, g, mu)
          means.append(averaged(moment, g, mu))
        else:
          moment = averaged(moment, jnp.square(g), b2)
        moments.append(moment)
      spread = lambda stack: step.spread(orthogonalised, stack)
      turned = iter(by_stacks(spread, means))
      stepped = []
      for (is_one, g, _, z, y), moment in zip(leaves, moments):
        if is_one:
          d = _size(z.shape) * next(turned) + decay * y
        else:
          scale = jnp.sqrt(moment / (1 - b2**count)) + self.eps
          d = self.adam_share * (g / scale + decay * y)
        stepped.append(z - rate * d)

      def kept(new: list[jax.Array], old: Any) -> Any:
        olds, structure = tree_flatten(old)
        pairs = zip(new, olds)
        chosen = [jnp.where(moves, a, b).astype(b.dtype) for a, b in pairs]
        return tree_unflatten(structure, chosen)

      z = kept(stepped, state.z)
      after = MuonState(count, total, z, kept(moments, state.moment))
      drift = lambda x, z: jnp.where(moves, c * (z - x), 0)
      return tree_map(drift, params, z), after

    return optax.GradientTransformation(init, update)


def _size(shape: Sequence[int]) -> float:
  """Factor on U V^T: 1, or sqrt(out / in) for a matrix that widens."""
  rows, columns = split_of(shape)
  return math.sqrt(max(1.0, columns / rows))
