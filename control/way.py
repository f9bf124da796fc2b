"""How much of the way to the target a metric has come, on two scales.

Both are 1 at the target and have no unit. A metric that rises has come y / y*
of the way, from 0. One that falls starts from y0, the metric of the first
evaluation, or from 1.01 y* if y0 is not finite or lower.
"""

from __future__ import annotations

import math

from .state import Target

_LEAST_WAY = 1.01  # least y0 / y* of a metric that falls


def linear_share(metric: float, target: Target, first_metric: float) -> float:
  """The share of the way, on the metric's own (linear) scale.

    rising:   y / y*
    falling:  (y0 - y) / (y0 - y*)

  Example: an error rate that has fallen from 0.9 to 0.5, with a target of 0.4,
  has come 0.8 of the way.

  Args:
    metric: y, that of any evaluation.
    target: y* and its direction.
    first_metric: y0, that of the first evaluation.

  Returns:
    The share; NaN if the metric is not finite, 1 if the target is not above 0,
    where neither formula makes sense.
  """
  if not math.isfinite(metric):
    return math.nan
  if not target.value > 0:
    return 1.0
  if target.rising:
    return metric / target.value
  first = _start(target, first_metric)
  return (first - metric) / (first - target.value)


def metric_at(share: float, target: Target, first_metric: float) -> float:
  """The metric at a share of the way; the inverse of `linear_share`.

    rising:   p y*
    falling:  y0 - p (y0 - y*)

  Args:
    share: p.
    target, first_metric: see `linear_share`.
  """
  if target.rising:
    return share * target.value
  first = _start(target, first_metric)
  return first - share * (first - target.value)


def log_share(metric: float, target: Target, first_metric: float) -> float:
  """The share of the way, on a log scale where the metric falls.

    rising:   y / y*
    falling:  1 - log(y / y*) / log(y0 / y*)

  Example: a perplexity that has fallen from 800 to 200, with a target of 50,
  has come half of the way.

  Args:
    metric, target, first_metric: see `linear_share`.

  Returns:
    The share; see `linear_share`. Infinity for a falling metric that is 0 or
    less, which is past every target.
  """
  if target.rising or not target.value > 0 or not math.isfinite(metric):
    return linear_share(metric, target, first_metric)
  if metric <= 0:
    return math.inf
  first = _start(target, first_metric)
  to_go = math.log(metric / target.value)
  return 1.0 - to_go / math.log(first / target.value)


def _start(target: Target, first_metric: float) -> float:
  least = _LEAST_WAY * target.value
  is_way = math.isfinite(first_metric) and first_metric > least
  return first_metric if is_way else least
