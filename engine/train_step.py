"""The loss that is trained, and the body of a train step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_leaves

from ..core.workload import WorkloadApi, spec_of, takes_dropout_rate


def loss_in_training(
  workload: WorkloadApi, dropout_rate: float | None, label_smoothing: float
) -> Callable[..., Any]:
  """workload.loss_fn of workload.model_fn, in training mode.

  Returns:
    (params, model_state, batch, rng) -> (summed loss, (number of valid
    examples, new model_state)).
  """
  mode = spec_of(workload).ForwardPassMode.TRAIN
  is_ours = dropout_rate is not None and takes_dropout_rate(workload)
  extra = {'dropout_rate': dropout_rate} if is_ours else {}

  def loss_fn(
    params: Any, model_state: Any, batch: dict[str, Any], rng: jax.Array
  ) -> tuple[Any, Any]:
    logits, new_state = workload.model_fn(
      params, batch, model_state, mode, rng, update_batch_norm=True, **extra
    )
    loss = workload.loss_fn(
      label_batch=batch['targets'],
      logits_batch=logits,
      mask_batch=batch.get('weights'),
      label_smoothing=label_smoothing,
    )
    return loss['summed'], (loss['n_valid_examples'], new_state)

  return loss_fn


def train_step(
  loss_fn: Callable[..., Any],
  optimizer: optax.GradientTransformation,
  gradient_point: Callable[[Any, Any], Any] = lambda opt_state, params: params,
) -> Callable[..., Any]:
  """The body of a train step: with the mean loss over all valid examples.

  Args:
    loss_fn: see `loss_in_training`.
    optimizer: what steps.
    gradient_point: (opt_state, params) -> where the gradient is taken.

  Returns:
    (params, model_state, opt_state, batch, rng, total) -> (params, model_state,
    opt_state, [loss, gradient norm]); total sums a tree over devices.
  """
  graded = jax.value_and_grad(loss_fn, has_aux=True)

  def body(
    params: Any,
    model_state: Any,
    opt_state: Any,
    batch: Any,
    rng: jax.Array,
    total: Callable[[Any], Any],
  ) -> tuple[Any, ...]:
    point = gradient_point(opt_state, params)
    (summed, (n_valid, model_state)), grads = graded(
      point, model_state, batch, rng
    )
    summed, n_valid, grads = total((summed, n_valid, grads))
    n_valid = jnp.where(n_valid == 0, 1, n_valid)
    # The count is a float32 and would turn a bfloat16 leaf into one.
    grads = jax.tree_util.tree_map(
      lambda g: (g / n_valid).astype(g.dtype), grads
    )
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    # One array: every further output makes the call of a step slower.
    metrics = jnp.stack([summed / n_valid, global_norm(grads)])
    return params, model_state, opt_state, metrics

  return body


def global_norm(tree: Any) -> jax.Array:
  """The Euclidean norm, in float32; optax's changes its name with versions.

  Squares of one shape are added before they are summed. With a sum for each
  leaf of WMT's model, jaxlib 0.4.13 needed 173 s on a CPU to compile a reset;
  with joined squares it needs 16 s.
  """
  squares: dict[tuple[int, ...], Any] = {}
  for x in tree_leaves(tree):
    square = jnp.square(x.astype(jnp.float32))
    squares[x.shape] = squares.get(x.shape, 0.0) + square
  return jnp.sqrt(sum(jnp.sum(square) for square in squares.values()))
