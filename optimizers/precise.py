"""Parameters of less than float32, trained in float32.

In bfloat16, which has 8 significant bits, a step of less than .002 of a weight
rounds to nothing, and so do the small steps of an average.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_leaves, tree_map

from .roles import ITERATE, RoleOf
from .step import Optimizer, Step

_FINFO: Any = jnp.finfo  # which has no types in some versions


class PreciseState(NamedTuple):
  """State of `InFloat32` where a parameter is of less than float32."""

  inner: Any  # of the optimizer, which is told float32
  copies: Any  # in float32, of the parameters of less


class InFloat32(Optimizer):
  """An optimizer that sees all parameters and gradients in float32 at least.

  For parameters of less (bfloat16), the state has a copy in float32. The copy
  takes the steps, and the update brings the parameters to the copy, rounded.
  Whatever the optimizer keeps is in float32 as well. A parameter that is not
  its copy, rounded, has been moved by something else than the update, as by a
  loop's own weight decay: it is copied anew.

  With parameters in float32 alone, it is the optimizer itself.

  Memory for each parameter in bfloat16, besides its own 2 bytes: 4 for the
  copy, and 4 in the place of 2 for each moment and iterate. Schedule-Free AdamW
  takes 12 in the place of 4, as many as a float32 parameter with its state.

  Source: Micikevicius et al. 2018, "Mixed precision training", section 3.1.
  """

  def __init__(self, inner: Optimizer) -> None:
    self.inner = inner

  def build(self, step: Step) -> optax.GradientTransformation:
    inner = self.inner.build(step)

    def init(params: Any) -> Any:
      if not is_any_coarse(params):
        return inner.init(params)
      wide = widened(params)
      return PreciseState(inner.init(wide), coarse_of(params, wide))

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      if not is_any_coarse(params):
        return inner.update(grads, state, params)
      base = in_float32(state.copies, params)
      steps, after = inner.update(widened(grads), state.inner, base)
      new = optax.apply_updates(base, steps)
      changes = tree_map(change, params, new, steps)
      return changes, PreciseState(after, coarse_of(params, new))

    return optax.GradientTransformation(init, update)

  def gradient_point(self, state: Any, params: Any) -> Any:
    if not is_any_coarse(params):
      return self.inner.gradient_point(state, params)
    base = in_float32(state.copies, params)
    point = self.inner.gradient_point(state.inner, base)
    return tree_map(lambda y, p: y.astype(p.dtype), point, params)

  def evaluated(self, state: Any, params: Any) -> Any:
    if not is_any_coarse(params):
      return self.inner.evaluated(state, params)
    base = in_float32(state.copies, params)
    x = self.inner.evaluated(state.inner, base)
    return tree_map(lambda x, p: x.astype(p.dtype), x, params)

  def needs_forms(self) -> bool:
    return self.inner.needs_forms()

  def roles(self, params: Any) -> RoleOf:
    inner = self.inner.roles(jax.eval_shape(widened, params))
    if not is_any_coarse(params):
      return inner

    def role_of(path: Any) -> int:
      is_copy = getattr(path[0], 'name', '') == 'copies'
      return ITERATE if is_copy else inner(path[1:])

    return role_of


def synced(state: Any, params: Any) -> Any:
  """The state, its copies those of the parameters at hand; see `InFloat32`."""
  if not isinstance(state, PreciseState):
    return state
  anew = lambda p, copy: copy if is_masked(copy) else _in_float32(p, copy)
  return state._replace(copies=tree_map(anew, params, state.copies))


def rounded(state: Any, params: Any) -> Any:
  """The parameters as the copies in the state are, rounded."""
  if not isinstance(state, PreciseState):
    return params
  choose = lambda p, copy: p if is_masked(copy) else copy.astype(p.dtype)
  return tree_map(choose, params, state.copies)


def change(param: jax.Array, new: jax.Array, step: jax.Array) -> jax.Array:
  """From a parameter to its new value, rounded; the step where none is."""
  if not is_coarse(param):
    return step
  return _nearest(new, param.dtype) - jnp.float32(param)


def is_coarse(leaf: Any) -> bool:
  """Whether it has real numbers of less than float32."""
  is_real = jnp.issubdtype(leaf.dtype, jnp.floating)
  return bool(is_real) and leaf.dtype.itemsize < 4


def is_any_coarse(params: Any) -> bool:
  return any(map(is_coarse, tree_leaves(params)))


def widened(tree: Any) -> Any:
  return tree_map(lambda x: jnp.float32(x) if is_coarse(x) else x, tree)


def coarse_of(params: Any, tree: Any) -> Any:
  """The leaves of a tree where the parameters are of less than float32."""
  choose = lambda p, x: x if is_coarse(p) else optax.MaskedNode()
  return tree_map(choose, params, tree)


def in_float32(copies: Any, params: Any) -> Any:
  """The parameters, and in the place of those with a copy, the copies.

  A parameter that is not its copy, rounded, has been moved: it stays.
  """
  choose = lambda p, copy: p if is_masked(copy) else _in_float32(p, copy)
  return tree_map(choose, params, copies)


def _in_float32(param: jax.Array, copy: jax.Array) -> jax.Array:
  wide = jnp.float32(param)
  return jnp.where(_nearest(copy, param.dtype) == wide, copy, wide)


def _nearest(x: jax.Array, dtype: Any) -> jax.Array:
  """A float32 rounded to a coarser type, still in float32.

  A conversion to the type and back would not do: XLA leaves such pairs out.
  """
  limits = _FINFO(dtype)
  return jax.lax.reduce_precision(x, limits.nexp, limits.nmant)


def is_masked(node: Any) -> bool:
  """Whether it stands for nothing: no copy, as of what is frozen."""
  return isinstance(node, optax.MaskedNode)
