"""SGDR, warm restarts of only the rate, with the baseline's NadamW.

  rate(t) = peak / 2 * (1 + cos(pi * t / T_i)),  T_0, 2 T_0, 4 T_0, ...

Source: Loshchilov & Hutter 2017, arXiv:1608.03983, eq. 5 with T_mult = 2 and no
warm-up. With their T_0 of 10 epochs, cycles end after 10, 30, 70 and 150
epochs; here step_hint stands for 100 epochs, so that the fourth cycle ends with
a budget of 1.5 step_hint.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from . import common

FIRST = 0.1  # T_0 over step_hint


def restarts(peak: float, first: float) -> Callable[[jax.Array], jax.Array]:
  """count of steps -> learning rate.

  Args:
    peak: the rate at the beginning of every cycle.
    first: T_0, in steps.
  """

  def rate(count: jax.Array) -> jax.Array:
    # Cycle i begins at (2^i - 1) T_0.
    place = count / first + 1.0
    cycle = jnp.floor(jnp.log2(place) + 1e-6)
    within = jnp.clip(place / 2.0**cycle - 1.0, 0.0, 1.0)
    return 0.5 * peak * (1.0 + jnp.cos(jnp.pi * within))

  return rate


def optimizer(step_hint: int, budget: float) -> optax.GradientTransformation:
  """NadamW under `restarts`."""
  hparams = common.BASELINE
  rate = restarts(hparams.learning_rate, FIRST * step_hint)
  return common.nadamw(hparams, rate)


(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(common.Rival(optimizer))
