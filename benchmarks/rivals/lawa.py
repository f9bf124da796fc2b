"""The baseline, evaluated at the average of its last snapshots (LAWA).

Training goes on from the raw weights. Source: Kaddour 2022, arXiv:2209.14981;
10 snapshots, one every 0.002 step_hint steps after 0.02 step_hint steps: the
official entry lawa_queue (2024, external tuning). Until there are 10, the raw
weights are evaluated. The entry is in PyTorch and was not run for comparison.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from . import common

SNAPSHOTS, INTERVAL, START = 10, 0.002, 0.02


class LawaState(NamedTuple):
  """An optimizer's state, the trained model and its snapshots."""

  inner: Any
  count: Any  # shape=(), dtype=int32
  taken: jax.Array  # snapshots so far
  raw: Any
  queue: Any  # leading axis: SNAPSHOTS


def lawa(step_hint: int, budget: float) -> optax.GradientTransformation:
  """The baseline's optimizer, which also takes snapshots."""
  rate = common.warmup_cosine(common.BASELINE, step_hint)
  optimizer = common.nadamw(common.BASELINE, rate)
  start = math.ceil(START * step_hint)
  interval = math.ceil(INTERVAL * step_hint)

  def init(params: Any) -> LawaState:
    queue = jax.tree_util.tree_map(
      lambda p: jnp.zeros((SNAPSHOTS, *p.shape), p.dtype), params
    )
    zero = jnp.zeros([], jnp.int32)
    return LawaState(optimizer.init(params), zero, zero, params, queue)

  def update(
    grads: Any, state: LawaState, params: Any
  ) -> tuple[Any, LawaState]:
    updates, inner = optimizer.update(grads, state.inner, params)
    raw, count = optax.apply_updates(params, updates), state.count + 1
    due = (count > start) & (count % interval == 0)
    place = state.taken % SNAPSHOTS
    queue = jax.tree_util.tree_map(
      lambda q, p: q.at[place].set(jnp.where(due, p, q[place])),
      state.queue, raw,
    )  # fmt: skip
    taken = state.taken + due
    return updates, LawaState(inner, count, taken, raw, queue)

  return optax.GradientTransformation(init, update)


def evaluated(params: Any, state: LawaState) -> Any:
  """The average of the snapshots; `params` until the queue is full."""
  is_full = state.taken >= SNAPSHOTS
  return jax.tree_util.tree_map(
    lambda p, q: jnp.where(is_full, jnp.mean(q, axis=0), p), params, state.queue
  )


RIVAL = common.Rival(
  common.one_phase(lawa),
  trained=lambda params, state: state.raw,
  evaluated=evaluated,
)
(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(RIVAL)
