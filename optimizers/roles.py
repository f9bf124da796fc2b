"""What a reset does to each leaf of a model: the leaf's role."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jax import tree_util

from .step import Optimizer

# What a reset does to a leaf.
ITERATE, STATISTIC, MOMENT, COUNT, KEPT = range(5)
RoleOf = Callable[[Any], int]  # of the path of a leaf in a Model
# Begins the paths of an optimizer's state.
OPT_STATE = tree_util.GetAttrKey('opt_state')


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


def role_in(optimizer: Optimizer, params: Any) -> RoleOf:
  """What a reset does to each leaf of a model that an optimizer trains.

  Args:
    optimizer: says by a method `roles` what its state is or, without one, by the
      names of fields.
    params: tree of jax.ShapeDtypeStruct, such as will be trained.

  Raises:
    ValueError: what `roles` raises.
  """
  by_field = functools.partial(role_by_field, optimizer)
  roles: Any = getattr(optimizer, 'roles', None)
  if roles is None:
    return by_field
  of_state: RoleOf = roles(params)

  def role_of(path: Any) -> int:
    return of_state(path[1:]) if path[0] == OPT_STATE else by_field(path)

  return role_of
