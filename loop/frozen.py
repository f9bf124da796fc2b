"""The chain's own optimizer, kept off the parameters that are frozen."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from ..optimizers.roles import RoleOf
from ..optimizers.step import Optimizer, Step


@dataclasses.dataclass(frozen=True)
class Unfrozen(Optimizer):
  """An optimizer of the parameters that are not frozen.

  A frozen parameter gets no step, no weight decay and no average, and the state
  has nothing for it. The optimizer sees the rest, as inside `optax.masked`.
  """

  inner: Optimizer
  frozen: tuple[bool, ...]  # of each parameter, in order, whether it is

  def build(self, step: Step) -> optax.GradientTransformation:
    if step.forms is not None:
      pairs = zip(step.forms, self.frozen)
      rest = tuple(form for form, is_frozen in pairs if not is_frozen)
      step = step._replace(forms=rest)
    inner = self.inner.build(step)

    def init(params: Any) -> Any:
      return inner.init(self._rest(params))

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      rest, state = inner.update(self._rest(grads), state, self._rest(params))
      return self._with_rest(tree_map(jnp.zeros_like, grads), rest), state

    return optax.GradientTransformation(init, update)

  def gradient_point(self, state: Any, params: Any) -> Any:
    point = self.inner.gradient_point(state, self._rest(params))
    return self._with_rest(params, point)

  def evaluated(self, state: Any, params: Any) -> Any:
    rest = self.inner.evaluated(state, self._rest(params))
    return self._with_rest(params, rest)

  def needs_forms(self) -> bool:
    return self.inner.needs_forms()

  def roles(self, params: Any) -> RoleOf:
    return self.inner.roles(self._rest(params))

  def _rest(self, tree: Any) -> Any:
    """A tree like the parameters, without what is frozen."""
    leaves, structure = tree_flatten(tree)
    pairs = zip(leaves, self.frozen)
    return tree_unflatten(
      structure,
      [optax.MaskedNode() if is_frozen else leaf for leaf, is_frozen in pairs],
    )

  def _with_rest(self, tree: Any, rest: Any) -> Any:
    """A tree like the parameters, with other leaves where nothing is frozen."""
    leaves, structure = tree_flatten(tree)
    others = iter(tree_leaves(rest))
    pairs = zip(leaves, self.frozen)
    return tree_unflatten(
      structure,
      [leaf if is_frozen else next(others) for leaf, is_frozen in pairs],
    )
