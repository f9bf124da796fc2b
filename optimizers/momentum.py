"""Nesterov momentum: inside Adam, and alone."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_map

from ..core.checks import Checked, NonNegative, Positive, Share
from .adamw import AdamW
from .step import Optimizer, Step, averaged, descent


@dataclasses.dataclass(frozen=True)
class NadamW(AdamW):
  """AdamW with Nesterov momentum: the first moment is averaged with g again.

    m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
    update = (b1 m + (1 - b1) g) / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

  This is the benchmark's form. `optax.nadamw` divides b1 m by 1 - b1^(t+1), as
  Dozat does, a different bias correction for the first steps.

  Sources: Dozat 2016, "Incorporating Nesterov momentum into Adam"; Choi et al.
  2019, "On empirical comparisons of optimizers for deep learning", table 1.
  """

  def direction(self, step: Step) -> optax.GradientTransformation:
    del step
    b1, b2 = 1.0 - self.one_minus_beta1, self.beta2

    def update(
      grads: Any, state: optax.ScaleByAdamState, params: Any = None
    ) -> tuple[Any, optax.ScaleByAdamState]:
      del params
      count = state.count + 1
      mu = averaged(state.mu, grads, b1)
      nu = averaged(state.nu, tree_map(jnp.square, grads), b2)

      def scaled(m: jax.Array, v: jax.Array) -> jax.Array:
        return m / (1 - b1**count) / (jnp.sqrt(v / (1 - b2**count)) + self.eps)

      updates = tree_map(scaled, averaged(mu, grads, b1), nu)
      return updates, optax.ScaleByAdamState(count, mu, nu)

    return optax.GradientTransformation(optax.scale_by_adam().init, update)


@dataclasses.dataclass(frozen=True)
class Nesterov(Checked, Optimizer):
  """Gradient descent with Nesterov momentum, for workloads where Adam fails.

    m <- b1 m + g,   update = b1 m + g

  The weight decay is decoupled, as in AdamW. The momentum is a sum, not an
  average: at the same rate it steps 1 / (1 - b1) times as far as an average
  would.

  Source: Sutskever et al. 2013, "On the importance of initialization and
  momentum in deep learning", as in `optax.trace`. The thesis prints m + g for
  the update, without the b1 (section 2.2.2).
  """

  one_minus_beta1: Share = 0.06733926164  # 1 - beta1
  weight_decay: NonNegative = 0.08121616522670176  # times the learning rate
  grad_clip: Positive | None = None  # largest global norm; None: no clipping

  moments: ClassVar[tuple[str, ...]] = ('trace',)

  def build(self, step: Step) -> optax.GradientTransformation:
    direction = optax.trace(decay=1.0 - self.one_minus_beta1, nesterov=True)
    return descent(direction, step, self.weight_decay, self.grad_clip)
