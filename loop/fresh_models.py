"""The fresh models with which the cycles of a loop start."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import keystr, tree_flatten_with_path

from ..core.checks import check
from .settings import attempt

_MUST_BE = (
  'a function of a key that jax can trace and that returns a tree of arrays, '
  'such as eqx.filter(model, eqx.is_inexact_array) or nnx.state(model, '
  'nnx.Param), and with has_batch_stats a pair of trees'
)


@dataclasses.dataclass(frozen=True)
class FreshModels:
  """Makes a model for each cycle; the same number gives the same model."""

  make_params: Callable[[jax.Array], Any]
  key: jax.Array
  has_batch_stats: bool

  def __call__(self, cycle: int) -> tuple[Any, Any]:
    """Parameters and batch statistics, or None, for a cycle by its number.

    Raises:
      TypeError: if a leaf is not an array of real numbers.
    """
    model = self.make_params(jax.random.fold_in(self.key, cycle))
    params, stats = model if self.has_batch_stats else (model, None)
    leaves = tree_flatten_with_path(params)[0]
    for path, leaf in leaves or [((), params)]:
      where = keystr(path) or 'the top'
      if not hasattr(leaf, 'dtype'):
        raise TypeError(f'it returned {type(leaf).__name__} at {where}')
      if jnp.iscomplexobj(leaf):
        raise TypeError(f'at {where} it is complex: train its two real parts')
    return params, stats


def fresh_models(
  make_params: Callable[[jax.Array], Any],
  key: jax.Array | None,
  has_batch_stats: bool,
) -> tuple[FreshModels, tuple[Any, Any]]:
  """The fresh models of a loop, and their shapes: of parameters and statistics.

  Args:
    make_params, key, has_batch_stats: see `Cycles`.

  Raises:
    ValueError: if the key is not a key, or make_params no function that can be
      traced.
  """
  key = jax.random.PRNGKey(0) if key is None else key
  fold = lambda key: jax.random.fold_in(key, 0)  # compiled for the resets
  attempt('key', key, 'a single key of jax.random', fold)
  kind = type(make_params).__name__
  must_be = 'a function of a key that makes the parameters, such as your init'
  check(callable(make_params), 'type of make_params', kind, must_be)
  fresh = FreshModels(make_params, key, has_batch_stats)
  shapes_of: Callable[[Any], Any] = lambda _: jax.eval_shape(lambda: fresh(0))
  return fresh, attempt('make_params', make_params, _MUST_BE, shapes_of)
