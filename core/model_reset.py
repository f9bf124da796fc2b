"""A reset of a model on the devices: one blend, compiled as one program.

What a run begins with is (parameters, statistics, optimizer.init(parameters)):
moments begin at 0, iterates at the parameters, counts at 0. So a reset blends
every leaf with the one that a run would begin with:

  leaf <- keep * leaf + share * fresh leaf

  parameters, statistics, iterates    keep 1 - tau, share tau
  moments                             keep 1 - alpha * tau
  counts                              kept, or begun anew in a full reset

Source: thesis, sections 3.1 (figure 3.2) and 3.3.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from ..soft_reset import ResetPlan, blend
from .devices import Devices
from .optimizers import Optimizer


class Model(NamedTuple):
  """What a reset may change. Leaves are laid out on the devices."""

  params: Any
  model_state: Any  # batch statistics, or None
  opt_state: Any  # one optimizer's, without the clock


class ModelReset:
  """The compiled programs of resets, for models that one optimizer trains."""

  def __init__(
    self,
    devices: Devices,
    optimizer: Optimizer,
    init: Callable[[Any], Any],
    model: Model,
  ) -> None:
    """Compiles them, so that a reset compiles nothing.

    Args:
      devices: how leaves are laid out.
      optimizer: names the fields of its state.
      init: parameters -> its state, as a run begins.
      model: laid out on the devices, as it will be trained.
    """
    self._devices = devices
    self._parts = optimizer, init
    # The runner may change the containers of a model between two steps.
    self._structure: Any = jax.tree_util.tree_structure(model)
    self._shapes = devices.shapes_of((model.params, model.model_state))
    widest = jax.dtypes.canonicalize_dtype(np.float64)
    numbers = jax.ShapeDtypeStruct((4,), widest)
    body = functools.partial(_reset, optimizer, init)
    self._reset = devices.compile(
      body, model, self._shapes, numbers, donate=True
    )
    self._is_finite = devices.compile(_is_finite, model)

  def _fitting(self, model: Model) -> tuple[ModelReset, Model]:
    """The programs for this model, and the model in their structure."""
    leaves = jax.tree_util.tree_leaves(model)
    if len(leaves) != self._structure.num_leaves:
      # The first step has added statistics.
      return ModelReset(self._devices, *self._parts, model), model
    return self, jax.tree_util.tree_unflatten(self._structure, leaves)

  def is_finite(self, model: Model) -> bool:
    """Whether parameters, statistics and the optimizer's state are finite."""
    programs, model = self._fitting(model)
    return bool(np.all(jax.device_get(programs._is_finite(model))))

  def __call__(
    self, model: Model, fresh: tuple[Any, Any], plan: ResetPlan
  ) -> Model:
    """Blends a model with a fresh one; the model is donated.

    Args:
      model: parameters, batch statistics and optimizer state.
      fresh: (params, model_state) of a new initialisation, on the host, without
        device axis. Where model_state does not fit (as in main's cifar, or
        where the first step added it), the old statistics are kept, as the
        coming batches update them, but values that are not finite become zero.
      plan: what is to be done.

    Returns:
      The model with which the cycle starts, laid out as before.

    Raises:
      ValueError: if the fresh parameters do not fit those that are trained.
    """
    structure = jax.tree_util.tree_structure(model)
    programs, model = self._fitting(model)
    params, statistics = programs._shapes
    if _sizes(fresh[0]) != _sizes(params):
      raise ValueError(
        "init_model_fn's parameters differ in shape from those that are "
        'trained.'
      )
    has_statistics = _sizes(fresh[1]) == _sizes(statistics)
    if not has_statistics:
      logging.warning(
        "init_model_fn's batch statistics differ in shape from those that are "
        'trained. Resets leave the statistics as they are.'
      )
      zeros = lambda x: np.zeros(x.shape, x.dtype)
      fresh = fresh[0], jax.tree_util.tree_map(zeros, statistics)
    numbers = plan.tau, plan.keep_moments, plan.keep_counts, has_statistics
    widest = jax.dtypes.canonicalize_dtype(np.float64)
    model = programs._reset(
      model,
      _like(programs._shapes, fresh),
      np.asarray(numbers, widest),
    )
    return jax.tree_util.tree_unflatten(
      structure, jax.tree_util.tree_leaves(model)
    )


def _reset(
  optimizer: Optimizer,
  init: Callable[[Any], Any],
  model: Model,
  fresh: tuple[Any, Any],
  numbers: jax.Array,
) -> Model:
  """The blend of every leaf; a pure function."""
  tau, keep_moments, keep_counts, has_statistics = numbers

  def mixed(old: jax.Array, new: jax.Array) -> jax.Array:
    keep = 1 - tau.astype(jnp.promote_types(old.dtype, jnp.float32))
    return blend(old, new, keep, tau)

  def statistic(old: jax.Array, new: jax.Array) -> jax.Array:
    kept = jnp.where(jnp.isfinite(old), old, 0)
    return jnp.where(has_statistics > 0, mixed(old, new), kept)

  def reset_field(path: Any, old: jax.Array, begun: jax.Array) -> jax.Array:
    for name in (getattr(key, 'name', '') for key in path):
      if name in optimizer.iterates:
        return mixed(old, begun)
      if name in optimizer.moments:
        return blend(old, begun, keep_moments, 1 - keep_moments)
    return jnp.where(keep_counts > 0, old, begun)

  params, statistics = fresh
  begun = init(params)
  return Model(
    jax.tree_util.tree_map(mixed, model.params, params),
    jax.tree_util.tree_map(statistic, model.model_state, statistics),
    jax.tree_util.tree_map_with_path(reset_field, model.opt_state, begun),
  )


def _is_finite(model: Model) -> jax.Array:
  leaves = jax.tree_util.tree_leaves(model)
  return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def _sizes(tree: Any) -> list[tuple[int, ...]]:
  return [tuple(leaf.shape) for leaf in jax.tree_util.tree_leaves(tree)]


def _like(shapes: Any, tree: Any) -> Any:
  """The leaves of a tree in the structure and the types of others."""
  leaves, structure = jax.tree_util.tree_flatten(shapes)
  found = jax.tree_util.tree_leaves(tree)
  return jax.tree_util.tree_unflatten(
    structure, [np.asarray(x, s.dtype) for x, s in zip(found, leaves)]
  )
