"""Whether an evaluation follows a step, where nobody says so (v0.5.0).

That benchmark evaluates what update_params has returned, after the first step
and then as soon as the evaluation period has passed since the end of the last
evaluation. When that was follows from when update_params returned before it and
from how long it took, which its results say. A runner that evaluates every so
many steps is foreseen from the last two evaluations.

A wrong forecast costs an exchange of weights and changes nothing of training.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

now = time.time  # seconds; what the runners read, too


class Forecast(NamedTuple):
  """What is known of the runner's clock; it is not saved.

  Attributes:
    returned: when update_params returned last.
    evaluated: when the last evaluation ended; before the first one, and in a
      resumed run, -inf: one is due.
    eval_seconds: of all evaluations so far; NaN if unknown.
    step_seconds: between the last two returns.
    eval_step: step of the last evaluation; -1 if unknown.
    gap: steps between the last two; 0 if unknown.
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
  """Takes in that there was an evaluation.

  Args:
    forecast: before it.
    step: steps taken when the model was evaluated.
    eval_seconds: of all evaluations so far, as its results have it, or NaN.
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

  A step's time is allowed for: a runner that waits for the devices before it
  reads the clock reads it so much later.

  Args:
    forecast: what is known.
    step: steps taken.
    period: the workload's evaluation period, seconds.
    at: the time now.
  """
  by_clock = at + forecast.step_seconds - forecast.evaluated >= period
  return by_clock or 0 < forecast.gap == step - forecast.eval_step


def after_step(forecast: Forecast, at: float) -> Forecast:
  """Takes in that update_params returns."""
  since = at - max(forecast.returned, forecast.evaluated)
  step_seconds = since if 0 <= since < math.inf else forecast.step_seconds
  return forecast._replace(returned=at, step_seconds=step_seconds)
