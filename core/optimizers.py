"""The optimizers that step inside cycles, driven by the cycle clock.

A cycle sets the learning rate of an optimizer, a reset changes its state.
Neither knows an optimizer by name: what they need is `cycle.Optimizer`. The
numbers of a step come from the clock, and the transformation is built from them
while the step is traced, as in `optax.inject_hyperparams`. Numbers on which all
cycles agree are constants of the compiled step; others are traced, so that
cycles that differ only in numbers share one step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from . import schedules
from .checks import check_number
from .cycle import Hparams, Number, Optimizer, StepNumbers
from .schedules import CycleClock, PlannedCycle


@dataclasses.dataclass(frozen=True)
class AdamW:
  """Adam with decoupled weight decay and, optionally, clipped gradients.

  Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
  """

  evaluates_own: ClassVar[bool] = False

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """See `Optimizer`."""
    adam = optax.scale_by_adam(
      b1=1.0 - numbers.one_minus_beta1, b2=numbers.beta2, eps=numbers.eps
    )
    return optax.chain(
      clipped(numbers.grad_clip),
      adam,
      decayed_and_scaled(numbers.rate, numbers.weight_decay),
    )

  def eval_params(self, state: Any, params: Any, hparams: Hparams) -> Any:
    """The trained parameters as they are."""
    del state, hparams
    return params


class ScheduleFreeState(NamedTuple):
  """What is kept besides y, the parameters that are trained."""

  count: Any  # shape=(), dtype=int32
  largest_rate: jax.Array  # shape=(), dtype=float32
  weight_sum: jax.Array  # shape=(), dtype=float32; of w over the steps in x
  z: Any  # the iterate that takes the steps
  nu: Any  # the average of the squared gradients


@dataclasses.dataclass(frozen=True)
class ScheduleFreeAdamW:
  """Schedule-Free AdamW. y is trained; x, an average of z, is evaluated.

    v <- b2 v + (1 - b2) g^2     d = g / (sqrt(v / (1 - b2^t)) + eps) + decay y
    y <- y + c (z - y) - rate (1 - b1 (1 - c)) d         z <- z - rate d

  with c = w / (sum of all w) and w = t^r * (largest rate)^weight_lr_power. x is
  not stored: x = (y - (1 - b1) z) / b1, so b1 must be above 0 and the same in
  all cycles of a chain. y moves in place, as in the authors' code. It is meant
  for a constant rate after a warm-up, but works with any schedule.

  A reset blends z like the parameters y, and therefore x, too. The weight of
  the average is multiplied by 1 - tau, the share of x that is kept, so that the
  steps of the replaced model do not slow down the new average.

  Attributes:
    r: power of the step in the weights; 0 weighs all steps alike.
    weight_lr_power: power of the largest rate in the weights.

  Source: Defazio et al. 2024, "The road less scheduled", algorithm 1; r and the
  form in place as in the authors' code.
  """

  r: float = 0.0
  weight_lr_power: float = 2.0

  evaluates_own: ClassVar[bool] = True

  def __post_init__(self) -> None:
    check_number('r', self.r, '[0, inf)')
    check_number('weight_lr_power', self.weight_lr_power, '[0, inf)')

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """See `Optimizer`."""
    b1, b2, rate = 1.0 - numbers.one_minus_beta1, numbers.beta2, numbers.rate
    clip = clipped(numbers.grad_clip)

    def init(params: Any) -> ScheduleFreeState:
      # Copied: one buffer must not be donated twice.
      z = jax.tree_util.tree_map(lambda p: jnp.array(p, copy=True), params)
      nu = jax.tree_util.tree_map(jnp.zeros_like, params)
      return ScheduleFreeState(
        count=jnp.zeros([], jnp.int32),
        largest_rate=jnp.zeros([], jnp.float32),
        weight_sum=jnp.zeros([], jnp.float32),
        z=z,
        nu=nu,
      )

    def update(
      grads: Any, state: ScheduleFreeState, params: Any
    ) -> tuple[Any, ScheduleFreeState]:
      grads, _ = clip.update(grads, clip.init(params), params)
      count = state.count + 1
      nu = averaged(state.nu, jax.tree_util.tree_map(jnp.square, grads), b2)
      largest_rate = jnp.maximum(state.largest_rate, rate)
      weight = count.astype(jnp.float32) ** self.r
      weight = weight * largest_rate**self.weight_lr_power
      total = state.weight_sum + weight
      # c is 0 until a rate is above 0.
      c = jnp.where(total > 0, weight / jnp.where(total > 0, total, 1.0), 0.0)

      def direction(y: jax.Array, g: jax.Array, v: jax.Array) -> jax.Array:
        scale = jnp.sqrt(v / (1 - b2**count)) + numbers.eps
        return g / scale + numbers.weight_decay * y

      d = jax.tree_util.tree_map(direction, params, grads, nu)
      updates = jax.tree_util.tree_map(
        lambda y, z, d: c * (z - y) - rate * (1 - b1 * (1 - c)) * d,
        params,
        state.z,
        d,
      )
      z = jax.tree_util.tree_map(lambda z, d: z - rate * d, state.z, d)
      return updates, ScheduleFreeState(count, largest_rate, total, z, nu)

    return optax.GradientTransformation(init, update)

  def eval_params(
    self, state: ScheduleFreeState, params: Any, hparams: Hparams
  ) -> Any:
    """x = (y - (1 - b1) z) / b1."""
    b1 = 1.0 - hparams.one_minus_beta1
    return jax.tree_util.tree_map(
      lambda y, z: ((y - (1 - b1) * z) / b1).astype(y.dtype), params, state.z
    )


def averaged(average: Any, new: Any, keep: Number) -> Any:
  """keep * average + (1 - keep) * new, leaf by leaf."""
  return jax.tree_util.tree_map(
    lambda a, x: keep * a + (1 - keep) * x, average, new
  )


def clipped(limit: float | None) -> optax.GradientTransformation:
  """Clips to this global norm of the gradient; None: no clipping."""
  if limit is None:
    return optax.identity()
  return optax.clip_by_global_norm(limit)


def global_norm(tree: Any) -> jax.Array:
  """The Euclidean norm of all elements, in float32.

  optax.global_norm warns from optax 0.2.8 on; optax 0.1 has no optax.tree.norm.
  """
  leaves = jax.tree_util.tree_leaves(tree)
  squares = [jnp.sum(jnp.square(x.astype(jnp.float32))) for x in leaves]
  return jnp.sqrt(sum(squares))


def decayed_and_scaled(
  rate: Number, weight_decay: Number
) -> optax.GradientTransformation:
  """-rate * (update + weight_decay * params), in each leaf's own dtype.

  Replaces `optax.add_decayed_weights` and `optax.scale_by_learning_rate`, which
  would turn a bfloat16 leaf into float32 when the numbers are traced.
  """

  def update(updates: Any, params: Any) -> Any:
    return jax.tree_util.tree_map(
      lambda u, p: _as(-rate, u) * (u + _as(weight_decay, u) * p),
      updates,
      params,
    )

  return optax.stateless(update)


def _as(value: Number, leaf: jax.Array) -> Number:
  return value.astype(leaf.dtype) if isinstance(value, jax.Array) else value


def numbers_at(
  clock: CycleClock, cycles: Sequence[PlannedCycle]
) -> StepNumbers:
  """The numbers of the step that the clock counts."""

  def of_cycles(name: str) -> Number:
    values = [getattr(cycle.setting.hparams, name) for cycle in cycles]
    return schedules.number(values, clock.cycle)

  return StepNumbers(
    rate=schedules.learning_rate(clock, cycles),
    weight_decay=schedules.weight_decay(clock, cycles),
    one_minus_beta1=of_cycles('one_minus_beta1'),
    beta2=of_cycles('beta2'),
    eps=of_cycles('eps'),
    grad_clip=cycles[0].setting.hparams.grad_clip,
  )


class OptState(NamedTuple):
  """State of `clocked`; its clock is replaced when a cycle ends."""

  clock: CycleClock
  state: Any  # of the optimizer's transformation


def clocked(
  optimizer: Optimizer, cycles: Sequence[PlannedCycle]
) -> optax.GradientTransformation:
  """The optimizer, with the numbers of the clock's cycle at every step.

  Returns:
    An optax transformation whose state is an OptState.
  """

  def init(params: Any) -> OptState:
    steps = cycles[0].steps
    clock = schedules.anchored_clock(0, 0, 0.0, steps, steps)
    own = optimizer.build(numbers_at(clock, cycles))
    return OptState(clock, own.init(params))

  def update(
    grads: Any, state: OptState, params: Any = None
  ) -> tuple[Any, OptState]:
    clock, before = state
    own = optimizer.build(numbers_at(clock, cycles))
    updates, after = own.update(grads, before, params)
    clock = clock._replace(count=clock.count + 1)
    # Traced numbers are float32 and would turn a bfloat16 leaf into float32.
    updates, after = _in_types_of((grads, before), (updates, after))
    return updates, OptState(clock, after)

  return optax.GradientTransformation(init, update)


def _in_types_of(before: Any, after: Any) -> Any:
  return jax.tree_util.tree_map(
    lambda old, new: new.astype(jnp.result_type(old)), before, after
  )
