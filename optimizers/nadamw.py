"""NadamW, the optimizer of the benchmark's baseline."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ..settings.kinds import Positive
from .adamw import AdamW, clipped, decayed_and_scaled
from .inner import INNER, InnerHparams


@INNER.register(name='nadamw')
@dataclasses.dataclass(frozen=True)
class NadamW(AdamW):
  """AdamW with Nesterov momentum: the first moment is averaged with g again.

    m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
    update = (b1 m + (1 - b1) g) / (1 - b1^t) / ((v / (1 - b2^t))^(1/power) + eps)

  This is the benchmark's form. `optax.nadamw` divides b1 m by 1 - b1^(t+1), as
  Dozat does, a different bias correction for the first steps.

  Attributes:
    power: which root of v is taken: 2 for Nadam, another for NadamP.

  Sources: Dozat 2016, "Incorporating Nesterov momentum into Adam"; Choi et al.
  2019, "On empirical comparisons of optimizers for deep learning", table 1.
  """

  power: Positive = 2.0

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """See `Inner`."""
    return optax.chain(
      clipped(hparams.grad_clip),
      _scale(hparams, self.power),
      decayed_and_scaled(rate, weight_decay),
    )


def _scale(hparams: InnerHparams, power: float) -> optax.GradientTransformation:
  b1, b2 = 1.0 - hparams.one_minus_beta1, hparams.beta2

  def init(params: Any) -> optax.ScaleByAdamState:
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    return optax.ScaleByAdamState(jnp.zeros([], jnp.int32), zeros, zeros)

  def update(
    grads: Any, state: optax.ScaleByAdamState, params: Any = None
  ) -> tuple[Any, optax.ScaleByAdamState]:
    del params
    count = state.count + 1
    mu, nu = (
      averaged(state.mu, grads, b1),
      averaged(state.nu, squared(grads), b2),
    )

    def step(m: jax.Array, g: jax.Array, v: jax.Array) -> jax.Array:
      ahead = (b1 * m + (1 - b1) * g) / (1 - b1**count)
      size = v / (1 - b2**count)
      root = jnp.sqrt(size) if power == 2 else size ** (1 / power)
      return ahead / (root + hparams.eps)

    updates = jax.tree_util.tree_map(step, mu, grads, nu)
    return updates, optax.ScaleByAdamState(count, mu, nu)

  return optax.GradientTransformation(init, update)


def averaged(average: Any, new: Any, keep: float | jax.Array) -> Any:
  """keep * average + (1 - keep) * new, leaf by leaf."""
  return jax.tree_util.tree_map(
    lambda a, x: keep * a + (1 - keep) * x, average, new
  )


def squared(tree: Any) -> Any:
  """The squares of all elements."""
  return jax.tree_util.tree_map(jnp.square, tree)
