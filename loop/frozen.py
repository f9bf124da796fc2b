"""The parameters that are frozen, which the chain's own optimizer leaves."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import optax
from jax.tree_util import (
  keystr,
  tree_flatten,
  tree_flatten_with_path,
  tree_leaves,
  tree_map,
  tree_unflatten,
)

from ..core.checks import check
from ..engine.records import described
from ..optimizers.roles import RoleOf
from ..optimizers.step import Optimizer, RunStart, Step
from .settings import attempt

IsFrozen = Callable[[str], bool]  # of the path of a parameter, "['bias']"


def frozen_among(
  params: Any, frozen: IsFrozen | None
) -> tuple[bool, ...] | None:
  """Of each parameter, in order, whether it is frozen.

  Args:
    params: tree of jax.ShapeDtypeStruct.
    frozen: see `Cycles`.

  Returns:
    None where nobody says what is frozen.

  Raises:
    ValueError: for a function that cannot work, or that freezes all.
  """
  if frozen is None:
    return None
  paths = [path for path, _ in tree_flatten_with_path(params)[0]]

  def ask(is_one: Any) -> tuple[bool, ...]:
    return tuple(bool(is_one(keystr(path))) for path in paths)

  must_be = 'a function of the path of a parameter'
  answers: tuple[bool, ...] = attempt('frozen', frozen, must_be, ask)
  must_be = 'False for at least one parameter'
  check(not all(answers), 'frozen', described(frozen), must_be)
  return answers


def without(is_kept: Sequence[bool] | None, start: RunStart) -> RunStart:
  """What a run begins with, but for the parameters that are kept."""
  if is_kept is None:
    return start
  is_trained = [not is_frozen for is_frozen in is_kept]
  params = [*itertools.compress(tree_leaves(start.params), is_trained)]
  forms = start.forms
  if forms is not None:
    forms = tuple(itertools.compress(forms, is_trained))
  return start._replace(params=params, forms=forms)


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
      # The gradients of integers have a type without numbers.
      return self._with_rest(tree_map(jnp.zeros_like, params), rest), state

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
