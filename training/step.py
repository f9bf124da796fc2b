"""One train step: gradient, update, and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax


def train_step(
  model_fn: Callable,
  loss_fn: Callable,
  optimizer: optax.GradientTransformation,
) -> Callable:
  """The body of a train step.

  The gradient is that of the mean loss over all valid examples of all devices:
  summed losses, summed over devices and divided by the number of valid
  examples.

  Args:
    model_fn: (params, batch, model_state, rng) -> (logits, new model_state), in
      training mode.
    loss_fn: (logits, batch) -> (summed loss, number of valid examples).
    optimizer: the optax transformation.

  Returns:
    (params, model_state, opt_state, batch, rng, total) -> (params, model_state,
    opt_state, {'loss', 'grad_norm'}); total sums a tree over devices.
  """

  def summed_loss(
    params: Any, model_state: Any, batch: Any, rng: jax.Array
  ) -> tuple[jax.Array, tuple[jax.Array, Any]]:
    logits, new_state = model_fn(params, batch, model_state, rng)
    summed, n_valid = loss_fn(logits, batch)
    return summed, (n_valid, new_state)

  def body(
    params: Any,
    model_state: Any,
    opt_state: Any,
    batch: Any,
    rng: jax.Array,
    total: Callable[[Any], Any],
  ) -> tuple[Any, Any, Any, dict[str, jax.Array]]:
    grad_fn = jax.value_and_grad(summed_loss, has_aux=True)
    (summed, (n_valid, new_state)), grads = grad_fn(
      params, model_state, batch, rng
    )
    summed, n_valid, grads = total((summed, n_valid, grads))
    n_valid = jnp.where(n_valid == 0, 1, n_valid)
    grads = jax.tree_util.tree_map(lambda g: g / n_valid, grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    metrics = {
      'loss': summed / n_valid,
      'grad_norm': _global_norm(grads),
    }
    return params, new_state, opt_state, metrics

  return body


def _global_norm(tree: Any) -> jax.Array:
  # optax.global_norm warns from optax 0.2.8 on; optax 0.1 has no
  # optax.tree.norm.
  squares = [jnp.sum(jnp.square(x)) for x in jax.tree_util.tree_leaves(tree)]
  return jnp.sqrt(sum(squares))
