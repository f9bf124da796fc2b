"""A reset of a model on the devices: one blend, compiled as one program.

A run begins with (parameters, statistics, optimizer.init(parameters)). A reset
blends every leaf with the leaf at the same place in such a beginning:

  leaf <- keep * leaf + share * fresh leaf

  parameters, statistics, iterates    keep 1 - tau, share tau
  moments, which begin at 0           keep 1 - alpha * tau
  counts (of the bias correction)     kept, or begun anew in a full reset: with
                                      moments kept, updates would change scale
  frozen parameters                   always kept

Source: thesis, sections 3.1 (figure 3.2) and 3.3.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jax import tree_util

from ..core.devices import Devices
from ..optimizers.precise import rounded, synced
from ..optimizers.roles import COUNT, ITERATE, KEPT, MOMENT, STATISTIC, RoleOf
from ..soft_reset import ResetPlan, blend
from .train_step import global_norm


class Model(NamedTuple):
  """What a reset may change, laid out on the devices."""

  params: Any
  model_state: Any  # batch statistics, or None
  opt_state: Any  # one optimizer's, without the clock


class Effect(NamedTuple):
  """What a reset did, by norms over all leaves in float32."""

  param_change: float  # |new - old| / |old| of the parameters
  moment_norm_before: float  # of the optimizer's moments
  moment_norm_after: float


# Begins the paths of an optimizer's state in a `Model`.
OPT_STATE = tree_util.GetAttrKey('opt_state')


def role_in(of_state: RoleOf, frozen: Collection[Any] = ()) -> RoleOf:
  """What a reset does to the leaf at a path of a `Model`.

  Args:
    of_state: the same for the paths of the optimizer's state; see
      `Optimizer.roles`.
    frozen: key paths of the parameters that are kept.
  """

  def role_of(path: Any) -> int:
    part, rest = path[0], path[1:]
    if part == OPT_STATE:
      return of_state(rest)
    if part.name == 'model_state':
      return STATISTIC
    return KEPT if rest in frozen else ITERATE

  return role_of


class Programs(NamedTuple):
  """A reset and a look at a model, compiled for models of one structure."""

  structure: Any  # of the model: its containers
  types: list[Any]  # (shape, dtype) of its leaves
  shapes: Any  # of (params, model_state), without device axis
  reset: Callable[..., Any]  # (model, fresh, numbers) -> model, effect
  is_finite: Callable[[Model], Any]


class ModelReset:
  """Resets of the models that one optimizer trains, as compiled programs."""

  def __init__(
    self,
    devices: Devices,
    role_of: RoleOf,
    init: Callable[[Any], Any],  # parameters -> optimizer state, as at a start
    model: Model,  # laid out on the devices, as it will be trained
  ) -> None:
    """Compiles the programs before the first step; a reset compiles nothing."""
    self.devices = devices
    self._reset = functools.partial(_blended, role_of, init)
    self._look = functools.partial(_is_finite, role_of, init)
    self._programs = self._compiled(model)

  def _compiled(self, model: Model) -> Programs:
    devices = self.devices
    shapes = devices.shapes_of((model.params, model.model_state))
    numbers = jax.ShapeDtypeStruct((4,), _number_type())
    return Programs(
      tree_util.tree_structure(model),
      _types(model),
      shapes,
      devices.compile(self._reset, model, shapes, numbers, donate=True),
      devices.compile(self._look, model),
    )

  def _programs_for(self, model: Model) -> tuple[Programs, Model]:
    """The programs, and the model in their containers.

    The runner may have changed the containers. Programs are compiled anew only
    if the first step has changed the statistics.
    """
    if _types(model) != self._programs.types:
      self._programs = self._compiled(model)
    leaves = tree_util.tree_leaves(model)
    return self._programs, self._programs.structure.unflatten(leaves)

  def is_finite(self, model: Model) -> bool:
    """Whether parameters, statistics and the optimizer's state are finite."""
    programs, model = self._programs_for(model)
    return bool(np.all(jax.device_get(programs.is_finite(model))))

  def __call__(
    self, model: Model, fresh: tuple[Any, Any], reset_plan: ResetPlan
  ) -> tuple[Model, Effect]:
    """Blends a model with a fresh one; the model is donated.

    Args:
      fresh: (params, model_state) of a new initialisation, on the host, without
        device axis. Where model_state does not fit (as in main's cifar, or
        where the first step added it), the old statistics are kept: the coming
        batches update them. Values that are not finite become zero.
      model, reset_plan: what is reset, and how; the result is laid out like it.

    Returns:
      The model after the reset, and what the reset did.

    Raises:
      ValueError: if the fresh parameters do not fit those that are trained.
    """
    structure: Any = tree_util.tree_structure(model)
    programs, model = self._programs_for(model)
    typed, has_statistics = _typed(fresh, programs.shapes)
    numbers = (*reset_plan, has_statistics)
    model, effect = programs.reset(
      model, typed, np.asarray(numbers, _number_type())
    )
    model = structure.unflatten(tree_util.tree_leaves(model))
    return model, Effect(*self.devices.get(effect).tolist())


