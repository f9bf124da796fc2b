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

from .average import Averaged
from .roles import RoleOf
from .step import Optimizer, Step, averaged


@dataclasses.dataclass(frozen=True)
class AtGradient(Optimizer):
  """`Averaged`, with y as the parameters, and the same state.

  Both give the same x, but for rounding: x = (y - (1 - b1) z) / b1. The error
  of rounding in y is divided by b1. Where b1 is 0, as in `EMA`, y is z and does
  not tell x: then the state has x in the place of z.

  At a rate of 0 the parameters do not move.
  """

  average: Averaged

  @property
  def b1(self) -> float:
    """The share of x in y."""
    return 1.0 - self.average.one_minus_beta1

  def build(self, step: Step, b1: Any = None) -> optax.GradientTransformation:
    """See `Optimizer.build`.

    Args:
      step: see there.
      b1: the share of x in the y of a restored state; None: `self.b1`.
    """
    average = self.average.build(step)
    share = self.b1 if b1 is None else b1

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      x = self.evaluated(state, params, share)
      before = state if self.b1 else state._replace(z=params)
      drift, after = average.update(grads, before, x)
      x = tree_map(jnp.add, x, drift)
      y = averaged(x, after.z, share) if self.b1 else after.z
      change = lambda new, old: jnp.where(step.moves, new - old, 0)
      after = after if self.b1 else after._replace(z=x)
      return tree_map(change, y, params), after

    # At the start x, y and z are the same.
    return optax.GradientTransformation(average.init, update)

  def evaluated(self, state: Any, params: Any, b1: Any = None) -> Any:
    if not self.b1:
      return state.z
    share = self.b1 if b1 is None else b1
    return tree_map(lambda y, z: average_at(share, y, z), params, state.z)

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
