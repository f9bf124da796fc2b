"""An average of the weights, as a wrapper around an optimizer.

The runner's parameters are the average: evaluations see it, and so do tau and
the switching rules. The raw weights, which are trained, lie in the optimizer's
state. A reset blends both with the fresh model, and takes the same share of the
average's weight away: steps of the replaced model do not slow down the new one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..core.checks import Checked, Floor, check
from .roles import ITERATE, OPT_STATE, role_in
from .step import Optimizer, Step

_RIGHT = 'an optimizer whose trained weights are evaluated, such as AdamW()'


class EMAState(NamedTuple):
  """The inner optimizer's state, and what it trains."""

  inner: Any
  weight_sum: jax.Array  # shape=(), dtype=float32; of the steps in the average
  raw: Any  # the parameters that are trained


@dataclasses.dataclass(frozen=True)
class EMA(Checked):
  """The exponential moving average of the weights is evaluated.

    w <- decay w + 1            average <- average + (raw - average) / w

  It is the mean of the weights of all steps, each by decay^age: no bias towards
  the first ones remains.

  Attributes:
    inner: an optimizer that evaluates the weights it trains.
    decay: factor on the weight of a step with each later one; 1 / (1 - decay)
      steps count.

  Source: Polyak and Juditsky 1992, "Acceleration of stochastic approximation by
  averaging", in the exponential form.
  """

  inner: Annotated[Optimizer, _RIGHT]
  decay: Floor = 0.999

  iterates: ClassVar[tuple[str, ...]] = ('raw', 'weight_sum')

  def __post_init__(self) -> None:
    super().__post_init__()
    check(not self.inner.iterates, 'inner', self.inner, _RIGHT)

  @property
  def moments(self) -> tuple[str, ...]:
    """Those of the inner optimizer."""
    return self.inner.moments

  def gradient_point(self, state: Any, params: Any) -> Any:
    """The raw weights."""
    return self.inner.gradient_point(state.inner, state.raw)

  def roles(self, params: Any) -> Callable[[Any], int]:
    """What a reset does to the leaf at a path of the state."""
    inner = role_in(self.inner, params)

    def role_of(path: Any) -> int:
      if getattr(path[0], 'name', '') != 'inner':
        return ITERATE
      return inner((OPT_STATE, *path[1:]))

    return role_of

  def build(self, step: Step) -> optax.GradientTransformation:
    inner = self.inner.build(step)

    def init(params: Any) -> EMAState:
      weight_sum = jnp.zeros([], jnp.float32)
      # In new buffers: one must not be donated twice.
      raw = jax.tree_util.tree_map(lambda p: jnp.array(p, copy=True), params)
      return EMAState(inner.init(params), weight_sum, raw)

    def update(
      grads: Any, state: EMAState, params: Any
    ) -> tuple[Any, EMAState]:
      steps, after = inner.update(grads, state.inner, state.raw)
      raw = optax.apply_updates(state.raw, steps)
      weight_sum = self.decay * state.weight_sum + 1.0
      updates = jax.tree_util.tree_map(
        lambda new, average: (new - average) / weight_sum, raw, params
      )
      return updates, EMAState(after, weight_sum, raw)

    return optax.GradientTransformation(init, update)
