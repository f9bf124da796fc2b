"""Predicts whether an evaluation follows a step, for v0.5.0.

That benchmark gives no notice. It evaluates what update_params has returned,
after the first step and then as soon as the evaluation period has passed since
the end of the last evaluation. That end is known from when update_params
returned before it and from its duration, which is among its results. For a
runner that evaluates every so many steps, the last two evaluations predict it.

A wrong forecast costs an exchange of weights and does not change training.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

now = time.time  # seconds; the runners use the same clock


class Forecast(NamedTuple):
  """What is known of the runner's clock; it is not saved.

  Attributes:
    returned: time at which update_params returned last.
    evaluated: time at which the last evaluation ended; -inf before the first
      and in a resumed run: one is due.
    eval_seconds: time that all evaluations so far have taken; NaN if unknown.
    step_seconds: time between the last two returns.
    eval_step: steps taken at the last evaluation; -1 if unknown.
    gap: steps between the last two evaluations; 0 if unknown.
  """

  returned: float = math.nan
  evaluated: float = -math.inf
  eval_seconds: float = 0.0
  step_seconds: float = 0.0
  eval_step: int = -1
  gap: int = 0


def after_evaluation(
  forecast: Forecast, step: int, eval_seconds: float, entered: float
) -> Forecast:
  """The forecast after an evaluation.

  Args:
    forecast: the one before.
    step: steps taken when the model was evaluated.
    eval_seconds: time of all evaluations so far, according to the results; NaN
      if unknown.
    entered: the time now.
  """
  took = eval_seconds - forecast.eval_seconds
  evaluated = forecast.returned + took  # before checkpoint and log were written
  is_known = took >= 0 and evaluated <= entered
  has_gap = 0 <= forecast.eval_step < step
  return forecast._replace(
    evaluated=evaluated if is_known else entered,
    eval_seconds=eval_seconds,
    eval_step=step,
    gap=step - forecast.eval_step if has_gap else 0,
  )


def is_due(forecast: Forecast, step: int, period: float, at: float) -> bool:
  """Whether an evaluation may follow at once.

  The duration of a step is allowed for: a runner that waits for the devices
  before it reads the clock reads it that much later.

  Args:
    forecast: what is known.
    step: steps taken.
    period: the workload's evaluation period, seconds.
    at: the time now.
  """
  by_clock = at + forecast.step_seconds - forecast.evaluated >= period
  return by_clock or 0 < forecast.gap == step - forecast.eval_step


def after_step(forecast: Forecast, at: float) -> Forecast:
  """The forecast as update_params returns at time `at`."""
  since = at - max(forecast.returned, forecast.evaluated)
  step_seconds = since if 0 <= since < math.inf else forecast.step_seconds
  return forecast._replace(returned=at, step_seconds=step_seconds)
