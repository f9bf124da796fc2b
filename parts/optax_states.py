"""What a reset does to the state of any optimizer of optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ..soft_reset import (
  COUNT,
  ITERATE,
  KEPT,
  MOMENT,
  WEIGHT,
  Roles,
  depends_on_first,
)


def roles_of(
  init: Callable[[Any], Any], params: Any
) -> tuple[Roles, tuple[str, ...]]:
  """`soft_reset.roles_of` for the state of any optax optimizer.

  What mirrors a parameter may have one more index (SM3) or fewer dimensions
  (Adafactor), or lie in one half of lookahead's parameters. Scalars next to
  such trees are counts or the weight of an average. The rest is kept: the
  counts of schedules, injected hyperparameters.

  Args:
    init: the optimizer's.
    params: tree of anything with a shape and a dtype.

  Returns:
    The roles, and the paths of leaves that a blended model may leave without a
    meaning: what remembers several steps (L-BFGS) or the loss (line searches).
  """
  targets = list(enumerate(jax.tree_util.tree_flatten_with_path(params)[0]))
  if isinstance(
    params, optax.LookaheadParams
  ):  # only one of the two has a state
    targets += [(i, (path[1:], param)) for i, (path, param) in targets]
  targets.sort(key=lambda target: -len(target[1][0]))
  state = jax.eval_shape(init, params)
  found, treedef = jax.tree_util.tree_flatten_with_path(state)
  spots = [_spot(path, leaf, targets) for path, leaf in found]
  homes = {_home(spot[0]) for spot in spots if spot}
  roles, sources, doubtful = [], [], []
  for (path, leaf), spot, is_iterate in zip(
    found, spots, depends_on_first(init, params)
  ):
    is_real = jnp.issubdtype(leaf.dtype, jnp.inexact)
    if spot and is_real and len(leaf.shape) <= len(spot[2]):
      is_iterate &= leaf.shape == spot[2]
      roles.append(ITERATE if is_iterate else MOMENT)
      sources += [spot[1]] * is_iterate
    elif not spot and path[:-1] not in homes:
      roles.append(KEPT)
    else:
      name = getattr(path[-1], 'name', '')
      roles.append(WEIGHT if name == 'weight_sum' else COUNT)
      if (spot and is_real) or name == 'value':
        doubtful.append(jax.tree_util.keystr(path))
  return Roles(treedef, tuple(roles), tuple(sources)), tuple(doubtful)


def _home(path: Any) -> Any:
  """The path of the state that a tree is a field of, or one of a field's."""
  while path and isinstance(path[-1], jax.tree_util.SequenceKey):
    path = path[:-1]
  return path[:-1]


def _spot(path: Any, leaf: Any, targets: Any) -> tuple[Any, int, Any] | None:
  """(path of the tree that mirrors the parameters, index and shape there).

  Behind the parameter's path there may be one more index, as in SM3. If the
  parameters are a single array, which has no path, its shape decides.
  """
  for index, (target, param) in targets:
    if not target and leaf.shape == param.shape:
      return path, index, param.shape
    for end in (len(path), len(path) - 1) if target else ():
      start = end - len(target)
      if start > 0 and path[start:end] == target:
        return path[:start], index, param.shape
  return None
