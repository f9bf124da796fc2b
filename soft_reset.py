"""The soft reset: how much of a model is replaced. Formulas only.

  tau        share of the way from an untrained model to the target that is left
  params  <- (1 - tau) * params + tau * fresh params
  moments <- (1 - tau * alpha) * moments

`training.resetting` applies them on the devices. Batch statistics follow the
parameters that they belong to, and so do the iterates of an optimizer that keeps
parameters of its own. Two kinds of counts could be touched by a reset. That of
the cycle clock never is. The optimizer's own (bias correction) go back to zero
only together with the moments, in a full reset: with moments kept, that would
change the scale of the updates.

Source: thesis, section 3.3.2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from .settings.checks import check


def tau(
  metric: float,
  target: float,
  first_metric: float | None,
  rising: bool,
  distance: str = 'log',
) -> float:
  """The share of the way from an untrained model to the target that is left.

    rising:           clip(1 - metric / target, 0, 1), the thesis
    falling, log:     clip(log(metric / target) / log(first / target), 0, 1)
    falling, linear:  clip((metric - target) / (first - target), 0, 1)

  The thesis has no formula for metrics that fall. On a log scale perplexity,
  word error rate and error rate behave alike. On the linear one a classifier is
  treated alike whether its accuracy is written down or its error rate, from an
  untrained accuracy of 0; one that a chance of 1 / 10 starts from 0.1 differs by
  that. Where the first evaluation does not serve (missing, not finite or no
  worse than the target) a falling metric uses 1 - target / metric.

  Example: at an accuracy of 0.6 with a target of 0.8, tau is 0.25. At an error
  rate of 0.4, with a target of 0.2 and 1 at first, it is 0.43 on the log scale
  and 0.25 on the linear one.

  Args:
    metric: y, the validation metric of the last evaluation.
    target: the validation target, above 0.
    first_metric: y0, the metric of the run's first evaluation, or None.
    rising: whether a larger metric is better.
    distance: 'log' or 'linear', the scale of a metric that falls.

  Returns:
    tau in [0, 1]; 1 if the metric is not finite.

  Raises:
    ValueError: if tau is not defined for the target; see `check_target`.

  Source: thesis, section 3.3.2; the falling forms are ours.
  """
  check_target(target)
  if not math.isfinite(metric):
    return 1.0
  if rising:
    return min(max(1.0 - metric / target, 0.0), 1.0)
  if metric <= target:
    return 0.0
  if first_metric is None or not target < first_metric < math.inf:
    return 1.0 - target / metric
  if distance == 'linear':
    return min((metric - target) / (first_metric - target), 1.0)
  return min(math.log(metric / target) / math.log(first_metric / target), 1.0)


def check_target(target: float) -> None:
  """Raises ValueError unless tau is defined for this validation target."""
  check(
    math.isfinite(target) and target > 0,
    'validation_target_value',
    target,
    "finite and above 0 where a reset needs tau (reset_mode='soft')",
  )


def needs_tau(mode: str) -> bool:
  """Whether tau decides what a reset of this mode does."""
  return mode == 'soft'


class Reset(NamedTuple):
  """What a reset does to parameters, moments and the optimizer's counts."""

  tau: float  # share of fresh values in parameters and batch statistics
  keep_moments: float  # factor on the optimizer's moments
  keep_count: bool  # whether the optimizer's counts go on

  @property
  def touches_nothing(self) -> bool:
    """Whether the model stays as it is."""
    return self.tau == 0 and self.keep_moments == 1


def plan_reset(
  mode: str, tau_now: float, alpha: float, is_finite: bool
) -> Reset:
  """The reset that a mode asks for.

  Example: soft, with tau = 0.25 and alpha = 0.5, takes a quarter of the fresh
  parameters and keeps 0.875 of the moments.

  Args:
    mode: 'soft', 'full', 'kept_momentum' or 'cyclic'.
    tau_now: tau of the soft reset, in [0, 1]; other modes don't look at it.
    alpha: share of tau that the moments get, in [0, 1].
    is_finite: whether model, optimizer state and last evaluation are finite. If
      they are not, there is nothing to keep: a soft reset becomes a full one.
      What is left of the moments of a diverged run is finite but absurd.

  Returns:
    The Reset.

  Source: thesis, sections 3.2.2 (full, kept momentum) and 3.3.2 (soft).
  """
  if mode == 'full' or (mode == 'soft' and not is_finite):
    return Reset(1.0, 0.0, False)
  if mode == 'kept_momentum':
    return Reset(1.0, 1.0, True)
  if mode == 'cyclic':
    return Reset(0.0, 1.0, True)
  return Reset(tau_now, 1.0 - tau_now * alpha, True)


def blend(old: jax.Array, fresh: jax.Array, share: jax.Array) -> jax.Array:
  """(1 - share) * old + share * fresh, exact at both ends.

  Selected, not multiplied, where a product could be 0 * NaN: share = 0 gives
  old, share = 1 and non-finite elements of old give fresh. Integers, which
  cannot be blended, change at share = 1 only.

  Args:
    old, fresh: of one shape; fresh may be of another dtype.
    share: shape=(), the share of fresh.

  Returns:
    An array of old's shape and dtype.
  """
  if not jnp.issubdtype(old.dtype, jnp.inexact):
    return jnp.where(share >= 1, fresh, old)
  blended = optax.incremental_update(fresh, old, share).astype(old.dtype)
  take_fresh = (share >= 1) | ~jnp.isfinite(old)
  return jnp.where(
    share <= 0, old, jnp.where(take_fresh, fresh.astype(old.dtype), blended)
  )


def shrink(moment: jax.Array, keep: jax.Array) -> jax.Array:
  """keep * moment, with zero where that is not finite or keep is 0.

  Args:
    moment: of any shape.
    keep: shape=(), the factor.

  Returns:
    An array of the moment's shape and dtype.
  """
  kept = (keep * moment).astype(moment.dtype)
  return jnp.where(jnp.isfinite(moment) & (keep > 0), kept, 0)
