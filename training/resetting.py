"""A reset on the devices: leaf by leaf, compiled beforehand, checked afterwards.

`soft_reset` has the formulas. An optimizer is reset through its slots alone:
its moments shrink, its iterates are blended like the parameters and with the
same fresh ones, the weights of its averages are multiplied by 1 - tau, and its
counts go back to zero in a full reset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..optimizers.inner import Inner, Slots
from ..soft_reset import Reset, blend, shrink
from . import reset_checks
from .compiled_ops import CompiledOps
from .devices import Devices

_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


class Model(NamedTuple):
  """What a reset may change. Leaves are laid out on the devices."""

  params: Any
  model_state: Any  # batch statistics, or None
  opt_state: Any  # the inner optimizer's; a reset changes only its slots


def leaf_is_finite(leaf: jax.Array) -> jax.Array:
  """Whether all elements are finite, shape=(), bool; integers always are."""
  return jnp.all(jnp.isfinite(leaf))


def compile_reset(
  params: Any, model_state: Any, all_slots: Sequence[Slots], devices: Devices
) -> CompiledOps:
  """Compiles a reset before training, so that the reset compiles nothing.

  A reset goes leaf by leaf, with the old leaf donated and the fresh one on the
  host: besides the model, only one leaf and the samples are on the devices.

  Args:
    params, model_state: trees of anything with shape and dtype, without device
      axis.
    all_slots: the slots of each optimizer's state, likewise.
    devices: how leaves are laid out on the devices.

  Returns:
    The operations. Leaves of equal shape share one.
  """
  ops = CompiledOps(devices)
  trees = [params, model_state]
  trees += [tree for slots in all_slots for tree in slots.iterates]
  shrunk = [s for slots in all_slots for s in (slots.moments, slots.weights)]
  blended, moments = list(map(_shapes, trees)), list(map(_shapes, shrunk))
  for leaf in sum(blended, []):
    ops.prepare(leaf_is_finite, leaf)
    ops.prepare(blend, leaf, leaf, _SCALAR, donate=True)
  for leaf in sum(moments, []):
    ops.prepare(leaf_is_finite, leaf)
    ops.prepare(shrink, leaf, _SCALAR, donate=True)
  for leaves in (*blended, *moments):
    if leaves:
      ops.prepare(reset_checks.sample_all, leaves)
  for count in _shapes([slots.counts for slots in all_slots]):
    devices.put(np.zeros((), count.dtype))  # under pmap, `put` compiles
  return ops


def _shapes(tree: Any) -> list[jax.ShapeDtypeStruct]:
  return [
    x
    if isinstance(x, jax.ShapeDtypeStruct)  # may say how the leaf lies
    else jax.ShapeDtypeStruct(x.shape, x.dtype)
    for x in jax.tree_util.tree_leaves(tree)
  ]


def is_finite(model: Model, inner: Inner, ops: CompiledOps) -> bool:
  """Whether parameters, batch statistics and the optimizer's slots are finite.

  Args:
    model: the model.
    inner: the optimizer whose state the model has.
    ops: see `compile_reset`.
  """
  slots = inner.slots(model.opt_state)
  leaves = jax.tree_util.tree_leaves(
    (
      model.params,
      model.model_state,
      slots.moments,
      slots.iterates,
      slots.weights,
    )
  )
  found = [ops.run(leaf_is_finite, leaf) for leaf in leaves]
  return all(np.all(finite) for finite in jax.device_get(found))


def model_reinit_schedule(
  model: Model,
  fresh: tuple[Any, Any],
  reset: Reset,
  inner: Inner,
  ops: CompiledOps,
) -> Model:
  """Resets a model at the start of a cycle, and checks that it was done.

  The checks recompute the formula on the host for up to 64 elements of every
  leaf and, under pmap, of every replica.

  Args:
    model: parameters, batch statistics and optimizer state; the leaves that
      change are donated.
    fresh: (params, model_state) of a new initialisation, as host arrays without
      device axis. If model_state has no leaves, there are no fresh statistics.
    reset: what is to be done; see `soft_reset.plan_reset`.
    inner: the optimizer whose state the model has.
    ops: see `compile_reset`.

  Returns:
    The model with which the cycle starts, laid out as before.

  Raises:
    RuntimeError: if a check fails, or `fresh` does not fit the model.

  Source: thesis, sections 3.1 (figure 3.2) and 3.3.2.
  """
  if reset.touches_nothing:
    return model
  fresh_params, fresh_state = fresh
  share = np.float32(reset.tau)
  params = _blend_tree('parameters', model.params, fresh_params, share, ops)
  model_state = _reset_statistics(model.model_state, fresh_state, share, ops)
  slots = _reset_slots(inner.slots(model.opt_state), fresh_params, reset, ops)
  opt_state = inner.with_slots(model.opt_state, slots)
  return Model(params, model_state, opt_state)


def _samples(leaves: Sequence[jax.Array], ops: CompiledOps) -> list[np.ndarray]:
  """Samples of the leaves on the host; then the leaves may be donated."""
  return jax.device_get(ops.run(reset_checks.sample_all, list(leaves)))


def _blend_tree(
  what: str, tree: Any, fresh: Any, share: np.float32, ops: CompiledOps
) -> Any:
  """Blends leaf by leaf; the result has the structure of tree."""
  leaves, treedef = jax.tree_util.tree_flatten(tree)
  shapes = list(map(ops.devices.shape_of, leaves))
  fresh_leaves = jax.tree_util.tree_leaves(fresh)
  if [leaf.size for leaf in fresh_leaves] != [
    math.prod(shape.shape) for shape in shapes
  ]:
    raise RuntimeError(
      f"init_model_fn's {what} differ in size from those that are trained."
    )
  old = _samples(leaves, ops)
  for i, (shape, fresh_leaf) in enumerate(zip(shapes, fresh_leaves)):
    fresh_leaf = np.asarray(fresh_leaf, shape.dtype).reshape(shape.shape)
    leaves[i] = ops.run(blend, leaves[i], fresh_leaf, share, donate=True)
    # Waiting keeps the fresh leaves from piling up on the devices.
    leaves[i].block_until_ready()
  samples = list(zip(old, _samples(leaves, ops)))
  reset_checks.check_blend(what, samples, fresh_leaves, float(share))
  return jax.tree_util.tree_unflatten(treedef, leaves)


def _reset_statistics(
  model_state: Any, fresh: Any, share: np.float32, ops: CompiledOps
) -> Any:
  """Blends batch statistics, if there are fresh ones.

  There are none if only the first step added them. Then they are kept, as the
  coming batches update them, but values that are not finite become zero.
  """
  if jax.tree_util.tree_leaves(fresh):
    return _blend_tree('batch statistics', model_state, fresh, share, ops)
  one = np.float32(1)
  return jax.tree_util.tree_map(
    lambda leaf: ops.run(shrink, leaf, one, donate=True), model_state
  )


def _reset_slots(
  slots: Slots, fresh_params: Any, reset: Reset, ops: CompiledOps
) -> Slots:
  """Shrinks moments, blends iterates; counts go to zero if not kept."""
  share = np.float32(reset.tau)

  def zero(count: jax.Array) -> jax.Array:
    dtype = ops.devices.shape_of(count).dtype
    return ops.devices.put(np.zeros((), dtype))

  return Slots(
    moments=_shrink_tree(slots.moments, np.float32(reset.keep_moments), ops),
    iterates=tuple(
      _blend_tree('iterates', tree, fresh_params, share, ops)
      for tree in slots.iterates
    ),
    counts=slots.counts if reset.keep_count else tuple(map(zero, slots.counts)),
    weights=_shrink_tree(slots.weights, np.float32(1 - reset.tau), ops),
  )


def _shrink_tree(tree: Any, keep: np.float32, ops: CompiledOps) -> Any:
  """Shrinks leaf by leaf; the result has the structure of tree."""
  leaves, treedef = jax.tree_util.tree_flatten(tree)
  if not leaves:
    return tree
  old = _samples(leaves, ops)
  leaves = [ops.run(shrink, leaf, keep, donate=True) for leaf in leaves]
  samples = list(zip(old, _samples(leaves, ops)))
  reset_checks.check_moments(samples, float(keep))
  return jax.tree_util.tree_unflatten(treedef, leaves)
