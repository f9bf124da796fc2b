"""Muon with an average: orthogonalised momentum takes the steps of matrices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_flatten, tree_leaves, tree_map

from .checks import Floor, Level, NonNegative, Share
from .optimizers import ScheduleFreeAdamW, Step, averaged, clipped

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


def _flat(tree: Any) -> tuple[list[Any], Any]:
  return tree_flatten(tree)


class MuonState(NamedTuple):
  """What is kept besides x, the parameters that are evaluated."""

  count: Any  # shape=(), dtype=int32
  weight_sum: jax.Array  # shape=(), dtype=float32; of w over the steps in x
  z: Any  # the iterate that takes the steps
  mu: Any  # the average of the gradients
  nu: Any  # of the squared gradients; a 0 of shape () for each matrix


@dataclasses.dataclass(frozen=True)
class ScheduleFreeMuon(ScheduleFreeAdamW):
  """Muon in the place of AdamW inside Schedule-Free's average.

    y = b1 x + (1 - b1) z, at which the gradient g is taken
    m <- mu m + (1 - mu) g                d = mu m + (1 - mu) g
    matrices    d = U S V^T,              step = s U V^T + decay y
    the rest    v <- b2 v + (1 - b2) g^2
                step = adam_share (d / (1 - mu^t) / (sqrt(v / (1 - b2^t)) + eps)
                                   + decay y)
    z <- z - rate step                    x <- x + c (z - x)

  with c, t, and what a rate of 0 and a reset do, as in `ScheduleFreeAdamW`. Five
  Newton-Schulz iterations stand for U V^T: they bring every singular value near
  1 (.7 to 1.2), whatever it was. The size s is

    'spectral'  max(1, sqrt(out / in)): the rate is the largest stretch by a step
    'adam'      .2 sqrt(max(in, out)): entries as large as those of AdamW's step

  A kernel of several axes is split where its sides, in and out, are nearest to
  each other. Matrices are told by shape and, where the step is told them, by the
  types of the parameters: embeddings are none, and no table longer than 65,536.
  A matrix with a gradient that is not finite steps by its momentum.

  Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
  networks"; 'adam': Liu et al. 2025, "Muon is scalable for LLM training"; the
  average as in `ScheduleFreeAdamW`. That both go together is ours.
  """

  one_minus_beta1: Share = 0.3  # share of z where the gradient is taken
  r: NonNegative = 2.0  # power of the step in the weights; 0: all weigh alike
  momentum: Floor = 0.8  # decay of the mean of the gradients
  adam_share: Level = 0.3  # of the rate, for what is no matrix
  size: Annotated[str, ('spectral', 'adam')] = 'spectral'  # of a matrix's step

  moments: ClassVar[tuple[str, ...]] = ('mu', 'nu')

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
      m = tree_map(jnp.zeros_like, params)
      leaves, structure = _flat(params)
      v = [
        jnp.zeros([], p.dtype) if is_one else jnp.zeros_like(p)
        for p, is_one in zip(leaves, are_matrices(params))
      ]
      begun = jnp.int32(0), jnp.float32(0)
      return MuonState(*begun, z, m, structure.unflatten(v))

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      grads, _ = clip.update(grads, clip.init(params), params)
      moves, count, total, c = self.weighed(state, rate)
      kinds, (_, structure) = are_matrices(params), _flat(params)
      y = self.gradient_point(state, params)
      g, old_m, old_v, z, y = map(
        tree_leaves, (grads, state.mu, state.nu, state.z, y)
      )
      for i, is_one in enumerate(kinds):
        if is_one:  # else one value would stay in the momentum for good
          g[i] = jnp.where(jnp.all(jnp.isfinite(g[i])), g[i], old_m[i])
      m = averaged(old_m, g, mu)
      d = averaged(m, g, mu)
      v = [
        old if is_one else b2 * old + (1 - b2) * jnp.square(new)
        for is_one, old, new in zip(kinds, old_v, g)
      ]
      spread = lambda stack: step.spread(orthogonalised, stack)
      turned = iter(by_stacks(spread, [x for x, k in zip(d, kinds) if k]))

      def moved(i: int) -> jax.Array:
        if kinds[i]:
          move = self._size(z[i].shape) * next(turned) + decay * y[i]
        else:
          scale = jnp.sqrt(v[i] / (1 - b2**count)) + self.eps
          move = d[i] / (1 - mu**count) / scale + decay * y[i]
          move = self.adam_share * move
        return (z[i] - rate * move).astype(z[i].dtype)

      def kept(new: Any, old: Any) -> Any:
        chosen = [
          jnp.where(moves, a, b).astype(b.dtype) for a, b in zip(new, old)
        ]
        return structure.unflatten(chosen)

      new_z = kept([moved(i) for i in range(len(z))], z)
      drift = lambda x, z: jnp.where(moves, c * (z - x), 0)
      memory = kept(m, old_m), kept(v, old_v)
      after = MuonState(count, total, new_z, *memory)
      return tree_map(drift, params, new_z), after

    return optax.GradientTransformation(init, update)

  def _size(self, shape: Sequence[int]) -> float:
    """s, of a matrix of so many rows (in) and columns (out)."""
    rows, columns = split_of(shape)
    if self.size == 'adam':
      return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, columns / rows))
