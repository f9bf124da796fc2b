"""One train step, run on all devices in the way of either benchmark generation.

`train_step` is the one body. `pmap_devices` runs it under `jax.pmap`, with a
leading device axis on everything (2024, v0.5.0); `jit_devices` runs it under
`jax.jit` with the batch sharded and the rest replicated (current). Both return
a `Devices`: the few operations that differ between the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# The name that the benchmark's own submissions give to the device axis; models
# that synchronise over devices know it.
AXIS_NAME = 'batch'


class Devices(NamedTuple):
  """How arrays lie on the devices, and how functions are run over them."""

  compile_step: Callable  # body -> step(params, …, batch, rng)
  compile: Callable  # (fn, shapes, *host_shapes, donate=) -> compiled fn
  init: Callable  # (fn, laid-out tree) -> fn(tree), laid out
  put: Callable  # host tree -> laid out on the devices
  place: Callable  # tree as the runner hands it over -> laid out
  get: Callable  # laid-out tree -> one host copy


def train_step(
  model_fn: Callable,
  loss_fn: Callable,
  optimizer: optax.GradientTransformation,
) -> Callable:
  """The body of a train step.

  The gradient is that of the mean loss over all valid examples of all devices:
  sums over devices of summed losses, divided by the sum of valid examples.

  Args:
    model_fn: (params, batch, model_state, rng) -> (logits, new model_state), in
      training mode.
    loss_fn: (logits, batch) -> (summed loss, number of valid examples).
    optimizer: the optax transformation.

  Returns:
    (params, model_state, opt_state, batch, rng, total) -> (params, model_state,
    opt_state, {'loss', 'grad_norm'}), where total sums a tree over devices.
  """

  def summed_loss(params, model_state, batch, rng):
    logits, new_state = model_fn(params, batch, model_state, rng)
    summed, n_valid = loss_fn(logits, batch)
    return summed, (n_valid, new_state)

  def body(params, model_state, opt_state, batch, rng, total):
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
  # optax.global_norm warns from optax 0.2.8 on; optax.tree.norm came after 0.1.
  squares = [jnp.sum(jnp.square(x)) for x in jax.tree_util.tree_leaves(tree)]
  return jnp.sqrt(sum(squares))


def pmap_devices() -> Devices:
  """Everything has a leading device axis (benchmark v0.5.0)."""
  n = jax.local_device_count()

  def compile_step(body):
    def step(params, model_state, opt_state, batch, rng):
      rng = jax.random.fold_in(rng, jax.lax.axis_index(AXIS_NAME))
      total = functools.partial(jax.lax.psum, axis_name=AXIS_NAME)
      return body(params, model_state, opt_state, batch, rng, total)

    return jax.pmap(
      step,
      axis_name=AXIS_NAME,
      in_axes=(0, 0, 0, 0, None),
      donate_argnums=(0, 1, 2),
    )

  def compile_(fn, shapes, *host_shapes, donate=False):
    mapped = jax.pmap(
      fn,
      axis_name=AXIS_NAME,
      in_axes=(0,) + (None,) * len(host_shapes),
      donate_argnums=(0,) if donate else (),
    )
    stacked = jax.tree_util.tree_map(
      lambda x: jax.ShapeDtypeStruct((n,) + x.shape, x.dtype), shapes
    )
    return mapped.lower(stacked, *host_shapes).compile()

  identity = jax.pmap(lambda tree: tree, axis_name=AXIS_NAME)

  def put(tree):
    return identity(
      jax.tree_util.tree_map(
        lambda x: np.broadcast_to(x, (n,) + np.shape(x)), tree
      )
    )

  layout = put(np.int32(0)).sharding

  def place(tree):
    # From jax 0.8 on, a pmap knows the mesh of its inputs: one with another
    # axis name would have the step compiled twice.
    if isinstance(layout, NamedSharding):
      return jax.device_put(tree, layout)
    return tree

  def get_leaf(x):
    first = np.asarray(x.addressable_shards[0].data)
    return first.reshape(x.shape[1:])

  return Devices(
    compile_step=compile_step,
    compile=compile_,
    init=lambda fn, tree: jax.pmap(fn, axis_name=AXIS_NAME)(tree),
    put=put,
    place=place,
    get=lambda tree: jax.tree_util.tree_map(get_leaf, tree),
  )


def jit_devices() -> Devices:
  """The batch is sharded on its first axis, the rest replicated (main)."""
  mesh = Mesh(np.asarray(jax.devices()), (AXIS_NAME,))
  replicated = NamedSharding(mesh, PartitionSpec())
  sharded = NamedSharding(mesh, PartitionSpec(AXIS_NAME))

  def compile_step(body):
    def step(params, model_state, opt_state, batch, rng):
      # The batch is one sharded array: its sums are over all devices already.
      return body(params, model_state, opt_state, batch, rng, lambda t: t)

    return jax.jit(
      step,
      in_shardings=(replicated, replicated, replicated, sharded, replicated),
      out_shardings=replicated,
      donate_argnums=(0, 1, 2),
    )

  def compile_(fn, shapes, *host_shapes, donate=False):
    jitted = jax.jit(
      fn,
      in_shardings=replicated,
      out_shardings=replicated,
      donate_argnums=(0,) if donate else (),
    )
    return jitted.lower(shapes, *host_shapes).compile()

  def put(tree):
    return jax.device_put(tree, replicated)

  return Devices(
    compile_step=compile_step,
    compile=compile_,
    init=lambda fn, tree: jax.jit(fn, out_shardings=replicated)(tree),
    put=put,
    place=put,
    get=lambda tree: jax.tree_util.tree_map(np.asarray, tree),
  )
