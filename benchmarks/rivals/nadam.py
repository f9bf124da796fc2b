"""NadamW as in the benchmark's baselines, and their schedule.

Both follow the benchmark's own files (v0.5.0 and main): NAdam of Choi et al.
2019, arXiv:1910.05446, table 1, with plain Adam's bias correction (optax's
variant has a different one), and decay multiplied by the learning rate.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import jax
import jax.numpy as jnp
import optax


class Hparams(NamedTuple):
  """NadamW's hyperparameters; warmup_factor is a share of the schedule."""

  learning_rate: float
  one_minus_beta1: float
  beta2: float
  weight_decay: float
  warmup_factor: float


# The benchmark's self-tuning baseline in both generations.
BASELINE = Hparams(
  learning_rate=0.0017486387539278373,
  one_minus_beta1=0.06733926164,
  beta2=0.9955159689799007,
  weight_decay=0.08121616522670176,
  warmup_factor=0.02,
)


class NadamState(NamedTuple):
  """Moments of the gradient."""

  count: jax.Array
  mu: Any
  nu: Any


def scale_by_nadam(
  beta1: float, beta2: float, eps: float = 1e-8
) -> optax.GradientTransformation:
  """(b1 mu + (1 - b1) g) / (1 - b1^t) over sqrt(nu / (1 - b2^t)) + eps."""

  def init(params: Any) -> NadamState:
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    return NadamState(jnp.zeros([], jnp.int32), zeros, zeros)

  def update(
    grads: Any, state: NadamState, params: Any = None
  ) -> tuple[Any, NadamState]:
    del params
    count = state.count + 1
    mu = moment(grads, state.mu, beta1, 1)
    nu = moment(grads, state.nu, beta2, 2)
    ahead = moment(grads, mu, beta1, 1)
    one, two = 1 - beta1**count, 1 - beta2**count
    updates = jax.tree_util.tree_map(
      lambda m, v: (m / one) / (jnp.sqrt(v / two) + eps), ahead, nu
    )
    return updates, NadamState(count, mu, nu)

  return optax.GradientTransformation(init, update)


def moment(grads: Any, average: Any, beta: float, power: int) -> Any:
  """beta * average + (1 - beta) * grads^power."""
  return jax.tree_util.tree_map(
    lambda g, m: (1 - beta) * g**power + beta * m, grads, average
  )


def nadamw(
  hparams: Hparams, rate: Callable[[jax.Array], jax.Array]
) -> optax.GradientTransformation:
  """NadamW under a schedule: count -> learning rate."""
  return optax.chain(
    scale_by_nadam(1.0 - hparams.one_minus_beta1, hparams.beta2),
    optax.add_decayed_weights(hparams.weight_decay),
    optax.scale_by_schedule(lambda count: -rate(count)),
  )


def warmup_cosine(
  hparams: Hparams, steps: int
) -> Callable[[jax.Array], jax.Array]:
  """Linear warm-up from 0, cosine decay to 0 at `steps`, then 0."""
  warmup = int(hparams.warmup_factor * steps)
  peak = hparams.learning_rate
  return optax.join_schedules(
    [
      optax.linear_schedule(0.0, peak, warmup),
      optax.cosine_decay_schedule(peak, max(steps - warmup, 1)),
    ],
    [warmup],
  )
