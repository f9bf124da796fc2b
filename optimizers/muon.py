"""Muon with an average: orthogonalised momentum takes the steps of matrices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from ..core.checks import Floor, Level, NonNegative, Share
from .orthogonal import by_stacks, is_matrix, orthogonalised, split_of
from .step import ScheduleFreeAdamW, Step, averaged, clipped


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
