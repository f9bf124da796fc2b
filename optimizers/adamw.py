"""Adam with decoupled weight decay: AdamW and, without momentum, RmsW."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_map

from ..core.checks import Checked, Floor, NonNegative, Positive, Share
from .step import Optimizer, Step, averaged, descent, held


@dataclasses.dataclass(frozen=True)
class Adam(Checked):
  """Adam's direction.

    m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
    direction = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

  t counts all steps, also those at a rate of 0, which move m and v as well.

  Source: Kingma and Ba 2015, "Adam: A method for stochastic optimization", as
  `optax.scale_by_adam`.
  """

  one_minus_beta1: Share = 0.06733926164  # 1 - beta1
  beta2: Floor = 0.9955159689799007  # decay of the mean of squared gradients
  eps: Positive = 1e-8  # added to the root of that mean

  moments: ClassVar[tuple[str, ...]] = ('mu', 'nu')

  def direction(self, step: Step) -> optax.GradientTransformation:
    """What the rate and the weight decay are applied to."""
    del step
    b1 = 1.0 - self.one_minus_beta1
    return optax.scale_by_adam(b1=b1, b2=self.beta2, eps=self.eps)


@dataclasses.dataclass(frozen=True)
class AdamW(Adam, Optimizer):
  """Adam with decoupled weight decay and, optionally, clipped gradients.

  The defaults are the thesis', those of the benchmark's self-tuning baseline.

  Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
  """

  weight_decay: NonNegative = 0.08121616522670176  # times the learning rate
  grad_clip: Positive | None = None  # largest global norm; None: no clipping

  def build(self, step: Step) -> optax.GradientTransformation:
    direction = self.direction(step)
    return descent(direction, step, self.weight_decay, self.grad_clip)


class RmsState(NamedTuple):
  """What `Rms` keeps."""

  count: Any  # shape=(), dtype=int32
  nu: Any  # the average of the squared gradients


@dataclasses.dataclass(frozen=True)
class Rms(Checked):
  """Adam's direction without a first moment.

    v <- b2 v + (1 - b2) g^2        direction = g / (sqrt(v / (1 - b2^t)) + eps)

  t counts the steps at a rate above 0; at a rate of 0 neither t nor v moves. An
  entry of g whose square is not finite counts as 0 and leaves its v as it is:
  otherwise a single NaN would never leave v. t counts such a step.

  Source: as `optax.scale_by_rms` with bias_correction, which optax 0.1.5 lacks.
  """

  beta2: Floor = 0.9955159689799007  # decay of the mean of squared gradients
  eps: Positive = 1e-8  # added to the root of that mean

  moments: ClassVar[tuple[str, ...]] = ('nu',)

  def direction(self, step: Step) -> optax.GradientTransformation:
    """What the rate and the weight decay are applied to."""

    def init(params: Any) -> RmsState:
      return RmsState(jnp.int32(0), tree_map(jnp.zeros_like, params))

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
      del params
      count = state.count + step.moves
      squares = tree_map(jnp.square, grads)
      known = tree_map(jnp.isfinite, squares)
      nu = averaged(state.nu, squares, self.beta2)
      nu = tree_map(jnp.where, known, nu, state.nu)
      nu = held(step.moves, nu, state.nu)
      # At a rate of 0 before the first step that moves, count is 0.
      steps = jnp.maximum(count, 1)

      def scaled(g: jax.Array, v: jax.Array, known: jax.Array) -> jax.Array:
        root = jnp.sqrt(v / (1 - self.beta2**steps))
        return jnp.where(known, g, 0) / (root + self.eps)

      return tree_map(scaled, grads, nu, known), RmsState(count, nu)

    return optax.GradientTransformation(init, update)


@dataclasses.dataclass(frozen=True)
class RmsW(Rms, Optimizer):
  """AdamW without a first moment, for an average that takes its place."""

  weight_decay: NonNegative = 0.08121616522670176  # times the learning rate
  grad_clip: Positive | None = None  # largest global norm; None: no clipping

  def build(self, step: Step) -> optax.GradientTransformation:
    direction = self.direction(step)
    return descent(direction, step, self.weight_decay, self.grad_clip)
