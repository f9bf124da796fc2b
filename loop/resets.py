"""A reset of arrays in their present layout, leaf by leaf, compiled once.

A new value has the sharding of the old one and is committed to devices only if
that was: so the compiled step of the user's loop need not be recompiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..optimizers.inner import Inner
from ..soft_reset import Reset, blend, shrink


def placed_like(new: Any, old: Any) -> jax.Array:
  """A value as an array with the sharding of another one."""
  if _is_committed(old):
    return jax.device_put(new, old.sharding)
  return jnp.asarray(new)


def _is_committed(leaf: Any) -> bool:
  # Public from jax 0.5 on.
  return getattr(leaf, 'committed', getattr(leaf, '_committed', False))


@functools.cache
def _program(fn: Callable, sharding: Any) -> Callable:
  """fn compiled; its first argument, a leaf, is donated."""
  layout = {} if sharding is None else {'out_shardings': sharding}
  return jax.jit(fn, donate_argnums=0, **layout)


def _run(fn: Callable, leaf: jax.Array, *more: Any) -> jax.Array:
  sharding = leaf.sharding if _is_committed(leaf) else None
  return _program(fn, sharding)(leaf, *more)


@jax.jit
def _all_finite(tree: Any) -> jax.Array:
  leaves = jax.tree_util.tree_leaves(tree)
  return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def is_finite(
  params: Any, statistics: Any, inner_state: Any, inner: Inner
) -> bool:
  """Whether parameters, statistics, moments and iterates are all finite."""
  slots = inner.slots(inner_state)
  return bool(_all_finite((params, statistics, slots.moments, slots.iterates)))


def prepare(
  params: Any, statistics: Any, inner_state: Any, inner: Inner
) -> None:
  """Compiles what a reset of such arrays needs; holds one leaf at a time."""
  is_finite(params, statistics, inner_state, inner)
  slots = inner.slots(inner_state)
  blended = _leaves((params, statistics, slots.iterates))
  shrunk = _leaves((slots.moments, slots.weights))
  jobs: list[tuple[Callable, Any]] = [(blend, leaf) for leaf in blended]
  jobs += [(shrink, leaf) for leaf in shrunk]
  kinds: set[Any] = set()
  for fn, leaf in jobs:
    kind = (fn, leaf.shape, leaf.dtype, leaf.sharding, _is_committed(leaf))
    if kind in kinds:
      continue
    kinds.add(kind)
    zeros = [
      placed_like(np.zeros(leaf.shape, leaf.dtype), leaf)
      for _ in range(2 if fn is blend else 1)
    ]
    _run(fn, *zeros, np.float32(0))


def reset(
  params: Any,
  statistics: Any,
  inner_state: Any,
  fresh: tuple[Any, Any],
  plan: Reset,
  inner: Inner,
) -> tuple[Any, Any, Any]:
  """Carries out a reset; the arrays that change are donated.

  Args:
    params, statistics: trees of arrays.
    inner_state: the inner optimizer's state.
    fresh: (params, statistics) of a new initialisation.
    plan: the reset; see `soft_reset.plan_reset`.
    inner: the inner optimizer.

  Returns:
    Parameters, statistics and the inner optimizer's state after the reset.

  Raises:
    ValueError: if the shapes of the fresh trees differ.
  """
  share, keep = np.float32(plan.tau), np.float32(plan.keep_moments)
  slots = inner.slots(inner_state)
  changed = slots._replace(
    moments=jax.tree_util.tree_map(
      lambda leaf: _run(shrink, leaf, keep), slots.moments
    ),
    iterates=tuple(_blended(t, fresh[0], share) for t in slots.iterates),
    weights=tuple(
      _run(shrink, x, np.float32(1 - plan.tau)) for x in slots.weights
    ),
  )
  if not plan.keep_count:
    counts = [placed_like(np.zeros_like(x), x) for x in slots.counts]
    changed = changed._replace(counts=tuple(counts))
  return (
    _blended(params, fresh[0], share),
    _blended(statistics, fresh[1], share),
    inner.with_slots(inner_state, changed),
  )


def _blended(tree: Any, fresh: Any, share: np.float32) -> Any:
  old, new = (list(map(np.shape, _leaves(t))) for t in (tree, fresh))
  if old != new:
    raise ValueError(
      f'make_params returned arrays of shapes {new}; they must have those of '
      f'the trained arrays, {old}.'
    )
  fresh_leaves = iter(_leaves(fresh))

  def blended(leaf: jax.Array) -> jax.Array:
    new = jnp.asarray(next(fresh_leaves), leaf.dtype)
    return _run(blend, leaf, placed_like(new, leaf), share)

  return jax.tree_util.tree_map(blended, tree)


def _leaves(tree: Any) -> list[Any]:
  return jax.tree_util.tree_leaves(tree)
