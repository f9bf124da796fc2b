"""Fresh models for resets: as many as a run needs, few in memory at once."""

from __future__ import annotations

import math
from typing import Any

import jax
from absl import logging

from .devices import Devices
from .workload import WorkloadApi

# The thesis' runs have two resets. More models would only occupy the host.
MOST_READY = 2
# Folded into the key of models beyond the plan: no plan has that many resets.
_LATER = 2**31 - 1


def fresh_model(
  workload: WorkloadApi, rng: jax.Array, devices: Devices
) -> tuple[Any, Any]:
  """A new initialisation of the workload's model, on the host.

  `init_model_fn` replaces attributes of the workload, among them the model with
  the runner's dropout; they are restored.

  Args:
    workload: the workload.
    rng: the model's key.
    devices: the layout of the arrays that init_model_fn returns.

  Returns:
    (params, model_state), host arrays without device axis.

  Source: the rules of both generations allow it, "for example, to reinitialize
  the model after a failed training effort".
  """
  attributes = dict(vars(workload))
  try:
    return devices.get(workload.init_model_fn(rng))
  finally:
    vars(workload).update(attributes)


class FreshModels:
  """New initialisations of a workload's model, the i-th for the i-th reset.

  The first ones are made before the first step, when neither runner's clock
  runs yet. Later ones, for longer chains and for cycles that a policy adds, are
  made when they are taken, and that time counts: `init_model_fn` recompiles at
  every call (seconds, or tens of seconds for a large model), and for a moment a
  second set of parameters lies on the devices.
  """

  def __init__(
    self,
    workload: WorkloadApi,
    rng: jax.Array,
    planned: int,
    devices: Devices,
    ready: int | None = None,
  ):
    """Makes the models of the first resets.

    Args:
      workload: the workload.
      rng: a key; every model's own key is derived from it.
      planned: how many resets are planned. There may be more.
      devices: see `fresh_model`.
      ready: how many models are made now, even beyond the plan; None for as
        many as are planned, but no more than MOST_READY.
    """
    ready = min(planned, MOST_READY) if ready is None else ready
    self._workload, self._rng, self._devices = workload, rng, devices
    self._planned = planned
    self._live: tuple[Any, Any] | None = None
    self._has_statistics = True
    self._ready = {i: self._make(i) for i in range(ready)}

  def take(self, index: int) -> tuple[Any, Any]:
    """Hands a model out; it is not kept.

    Args:
      index: of the reset, from 0. The same index gives the same model, also in
        a resumed run.

    Returns:
      (params, model_state), host arrays without device axis. model_state is
      None if the fresh one does not fit; see `check_shapes`.

    Raises:
      ValueError: if the parameters do not fit those that are trained.
    """
    model = self._ready.pop(index, None)
    # A resumed run may never need those of earlier resets.
    for earlier in [i for i in self._ready if i < index]:
      del self._ready[earlier]
    if model is None:
      model = self._make(index)
    self._check(model)
    params, model_state = model
    return params, model_state if self._has_statistics else None

  def check_shapes(self, params: Any, model_state: Any) -> None:
    """Compares fresh models with the one that is trained.

    To be called after the first step, which may change the batch statistics. A
    leaf may differ in shape, but not in size. Statistics that do not fit are
    left out of all resets, with one warning: the model_state that a workload's
    init_model_fn returns need not match that of its model_fn. Parameters have
    to fit.

    Args:
      params, model_state: those that are trained, laid out on the devices.

    Raises:
      ValueError: if the parameters do not fit; names the leaf.
    """
    self._live = jax.tree_util.tree_map(
      self._devices.shape_of, (params, model_state)
    )
    for model in self._ready.values():
      self._check(model)

  def _check(self, model: tuple[Any, Any]) -> None:
    if self._live is None:
      return
    params, model_state = self._live
    differs = _difference(model[0], params)
    if differs:
      raise ValueError(
        "init_model_fn's parameters do not match those that are trained: "
        f'{differs}.'
      )
    if not self._has_statistics or not jax.tree_util.tree_leaves(model[1]):
      return
    differs = _difference(model[1], model_state)
    if differs:
      self._has_statistics = False
      logging.warning(
        "init_model_fn's batch statistics do not match those that are "
        'trained: %s. Resets leave the statistics as they are.',
        differs,
      )

  def _make(self, index: int) -> tuple[Any, Any]:
    return fresh_model(self._workload, self._key(index), self._devices)

  def _key(self, index: int) -> jax.Array:
    if index < self._planned:
      return jax.random.split(self._rng, self._planned)[index]
    # Twice, since a single fold_in equals a split in some versions of jax.
    later = jax.random.fold_in(self._rng, _LATER)
    return jax.random.fold_in(later, index)


def _difference(fresh: Any, live: Any) -> str:
  """A description of the first leaf that differs in size; '' if none does."""
  ours, theirs = _leaves(fresh), _leaves(live)
  for (_, shape), (name, live_shape) in zip(ours, theirs):
    if math.prod(shape) != math.prod(live_shape):
      return f'{name} has shape {live_shape}, but {shape} in a fresh model'
  if len(ours) != len(theirs):
    name, _ = (ours[len(theirs) :] or theirs[len(ours) :])[0]
    owner = (
      'only a fresh model' if len(ours) > len(theirs) else 'no fresh model'
    )
    return f'{owner} has {name}'
  return ''


def _leaves(tree: Any) -> list[tuple[str, tuple[int, ...]]]:
  """(name, shape) of each leaf."""
  return [
    (jax.tree_util.keystr(path), tuple(leaf.shape))
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
  ]