def _typed(fresh: tuple[Any, Any], shapes: Any) -> tuple[Any, bool]:
  """A fresh model in the trained types, and whether its statistics fit."""
  if _sizes(fresh[0]) != _sizes(shapes[0]):
    message = (
      "init_model_fn's parameters differ in shape from the trained ones."
    )
    raise ValueError(message)
  has_statistics = _sizes(fresh[1]) == _sizes(shapes[1])
  if not has_statistics:
    logging.warning(
      "init_model_fn's batch statistics differ in shape from those that are "
      'trained. Resets keep the statistics, with 0 for what is not finite.'
    )
    zeros = tree_util.tree_map(lambda x: np.zeros(x.shape), shapes[1])
    fresh = fresh[0], zeros
  pairs = zip(tree_util.tree_leaves(fresh), tree_util.tree_leaves(shapes))
  typed = [np.asarray(leaf, shape.dtype) for leaf, shape in pairs]
  structure = tree_util.tree_structure(shapes)
  return tree_util.tree_unflatten(structure, typed), has_statistics


def _number_type() -> Any:
  return jax.dtypes.canonicalize_dtype(np.float64)


def _blended(
  role_of: RoleOf,
  init: Callable[[Any], Any],
  model: Model,
  fresh: tuple[Any, Any],
  numbers: jax.Array,
) -> tuple[Model, jax.Array]:
  """The blend of every leaf, and its `Effect`; a pure function."""
  tau, keep_moments, keep_counts, has_statistics = numbers

  def reset(path: Any, old: jax.Array, new: jax.Array) -> jax.Array:
    role = role_of(path)
    if role == KEPT:
      return old
    if role == COUNT:
      return jnp.where(keep_counts > 0, old, new)
    if role == MOMENT:
      return blend(old, new, keep_moments, 1 - keep_moments)
    keep = 1 - tau.astype(jnp.promote_types(old.dtype, jnp.float32))
    mixed = blend(old, new, keep, tau)
    if role == ITERATE:
      return mixed
    kept = jnp.where(jnp.isfinite(old), old, jnp.zeros_like(old))
    return jnp.where(has_statistics > 0, mixed, kept)

  # The optimizer's state of a kept parameter is begun anew from the parameter.
  params = tree_util.tree_map_with_path(
    lambda path, old, new: old if role_of(path) == KEPT else new,
    Model(model.params, None, None),
    Model(fresh[0], None, None),
  ).params
  fresh_model = Model(*fresh, init(params))
  state = synced(model.opt_state, model.params)
  model = model._replace(opt_state=state)
  after = tree_util.tree_map_with_path(reset, model, fresh_model)
  # What has a copy in float32 is blended there, and rounded once.
  after = after._replace(params=rounded(after.opt_state, after.params))
  moved = tree_util.tree_map(
    lambda old, new: jnp.float32(new) - jnp.float32(old),
    *(model.params, after.params),
  )
  change = global_norm(moved) / global_norm(model.params)
  norms = (global_norm(_moments(role_of, tree)) for tree in (model, after))
  return after, jnp.stack([change, *norms])


def _moments(role_of: RoleOf, model: Model) -> list[Any]:
  leaves = tree_util.tree_flatten_with_path(model)[0]
  return [leaf for path, leaf in leaves if role_of(path) == MOMENT]


def _is_finite(
  role_of: RoleOf, init: Callable[[Any], Any], model: Model
) -> jax.Array:
  """Whether all that a reset may replace is finite.

  A count may be infinite if it begins so, as the least loss so far does. Leaves
  of one shape are joined first: to compile a sum for each leaf takes seconds.
  """
  leaves = tree_util.tree_flatten_with_path(model)[0]
  seen = [
    (leaf, role_of(path), i)
    for i, (path, leaf) in enumerate(leaves)
    if role_of(path) != KEPT and jnp.issubdtype(leaf.dtype, jnp.inexact)
  ]
  first_leaves: list[Any] = []
  if any(role == COUNT for _, role, _ in seen):
    first_leaves = tree_util.tree_leaves(
      model._replace(opt_state=init(model.params))
    )
  finite: dict[tuple[int, ...], Any] = {}
  for leaf, role, i in seen:
    is_right = jnp.isfinite(leaf)
    if role == COUNT:
      is_right |= ~jnp.isfinite(first_leaves[i])
    finite[leaf.shape] = finite.get(leaf.shape, True) & is_right
  return jnp.all(jnp.stack([jnp.all(x) for x in finite.values()]))


def _sizes(tree: Any) -> list[tuple[int, ...]]:
  return [tuple(leaf.shape) for leaf in tree_util.tree_leaves(tree)]


def _types(tree: Any) -> list[Any]:
  return [(leaf.shape, leaf.dtype) for leaf in tree_util.tree_leaves(tree)]
