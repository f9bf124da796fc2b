"""Schedule-Free AdamW: an average of the iterates instead of a decay."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..settings.hparams import Hparams
from ..settings.kinds import NotNegative
from .adamw import clipped
from .inner import INNER, InnerHparams, Slots
from .nadamw import averaged, squared


class ScheduleFreeState(NamedTuple):
  """What is kept besides y, the parameters that are trained."""

  count: Any  # shape=(), dtype=int32
  b1: jax.Array  # shape=(), dtype=float32; y was computed from x and z with it
  largest_rate: jax.Array  # shape=(), dtype=float32
  weight: jax.Array  # shape=(), dtype=float32; sum of w over the steps in x
  z: Any  # the iterate that takes the steps
  nu: Any  # the average of the squared gradients


@INNER.register(name='schedule_free_adamw')
@dataclasses.dataclass(frozen=True)
class ScheduleFreeAdamW:
  """Schedule-Free AdamW. y is trained; x, an average of z, is evaluated.

    v <- b2 v + (1 - b2) g^2        z <- z - rate (g / (sqrt(v^) + eps) + decay y)
    x <- (1 - c) x + c z            y <- b1 x + (1 - b1) z

  with c = w / (sum of all w) and w = t^r * (largest rate)^weight_lr_power. x is
  not stored: it follows from y and z, so b1 must be above 0. It is meant for a
  constant rate after a warm-up, but works with any schedule.

  A reset blends z like the parameters y, and therefore x, too. The weight of
  the average is multiplied by the share of x that is kept.

  Attributes:
    r: power of the step in the weights; 0 weighs all steps alike.
    weight_lr_power: power of the largest rate in the weights.

  Source: Defazio et al. 2024, "The road less scheduled", algorithm 1; r as in
  the authors' code.
  """

  r: NotNegative = 0.0
  weight_lr_power: NotNegative = 2.0

  def check(self, hparams: Hparams) -> str:
    """See `inner.check_numbers`."""
    one = hparams.one_minus_beta1
    return 'one_minus_beta1 must be below 1' if one >= 1 else ''

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """See `Inner`."""
    b1, b2, eps = 1.0 - hparams.one_minus_beta1, hparams.beta2, hparams.eps
    clip = clipped(hparams.grad_clip)

    def init(params: Any) -> ScheduleFreeState:
      # Copied: one buffer must not be donated twice.
      z = jax.tree_util.tree_map(lambda p: jnp.array(p, copy=True), params)
      nu = jax.tree_util.tree_map(jnp.zeros_like, params)
      zero, b = jnp.zeros([], jnp.float32), jnp.asarray(b1, jnp.float32)
      return ScheduleFreeState(jnp.zeros([], jnp.int32), b, zero, zero, z, nu)

    def update(
      grads: Any, state: ScheduleFreeState, params: Any
    ) -> tuple[Any, ScheduleFreeState]:
      grads, _ = clip.update(grads, clip.init(params), params)
      count = state.count + 1
      nu = averaged(state.nu, squared(grads), b2)

      def moved(
        z: jax.Array, y: jax.Array, g: jax.Array, v: jax.Array
      ) -> jax.Array:
        step = g / (jnp.sqrt(v / (1 - b2**count)) + eps) + weight_decay * y
        return z - rate * step

      z = jax.tree_util.tree_map(moved, state.z, params, grads, nu)
      largest = jnp.maximum(state.largest_rate, rate)
      share, weight = self._share(count, largest, state.weight)
      x = averaged(self.eval_params(state, params), z, 1 - share)
      updates = jax.tree_util.tree_map(
        lambda x, z, y: b1 * x + (1 - b1) * z - y, x, z, params
      )
      b = jnp.asarray(b1, jnp.float32)
      return updates, ScheduleFreeState(count, b, largest, weight, z, nu)

    return optax.GradientTransformation(init, update)

  def _share(
    self, count: jax.Array, largest_rate: jax.Array, weight: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    """(c, sum of all weights) after a step; c is 0 until a rate is above 0."""
    own = count.astype(jnp.float32) ** self.r
    own = own * largest_rate**self.weight_lr_power
    total = weight + own
    return jnp.where(
      total > 0, own / jnp.where(total > 0, total, 1.0), 0.0
    ), total

  def slots(self, opt_state: Any) -> Slots:
    """The second moment, z, and the average's weight."""
    s = opt_state
    return Slots((s.nu,), (s.z,), (s.count, s.largest_rate), (s.weight,))

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """See `Inner`."""
    (nu,), (z,), (count, largest), (weight,) = slots
    return ScheduleFreeState(count, opt_state.b1, largest, weight, z, nu)

  def eval_params(self, opt_state: Any, params: Any) -> Any:
    """x = (y - (1 - b1) z) / b1."""
    b1 = opt_state.b1
    return jax.tree_util.tree_map(
      lambda y, z: ((y - (1 - b1) * z) / b1).astype(y.dtype),
      params,
      opt_state.z,
    )
