"""Optimizers beyond the core's."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ..core.cycle import StepNumbers
from ..core.optimizers import AdamW, averaged, clipped, decayed_and_scaled


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

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """See `Optimizer`."""
    return optax.chain(
      clipped(numbers.grad_clip),
      _scale_by_nadam(numbers),
      decayed_and_scaled(numbers.rate, numbers.weight_decay),
    )


def _scale_by_nadam(numbers: StepNumbers) -> optax.GradientTransformation:
  b1, b2 = 1.0 - numbers.one_minus_beta1, numbers.beta2

  def init(params: Any) -> optax.ScaleByAdamState:
    mu = jax.tree_util.tree_map(jnp.zeros_like, params)
    nu = jax.tree_util.tree_map(jnp.zeros_like, params)
    return optax.ScaleByAdamState(jnp.zeros([], jnp.int32), mu, nu)

  def update(
    grads: Any, state: optax.ScaleByAdamState, params: Any = None
  ) -> tuple[Any, optax.ScaleByAdamState]:
    del params
    count = state.count + 1
    mu = averaged(state.mu, grads, b1)
    nu = averaged(state.nu, jax.tree_util.tree_map(jnp.square, grads), b2)

    def step(m: jax.Array, g: jax.Array, v: jax.Array) -> jax.Array:
      ahead = (b1 * m + (1 - b1) * g) / (1 - b1**count)
      return ahead / (jnp.sqrt(v / (1 - b2**count)) + numbers.eps)

    updates = jax.tree_util.tree_map(step, mu, grads, nu)
    return updates, optax.ScaleByAdamState(count, mu, nu)

  return optax.GradientTransformation(init, update)


@dataclasses.dataclass(frozen=True)
class Nesterov(AdamW):
  """Gradient descent with Nesterov momentum, for workloads where Adam fails.

    m <- b1 m + g,   update = b1 m + g

  The weight decay is decoupled, as in AdamW. The momentum is a sum, not an
  average: at the same rate it steps 1 / (1 - b1) times as far as an average
  would. beta2 and eps are not used.

  Source: Sutskever et al. 2013, "On the importance of initialization and
  momentum in deep learning", as in `optax.trace`.
  """

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """See `Optimizer`."""
    return optax.chain(
      clipped(numbers.grad_clip),
      optax.trace(decay=1.0 - numbers.one_minus_beta1, nesterov=True),
      decayed_and_scaled(numbers.rate, numbers.weight_decay),
    )
