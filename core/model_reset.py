"""A reset of a model on the devices: one blend, compiled as one program.

What a run begins with is (parameters, statistics, optimizer.init(parameters)).
A reset blends every leaf with the one there:

  leaf <- keep * leaf + share * fresh leaf

  parameters, statistics, iterates    keep 1 - tau, share tau
  moments, which begin at 0           keep 1 - alpha * tau
  counts (of the bias correction)     kept, or begun anew in a full reset: with
                                      moments kept, updates would change scale
  what is kept (frozen parameters)    always kept

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
from jax import tree_util

from ..soft_reset import ResetPlan, blend
from .devices import Devices
from .optimizers import Optimizer


class Model(NamedTuple):
  """What a reset may change, laid out on the devices."""

  params: Any
  model_state: Any  # batch statistics, or None
  opt_state: Any  # one optimizer's, without the clock


# What a reset does to a leaf.
ITERATE, STATISTIC, MOMENT, COUNT, KEPT = range(5)
RoleOf = Callable[[Any], int]  # of the path of a leaf in a Model


def role_by_field(optimizer: Optimizer, path: Any) -> int:
  """The role of a leaf of a model, by the names on its path."""
  names = [getattr(key, 'name', '') for key in path]
  if names[0] != 'opt_state':
    return ITERATE if names[0] == 'params' else STATISTIC
  for name in names:
    if name in optimizer.iterates:
      return ITERATE
    if name in optimizer.moments:
      return MOMENT
  return COUNT


class ModelReset:
  """The compiled programs of resets, for models that one optimizer trains."""

  def __init__(
    self,
    devices: Devices,
    role_of: RoleOf,
    init: Callable[[Any], Any],  # parameters -> optimizer state, as at a start
    model: Model,  # laid out on the devices, as it will be trained
  ) -> None:
    """Compiles them, so that a reset compiles nothing."""
    self._devices = devices
    self._blend = functools.partial(_blended, role_of, init)
    self._look = functools.partial(_is_finite, role_of)
    self._compile(model)

  def _compile(self, model: Model) -> None:
    self._structure: Any = tree_util.tree_structure(model)
    self._types = _types(model)
    self._shapes = self._devices.shapes_of((model.params, model.model_state))
    self._numbers = jax.dtypes.canonicalize_dtype(np.float64)
    hosts = self._shapes, jax.ShapeDtypeStruct((4,), self._numbers)
    self._reset = self._devices.compile(self._blend, model, *hosts, donate=True)
    self._is_finite = self._devices.compile(self._look, model)

  def _fitting(self, model: Model) -> Any:
    """The model in the programs' containers; the runner may change its own."""
    if _types(model) != self._types:
      self._compile(model)  # the first step has changed the statistics
    return self._structure.unflatten(tree_util.tree_leaves(model))

  def is_finite(self, model: Model) -> bool:
    """Whether parameters, statistics and the optimizer's state are finite."""
    model = self._fitting(model)  # which may replace the program
    return bool(np.all(jax.device_get(self._is_finite(model))))

  def __call__(
    self, model: Model, fresh: tuple[Any, Any], plan: ResetPlan
  ) -> Model:
    """Blends a model with a fresh one; the model is donated.

    Args:
      fresh: (params, model_state) of a new initialisation, on the host, without
        device axis. Where model_state does not fit (as in main's cifar, or
        where the first step added it), the old statistics are kept, as the
        coming batches update them, but values that are not finite become zero.
      model, plan: what is reset, and how; the result is laid out like it.

    Raises:
      ValueError: if the fresh parameters do not fit those that are trained.
    """
    structure, model = tree_util.tree_structure(model), self._fitting(model)
    if _sizes(fresh[0]) != _sizes(self._shapes[0]):
      said = "init_model_fn's parameters differ in shape from the trained ones."
      raise ValueError(said)
    has_statistics = _sizes(fresh[1]) == _sizes(self._shapes[1])
    if not has_statistics:
      logging.warning(
        "init_model_fn's batch statistics differ in shape from those that are "
        'trained. Resets keep the statistics, with 0 for what is not finite.'
      )
      zeros = tree_util.tree_map(lambda x: np.zeros(x.shape), self._shapes[1])
      fresh = fresh[0], zeros
    shapes, types = tree_util.tree_flatten(self._shapes)
    leaves = zip(tree_util.tree_leaves(fresh), shapes)
    typed = [np.asarray(leaf, shape.dtype) for leaf, shape in leaves]
    fresh = tree_util.tree_unflatten(types, typed)
    numbers = plan.tau, plan.keep_moments, plan.keep_counts, has_statistics
    model = self._reset(model, fresh, np.asarray(numbers, self._numbers))
    return tree_util.tree_unflatten(structure, tree_util.tree_leaves(model))


def _blended(
  role_of: RoleOf,
  init: Callable[[Any], Any],
  model: Model,
  fresh: tuple[Any, Any],
  numbers: jax.Array,
) -> Model:
  """The blend of every leaf; a pure function."""
  tau, keep_moments, keep_counts, has_statistics = numbers

  def reset(path: Any, old: jax.Array, begun: jax.Array) -> jax.Array:
    role = role_of(path)
    if role == KEPT:
      return old
    if role == COUNT:
      return jnp.where(keep_counts > 0, old, begun)
    if role == MOMENT:
      return blend(old, begun, keep_moments, 1 - keep_moments)
    keep = 1 - tau.astype(jnp.promote_types(old.dtype, jnp.float32))
    mixed = blend(old, begun, keep, tau)
    if role == ITERATE:
      return mixed
    kept = jnp.where(jnp.isfinite(old), old, jnp.zeros_like(old))
    return jnp.where(has_statistics > 0, mixed, kept)

  begun = Model(*fresh, init(fresh[0]))
  return tree_util.tree_map_with_path(reset, model, begun)


def _is_finite(role_of: RoleOf, model: Model) -> jax.Array:
  """Whether all that a reset may replace is finite.

  Leaves of one shape are joined first: to compile a sum for each takes seconds.
  """
  finite: dict[tuple[int, ...], Any] = {}
  for path, leaf in tree_util.tree_flatten_with_path(model)[0]:
    if role_of(path) != KEPT:
      before = finite.get(leaf.shape, True)
      finite[leaf.shape] = before & jnp.isfinite(leaf)
  return jnp.all(jnp.stack([jnp.all(x) for x in finite.values()]))


def _sizes(tree: Any) -> list[tuple[int, ...]]:
  return [tuple(leaf.shape) for leaf in tree_util.tree_leaves(tree)]


def _types(tree: Any) -> list[Any]:
  return [(leaf.shape, leaf.dtype) for leaf in tree_util.tree_leaves(tree)]
