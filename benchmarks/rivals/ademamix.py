"""AdEMAMix: Adam with a second, slow average of the gradients.

  m1' = b1 m1 + (1 - b1) g,   m2' = b3 m2 + (1 - b3) g
  update = (m1' / (1 - b1^t) + alpha m2') / (sqrt(v_hat) + eps) + decay * theta

alpha rises linearly from 0, b3 from b1 with a half-life that rises linearly.
Source: Pagliardini et al. 2024, arXiv:2409.03137. Hyperparameters, warm-ups and
the clipped gradient: the official entry ademamix (PyTorch). Its warm-ups of
500,000 steps are 3.75 times WMT's step_hint in 2024; runs with a step_hint
below 10,000, for which nothing was published, use that multiple of their own.

The entry is in PyTorch and was not run for comparison; a test compares the
direction with optax.contrib's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from . import common

BASE = common.Hparams(2e-3, 0.2, 0.995, 0.1, 0.02)
BETA3, ALPHA, GRAD_CLIP, EPS = 0.9995, 8.0, 0.5, 1e-8
_SHORT = 10_000
_WARMUP, _WARMUP_OF_SHORT = 500_000, 3.75


class MixState(NamedTuple):
  """Moments of the gradient."""

  count: Any  # shape=(), dtype=int32
  fast: Any
  slow: Any
  nu: Any


def warmup_steps(step_hint: int) -> float:
  """Steps over which alpha and b3 rise."""
  return _WARMUP if step_hint >= _SHORT else _WARMUP_OF_SHORT * step_hint


def beta3_at(count: jax.Array, warmup: float) -> jax.Array:
  """b3 at step `count` (the first is 1); its half-life rises linearly."""

  def half_life(beta: float) -> float:
    return math.log(0.5) / math.log(beta + EPS) - 1.0

  begin, end = half_life(1.0 - BASE.one_minus_beta1), half_life(BETA3)
  share = count / warmup
  rising = 0.5 ** (1.0 / ((1.0 - share) * begin + share * end + 1.0))
  return jnp.where(count < warmup, rising, BETA3)


def scale_by_ademamix(warmup: float) -> optax.GradientTransformation:
  """The direction, before decay and rate."""
  beta1, beta2 = 1.0 - BASE.one_minus_beta1, BASE.beta2

  def init(params: Any) -> MixState:
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    return MixState(jnp.zeros([], jnp.int32), zeros, zeros, zeros)

  def update(
    grads: Any, state: MixState, params: Any = None
  ) -> tuple[Any, MixState]:
    count = state.count + 1
    alpha = ALPHA * jnp.minimum(count / warmup, 1.0)
    fast = common.moment(grads, state.fast, beta1, 1)
    slow = common.moment(grads, state.slow, beta3_at(count, warmup), 1)
    nu = common.moment(grads, state.nu, beta2, 2)
    one, two = 1 - beta1**count, jnp.sqrt(1 - beta2**count)
    updates = jax.tree_util.tree_map(
      lambda f, s, v: (f / one + alpha * s) / (jnp.sqrt(v) / two + EPS),
      fast, slow, nu,
    )  # fmt: skip
    return updates, MixState(count, fast, slow, nu)

  return optax.GradientTransformation(init, update)


def optimizer(step_hint: int, budget: float) -> optax.GradientTransformation:
  """AdEMAMix under a warm-up and a cosine over step_hint, then rate 0."""
  rate = common.warmup_cosine(BASE, step_hint)
  return optax.chain(
    optax.clip_by_global_norm(GRAD_CLIP),
    scale_by_ademamix(warmup_steps(step_hint)),
    optax.add_decayed_weights(BASE.weight_decay),
    optax.scale_by_schedule(lambda count: -rate(count)),
  )


(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(common.Rival(optimizer))
