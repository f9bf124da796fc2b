"""The baseline with its cosine over the whole time budget.

Until the first evaluation, a step is assumed to take 1 / (budget * step_hint)
of the budget. From then on, each evaluation tells how long the steps before it
have taken, and the share used up grows by their mean at every step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from . import common


class TimedState(NamedTuple):
  """An optimizer's state and where the run stands."""

  inner: Any
  used: jax.Array  # share of the budget, 0 to 1
  pace: jax.Array  # share of the budget per step


def rate_at(used: jax.Array) -> jax.Array:
  """The learning rate at a share of the budget: warm-up, then cosine to 0."""
  hparams = common.BASELINE
  warmup = hparams.warmup_factor
  rest = jnp.clip((used - warmup) / (1.0 - warmup), 0.0, 1.0)
  cosine = 0.5 * (1.0 + jnp.cos(jnp.pi * rest))
  rising = jnp.minimum(used / warmup, 1.0)
  return hparams.learning_rate * rising * cosine


def timed(step_hint: int, budget: float) -> optax.GradientTransformation:
  """NadamW under `rate_at`."""
  direction = common.nadamw(common.BASELINE, lambda count: 1.0)

  def init(params: Any) -> TimedState:
    pace = jnp.float32(1.0 / (budget * step_hint))
    return TimedState(direction.init(params), jnp.float32(0.0), pace)

  def update(
    grads: Any, state: TimedState, params: Any
  ) -> tuple[Any, TimedState]:
    updates, inner = direction.update(grads, state.inner, params)
    rate = rate_at(state.used)
    updates = jax.tree_util.tree_map(lambda u: rate * u, updates)
    return updates, TimedState(inner, state.used + state.pace, state.pace)

  return optax.GradientTransformation(init, update)


def set_pace(state: TimedState, used: Any, pace: Any) -> TimedState:
  """The state at a share of the budget, of which a step takes `pace`."""
  return state._replace(used=used, pace=pace)


RIVAL = common.Rival(timed, progress=set_pace)
(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(RIVAL)
