"""AdEMAMix: Adam with a second, much slower average of the gradients."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..settings.kinds import Inner as Between0And1
from ..settings.kinds import NotNegative
from .adamw import clipped, decayed_and_scaled
from .inner import INNER, InnerHparams, Slots, find_state, map_states
from .nadamw import averaged, squared


class AdEMAMixState(NamedTuple):
  """Moving averages, each a tree of the parameters' shapes, and the count."""

  count: Any  # shape=(), dtype=int32; steps taken
  fast: Any  # of the gradients, with b1
  slow: Any  # of the gradients, with beta3
  nu: Any  # of the squared gradients


@INNER.register(name='ademamix')
@dataclasses.dataclass(frozen=True)
class AdEMAMix:
  """AdamW with alpha times a slow first moment added to the first moment.

    update = (m1 / (1 - b1^t) + alpha m2) / (sqrt(v / (1 - b2^t)) + eps)

  m2 is an average with beta3, without a bias correction. Over `warmup` steps
  alpha rises from 0 and beta3 from b1, so that the average's half-life rises
  linearly.

  Attributes:
    beta3: decay rate of the slow average.
    alpha: weight of the slow average.
    warmup: steps, counted from the optimizer's own start; 0 for none.

  Source: Pagliardini et al. 2024, "The AdEMAMix optimizer: better, faster,
  older", algorithm 1 and appendix A.1.
  """

  beta3: Between0And1 = 0.9999
  alpha: NotNegative = 5.0
  warmup: NotNegative = 0

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """See `Inner`."""
    return optax.chain(
      clipped(hparams.grad_clip),
      self._scale(hparams),
      decayed_and_scaled(rate, weight_decay),
    )

  def _scale(self, hparams: InnerHparams) -> optax.GradientTransformation:
    b1, b2 = 1.0 - hparams.one_minus_beta1, hparams.beta2

    def init(params: Any) -> AdEMAMixState:
      zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
      return AdEMAMixState(jnp.zeros([], jnp.int32), zeros, zeros, zeros)

    def update(
      grads: Any, state: AdEMAMixState, params: Any = None
    ) -> tuple[Any, AdEMAMixState]:
      del params
      count = state.count + 1
      alpha, b3 = self._mixture(state.count, b1)
      fast = averaged(state.fast, grads, b1)
      slow = averaged(state.slow, grads, b3)
      nu = averaged(state.nu, squared(grads), b2)

      def step(m1: jax.Array, m2: jax.Array, v: jax.Array) -> jax.Array:
        size = jnp.sqrt(v / (1 - b2**count)) + hparams.eps
        return (m1 / (1 - b1**count) + alpha * m2) / size

      updates = jax.tree_util.tree_map(step, fast, slow, nu)
      return updates, AdEMAMixState(count, fast, slow, nu)

    return optax.GradientTransformation(init, update)

  def _mixture(
    self, count: jax.Array, b1: float | jax.Array
  ) -> tuple[float | jax.Array, float | jax.Array]:
    """(alpha, beta3) of the step after `count`."""
    if not self.warmup:
      return self.alpha, self.beta3
    share = jnp.minimum(count / self.warmup, 1.0)

    def half_life(beta: float | jax.Array) -> float | jax.Array:
      return math.log(0.5) / jnp.log(jnp.maximum(beta, 1e-8)) - 1

    life = (1 - share) * half_life(b1) + share * half_life(self.beta3)
    return self.alpha * share, 0.5 ** (1 / (life + 1))

  def slots(self, opt_state: Any) -> Slots:
    """The three averages and the count."""
    state = find_state(opt_state, AdEMAMixState)
    return Slots((state.fast, state.slow, state.nu), (), (state.count,))

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """See `Inner`."""
    state = AdEMAMixState(*slots.counts, *slots.moments)
    return map_states(lambda _: state, opt_state, AdEMAMixState)

  def eval_params(self, opt_state: Any, params: Any) -> Any:
    """The trained parameters as they are."""
    del opt_state
    return params
