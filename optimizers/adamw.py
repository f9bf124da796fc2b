"""AdamW, the thesis' optimizer."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from .inner import INNER, InnerHparams, Slots, find_state, map_states


@INNER.register(name='adamw')
@dataclasses.dataclass(frozen=True)
class AdamW:
  """Adam with decoupled weight decay and, optionally, clipped gradients.

  Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
  """

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """See `Inner`."""
    return optax.chain(
      clipped(hparams.grad_clip),
      optax.scale_by_adam(
        b1=1.0 - hparams.one_minus_beta1, b2=hparams.beta2, eps=hparams.eps
      ),
      decayed_and_scaled(rate, weight_decay),
    )

  def slots(self, opt_state: Any) -> Slots:
    """Adam's moments and the count of its bias correction."""
    adam = find_state(opt_state, optax.ScaleByAdamState)
    return Slots((adam.mu, adam.nu), (), (adam.count,))

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """See `Inner`."""
    (mu, nu), (count,) = slots.moments, slots.counts
    adam = optax.ScaleByAdamState(count=count, mu=mu, nu=nu)
    return map_states(lambda _: adam, opt_state, optax.ScaleByAdamState)

  def eval_params(self, opt_state: Any, params: Any) -> Any:
    """The trained parameters as they are."""
    del opt_state
    return params


def clipped(limit: float | jax.Array | None) -> optax.GradientTransformation:
  """Clips to this global norm; `optax.clip_by_global_norm` if it is constant.

  optax's cannot take a traced float32 limit for leaves of another dtype.
  """
  if limit is None:
    return optax.identity()
  if not isinstance(limit, jax.Array):
    return optax.clip_by_global_norm(limit)

  def update(updates: Any, params: Any) -> Any:
    del params
    leaves = jax.tree_util.tree_leaves(updates)
    squares = [jnp.sum(jnp.square(x.astype(jnp.float32))) for x in leaves]
    norm = jnp.sqrt(sum(squares))
    factor = jnp.where(norm < limit, 1.0, limit / norm)
    return jax.tree_util.tree_map(lambda u: u * _as(factor, u), updates)

  return optax.stateless(update)


def decayed_and_scaled(
  rate: float | jax.Array, weight_decay: float | jax.Array
) -> optax.GradientTransformation:
  """-rate * (update + weight_decay * params), in each leaf's own dtype.

  Replaces `optax.add_decayed_weights` and `optax.scale_by_learning_rate`, which
  would turn a bfloat16 leaf into float32 when the numbers are traced.
  """

  def update(updates: Any, params: Any) -> Any:
    return jax.tree_util.tree_map(
      lambda u, p: _as(-rate, u) * (u + _as(weight_decay, u) * p),
      updates,
      params,
    )

  return optax.stateless(update)


def _as(value: float | jax.Array, leaf: jax.Array) -> float | jax.Array:
  return value.astype(leaf.dtype) if hasattr(value, 'astype') else value
