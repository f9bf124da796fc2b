"""An average whose loop keeps y, where the gradient is taken.

The benchmark evaluates the parameters that a submission hands back, and so
`Averaged` keeps x in them. A loop of one's own differentiates its parameters:
here they are y, as in `optax.contrib.schedule_free`. A loop that forgets this
trains right, and evaluates y in the place of x.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_map
from jax.typing import ArrayLike

from ..core.checks import check
from .average import Averaged
from .roles import RoleOf
from .step import Optimizer, Step


@dataclasses.dataclass(frozen=True)
class AtGradient(Optimizer):
  """`Averaged`, with y as the parameters, and the same state.

  Both give the same x, but for rounding: x = (y - (1 - b1) z) / b1. The error
  of rounding in y is divided by b1. At a rate of 0 the parameters do not move.
  """

  average: Averaged

  def __post_init__(self) -> None:
    must_be = 'below 1: at 1, y is z, and tells nothing of the average'
    share = self.average.one_minus_beta1
    check(share < 1.0, 'one_minus_beta1', share, must_be)

  def build(self, step: Step) -> optax.GradientTransformation:
    average = self.average.build(step)

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      x = self.evaluated(state, params)
      drift, after = average.update(grads, state, x)
      y = self.average.between(after, tree_map(jnp.add, x, drift))
      way = lambda new, old: jnp.where(step.moves, new - old, 0)
      return tree_map(way, y, params), after

    # At the start x, y and z are the same.
    return optax.GradientTransformation(average.init, update)

  def evaluated(self, state: Any, params: Any) -> Any:
    """x, the average, given y."""
    b1 = 1.0 - self.average.one_minus_beta1
    return tree_map(lambda y, z: average_at(b1, y, z), params, state.z)

  def gradient_point(self, state: Any, params: Any) -> Any:
    return self.average.inner.gradient_point(state.inner, params)

  def needs_forms(self) -> bool:
    return self.average.needs_forms()

  def roles(self, params: Any) -> RoleOf:
    # A blend of y and z with the same fresh values is that of x.
    return self.average.roles(params)


def average_at(b1: ArrayLike, y: jax.Array, z: jax.Array) -> jax.Array:
  """x, where y = b1 x + (1 - b1) z."""
  return (y - (1.0 - b1) * z) / b1
