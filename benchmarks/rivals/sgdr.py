"""SGDR, warm restarts of the rate alone, on the baseline's NadamW.

  rate(t) = peak / 2 * (1 + cos(pi * t / T_i)),  T_0, 2 T_0, 4 T_0, ...

Source: Loshchilov & Hutter 2017, arXiv:1608.03983, eq. 5 with T_mult = 2, and no
warm-up. Their T_0 = 10 epochs ends a cycle after 10, 30, 70 and 150 epochs;
here 100 epochs are step_hint, so that the fourth cycle ends with a budget of 1.5
step_hint.
"""

from __future__ import annotations

from typing import Callable

import jax
import jax.numpy as jnp

from . import common, nadam

FIRST = 0.1  # T_0 over step_hint


def restarts(peak: float, first: float) -> Callable[[jax.Array], jax.Array]:
  """The rate over the count of steps.

  Args:
    peak: at the beginning of every cycle.
    first: T_0, in steps.
  """

  def rate(count: jax.Array) -> jax.Array:
    # Cycle i begins at (2^i - 1) T_0.
    place = count / first + 1.0
    cycle = jnp.floor(jnp.log2(place) + 1e-6)
    within = jnp.clip(place / 2.0**cycle - 1.0, 0.0, 1.0)
    return 0.5 * peak * (1.0 + jnp.cos(jnp.pi * within))

  return rate


def phases(step_hint: int, budget: float) -> list[common.Phase]:
  """One, without an end."""
  del budget
  hparams = nadam.BASELINE
  rate = restarts(hparams.learning_rate, FIRST * step_hint)
  return [common.Phase(None, nadam.nadamw(hparams, rate))]


RIVAL = common.Rival(phases)
(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(RIVAL)
