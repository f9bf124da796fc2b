"""AdEMAMix: Adam with a second, slow average of the gradients.

  m1' = b1 m1 + (1 - b1) g,   m2' = b3 m2 + (1 - b3) g
  update = (m1' / (1 - b1^t) + alpha m2') / (sqrt(v_hat) + eps) + decay * theta

alpha rises linearly from 0, b3 from b1 with a half-life that rises linearly.
Source: Pagliardini et al. 2024, arXiv:2409.03137. Hyperparameters, warm-ups and
the clipped gradient: the official entry ademamix (PyTorch). Its warm-ups of
500,000 steps are 3.75 times WMT's step_hint in 2024; runs with a step_hint
below 10,000, for which nothing was published, use that multiple of their own.

The entry is in PyTorch and was not run for comparison; the direction is
optax.contrib's, whose first count is 0.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import optax

from . import common

BASE = common.Hparams(2e-3, 0.2, 0.995, 0.1, 0.02)
BETA3, ALPHA, GRAD_CLIP, EPS = 0.9995, 8.0, 0.5, 1e-8
_SHORT = 10_000
_WARMUP, _WARMUP_OF_SHORT = 500_000, 3.75


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


def optimizer(step_hint: int, budget: float) -> optax.GradientTransformation:
  """AdEMAMix under a warm-up and a cosine over step_hint, then rate 0."""
  rate, warmup = common.warmup_cosine(BASE, step_hint), warmup_steps(step_hint)
  direction = optax.contrib.scale_by_ademamix(
    1.0 - BASE.one_minus_beta1,
    BASE.beta2,
    lambda count: beta3_at(count + 1, warmup),
    lambda count: ALPHA * jnp.minimum((count + 1) / warmup, 1.0),
    EPS,
  )
  return optax.chain(
    optax.clip_by_global_norm(GRAD_CLIP),
    direction,
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
