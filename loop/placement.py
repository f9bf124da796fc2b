"""Where the arrays of a loop lie, and the reset that is compiled for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding
from jax.tree_util import tree_leaves, tree_map, tree_structure

from ..engine.model_reset import Model, ModelReset
from ..optimizers.clocked import ClockedState
from ..optimizers.roles import RoleOf
from .devices import LoopDevices
from .states import State


class Placement(NamedTuple):
  """The layout of states whose parameters have one structure and layout."""

  structure: Any  # of the parameters
  shardings: list[Sharding]  # of their leaves
  inner: Any  # structure of the optimizer's own state
  model_reset: ModelReset

  def is_of(self, params: Any) -> bool:
    """Whether parameters have this structure and layout."""
    return tree_structure(params) == self.structure and all(
      leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
      for leaf, sharding in zip(tree_leaves(params), self.shardings)
    )


def placed(
  state: State,
  known: Placement | None,
  begin: Callable[[Any], Any],
  role_of: RoleOf,
) -> tuple[Placement, Model]:
  """The model in a state, in the containers that a compiled step returns.

  In a restored state, the optimizer's state gets back its containers and its
  place. The reset is compiled anew only if the layout is new.

  Args:
    state: its parameters are where they are to be.
    known: the placement of the state before.
    begin, role_of: see `Training`.
  """
  params = tree_map(jnp.asarray, state.params)
  inner = tree_leaves(state.opt_state.inner)
  if known is not None and known.is_of(params):
    model = Model(params, state.batch_stats, known.inner.unflatten(inner))
    return known, known.model_reset.devices.place(model)
  structure: Any = tree_structure(params)
  shardings = [leaf.sharding for leaf in tree_leaves(params)]
  # A checkpoint may have lists where the optimizer makes tuples.
  inner_structure: Any = tree_structure(jax.eval_shape(begin, params))
  # Copies, since an array that is there twice could not be donated.
  params = tree_map(jnp.copy, params)
  devices = LoopDevices(params, state.opt_state.inner)
  model = Model(params, state.batch_stats, inner_structure.unflatten(inner))
  model = devices.place(model)
  reset = ModelReset(devices, role_of, begin, model)
  return Placement(structure, shardings, inner_structure, reset), model


def first_state(
  params: Any, begin: Callable[[Any], Any], words: Sequence[np.ndarray]
) -> ClockedState:
  """The state of an optimizer at a start, laid out like the parameters.

  Args:
    params: arrays, traced or not.
    begin: see `Training`.
    words: clock and control.
  """
  clock, control = map(jnp.asarray, words)

  def init(params: Any) -> ClockedState:
    return ClockedState(begin(params), clock, control)

  leaves = tree_leaves(params)
  # optax.tree_map_params comes with a tree without leaves.
  if not leaves or any(isinstance(x, jax.core.Tracer) for x in leaves):
    return init(params)
  params = tree_map(jnp.asarray, params)
  state: ClockedState = LoopDevices(params).init(init, params)
  return state
