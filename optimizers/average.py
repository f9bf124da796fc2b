"""An average of the iterates, around any optimizer.

The runner's parameters are the average x. Evaluations see x, and so do tau and
the switching rules. The iterate z takes the steps and lies in the optimizer's
state.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_map
from jax.typing import ArrayLike

from ..core.checks import (
  Checked,
  Level,
  NonNegative,
  Share,
  check,
  check_number,
)
from .roles import RoleOf
from .step import Optimizer, RunStart, Step, averaged, held

_RIGHT = 'an optimizer whose trained weights are evaluated, such as AdamW()'


class AveragedState(NamedTuple):
  """What is kept besides x, the parameters that are evaluated."""

  inner: Any  # of the optimizer that is averaged
  count: Any  # shape=(), dtype=int32; t, the steps in x
  weight_sum: Any  # shape=(), dtype=float32; W
  z: Any  # the iterate that takes the steps


class _Weight(NamedTuple):
  """The weight of a step in the average."""

  count: Any  # shape=(), dtype=int32; steps that have moved, with this one
  total: jax.Array  # shape=(), dtype=float32; of all weights so far
  share: jax.Array  # shape=(), dtype=float32; of this step's in them


@dataclasses.dataclass(frozen=True)
class Averaged(Checked, Optimizer):
  """An average of what an optimizer trains is evaluated.

    y = b1 x + (1 - b1) z           at which the gradient is taken
    z <- z + the inner optimizer's step, and its weight decay, at y
    W <- keep W + w                 w = t^r * rate^weight_lr_power
    x <- x + w / W (z - x)

  t counts the steps at a rate above 0. At a rate of 0 neither x nor z nor W
  moves. A reset blends z and W like x, so that the steps of the replaced model
  do not slow down the new average.

  With keep = 1 this is Schedule-Free's average. The published form has the
  largest rate so far in w: there x moves to z even where the rate is near 0.
  With b1 = 0 and equal weights this is `EMA`.

  Source: Defazio et al. 2024, "The road less scheduled", algorithm 1; r as in
  the authors' code; the weights are ours.
  """

  inner: Annotated[Optimizer, _RIGHT]  # what takes the steps
  one_minus_beta1: Share = 0.1  # share of z where the gradient is taken
  r: NonNegative = 0.0  # power of the step in the weights; 0: all weigh alike
  weight_lr_power: NonNegative = 2.0  # power of the rate in the weights
  keep: Level = 1.0  # factor on the weight of a step with each later one

  iterates: ClassVar[tuple[str, ...]] = ('z', 'weight_sum')

  def __post_init__(self) -> None:
    super().__post_init__()
    check(not self.inner.iterates, 'inner', self.inner, _RIGHT)

  @property
  def weight_decay(self) -> float:
    """The weight decay of the inner optimizer; 0 without a weight decay."""
    decay: float = getattr(self.inner, 'weight_decay', 0.0)
    return decay

  def gradient_point(self, state: Any, params: Any) -> Any:
    return self.inner.gradient_point(state.inner, self.between(state, params))

  def between(self, state: AveragedState, params: Any) -> Any:
    """y, which the inner optimizer takes for its parameters."""
    if self.one_minus_beta1 == 1.0:
      return state.z
    return averaged(params, state.z, 1.0 - self.one_minus_beta1)

  def needs_forms(self) -> bool:
    return self.inner.needs_forms()

  def size(self, start: RunStart) -> float:
    return self.inner.size(start)

  def follows_epochs(self) -> bool:
    return self.inner.follows_epochs()

  def epochs_factor(self, epochs: ArrayLike, share: ArrayLike) -> jax.Array:
    return self.inner.epochs_factor(epochs, share)

  def roles(self, params: Any) -> RoleOf:
    by_field, inner = super().roles(params), self.inner.roles(params)

    def role_of(path: Any) -> int:
      is_inner = getattr(path[0], 'name', '') == 'inner'
      return inner(path[1:]) if is_inner else by_field(path)

    return role_of

  def build(self, step: Step) -> optax.GradientTransformation:
    inner = self.inner.build(step)

    def init(params: Any) -> AveragedState:
      # Copied: one buffer must not be donated twice.
      z = tree_map(lambda p: jnp.array(p, copy=True), params)
      first = inner.init(params)
      return AveragedState(first, jnp.int32(0), jnp.float32(0), z)

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      moves = step.moves
      count, total, share = self._weighed(state, step)
      y = self.between(state, params)
      steps, after = inner.update(grads, state.inner, y)
      z = held(moves, tree_map(jnp.add, state.z, steps), state.z)
      drift = lambda x, z: jnp.where(moves, share * (z - x), 0)
      updates = tree_map(drift, params, z)
      return updates, AveragedState(after, count, total, z)

    return optax.GradientTransformation(init, update)

  def _weighed(self, state: AveragedState, step: Step) -> _Weight:
    """The weight of a step, after those of a state."""
    rate, moves = step.rate, step.moves
    count = state.count + moves
    weight = count.astype(jnp.float32) ** self.r * rate**self.weight_lr_power
    total = jnp.where(
      moves, self.keep * state.weight_sum + weight, state.weight_sum
    )
    # The share is 0 until a rate is above 0.
    share = jnp.where(moves, weight / jnp.where(total > 0, total, 1.0), 0.0)
    return _Weight(count, total, share)


def EMA(inner: Any, decay: float = 0.999) -> Averaged:
  """The exponential moving average of the weights is evaluated.

  The average is the mean of the weights after all steps at a rate above 0, each
  weighed by decay^age. No bias towards the first weights remains.

  Args:
    inner: an optimizer that evaluates the weights it trains.
    decay: factor on the weight of a step with each later one; 1 / (1 - decay)
      steps count.

  Raises:
    ValueError: if the decay is not in [0, 1), or `Averaged` refuses the inner
      optimizer.

  Source: Polyak and Juditsky 1992, "Acceleration of stochastic approximation by
  averaging", in the exponential form.
  """
  check_number('decay', decay, '[0, 1)')
  return Averaged(
    inner, one_minus_beta1=1.0, r=0.0, weight_lr_power=0.0, keep=decay
  )
