"""The soft reset: how much of a model is replaced, and how.

  tau        the remaining share of the way from an untrained model to the target
  params  <- (1 - tau) * params + tau * fresh params
  moments <- (1 - tau * alpha) * moments

What that means for each leaf of a model is in `core.model_reset`.

Source: thesis, section 3.3.2.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from .core.checks import Checked, Level, NonNegative
from .core.evaluation import Evaluation, Target


def distance(
  metric: float,  # y, of an evaluation
  target: Target,  # y* and its direction
  first_metric: float,  # y0, of the run's first evaluation
  scale: str = 'log',  # or 'linear'; of a metric that falls
) -> float:
  """The remaining share of the way from an untrained model to the target.

    rising:           1 - y / y*, the thesis
    falling, log:     log(y / y*) / log(y0 / y*)
    falling, linear:  (y - y*) / (y0 - y*)

  On a log scale perplexity, word error rate and error rate behave alike; on the
  linear one a classifier is treated alike whether its accuracy or its error rate
  is given. Where the first evaluation does not serve (not finite, or no worse
  than the target) a falling metric uses 1 - y* / y.

  Returns:
    0 at the target, below 0 beyond it; NaN if the metric is not finite, and 0
    where no formula makes sense, at a target of 0 or less.

  Source: thesis, section 3.3.2; the falling forms are ours.
  """
  goal = target.value
  if not math.isfinite(metric):
    return math.nan
  if not goal > 0:
    return 0.0
  if target.rises:
    return 1.0 - metric / goal
  if not goal < first_metric < math.inf:
    return 1.0 - goal / metric if metric > 0 else -math.inf
  if scale == 'linear':
    return (metric - goal) / (first_metric - goal)
  if metric <= 0:
    return -math.inf
  return math.log(metric / goal) / math.log(first_metric / goal)


class ResetPlan(NamedTuple):
  """What a reset does to parameters, moments and the optimizer's counts."""

  tau: float  # share of fresh values in parameters and batch statistics
  keep_moments: float  # factor on the optimizer's moments
  keep_counts: bool  # whether the optimizer's counts go on

  @property
  def touches_nothing(self) -> bool:
    return self == (0.0, 1.0, True)


FULL = ResetPlan(1.0, 0.0, False)


class Reset(Protocol):
  """What the start of a further cycle does to the model."""

  def plan(self, tau: float) -> ResetPlan: ...


Scale = Annotated[str, ('log', 'linear')]


@dataclasses.dataclass(frozen=True)
class SoftReset(Checked):
  """Blends the model with a fresh one by tau; shrinks moments by alpha * tau.

  Source: thesis, section 3.3.2; fade is ours: the remaining steps would not make
  up for a late reset.
  """

  alpha: Level = 0.5  # share of tau that the moments get
  scale: Scale = 'log'  # of tau for a metric that falls
  fade: NonNegative = 0.0  # tau * max(0, 1 - fade * share of the run so far)

  def tau(
    self,
    last: Evaluation,  # of the cycle that has ended
    first: Evaluation,  # of the run
    target: Target,
    step: int,  # about to be taken
    horizon: int,  # steps of the run
  ) -> float:
    """The share of fresh values: `distance` in [0, 1], 1 if it is NaN; faded."""
    remaining = distance(last.metric, target, first.metric, self.scale)
    whole = 1.0 if math.isnan(remaining) else min(max(remaining, 0.0), 1.0)
    return whole * max(0.0, 1.0 - self.fade * min(step / horizon, 1.0))

  def plan(self, tau: float) -> ResetPlan:
    return ResetPlan(tau, 1.0 - tau * self.alpha, True)


def blend(
  old: jax.Array, fresh: jax.Array, keep: jax.Array, share: jax.Array
) -> jax.Array:
  """keep * old + share * fresh, which add up to 1; exact at both ends.

  Selected, not multiplied, where a product could be 0 * NaN: share = 0 and
  keep = 1 give old, keep = 0 gives fresh. Integers, which cannot be blended,
  change at keep = 0 only. The result has old's shape and dtype; it is computed
  in that precision, but at least in float32.
  """
  new = fresh.astype(old.dtype)
  if not jnp.issubdtype(old.dtype, jnp.inexact):
    return jnp.where(keep > 0, old, new)
  precise = jnp.promote_types(old.dtype, jnp.float32)
  keep, share = keep.astype(precise), share.astype(precise)
  mixed = (keep * old + share * fresh).astype(old.dtype)
  mixed = jnp.where(share > 0, mixed, old)
  return jnp.where(keep > 0, mixed, new)
