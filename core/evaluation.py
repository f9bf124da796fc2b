"""Which weights an evaluation sees: those that the optimizer wants evaluated.

They are handed out before an evaluation and taken back after it; meanwhile the
trained ones lie in the saved state, so that a checkpoint has both. In main the
runner says when, by calling prepare_for_eval. v0.5.0 gives no notice: it
evaluates what update_params has returned, after the first step and then as soon
as the evaluation period has passed since the end of the last evaluation. So the
weights are handed out where an evaluation is foreseen. A wrong forecast costs an
exchange of weights and does not change training.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import jax


class Trained(NamedTuple):
  """Saved beside the optimizer's state if evaluations see other weights."""

  params: Any  # the trained ones while others are out; else of no importance
  is_out: jax.Array  # shape=(), dtype=int32; whether others are handed out


class Forecast(NamedTuple):
  """What is known of v0.5.0's clock; times in seconds. It is not saved."""

  returned: float = math.nan  # when update_params returned last
  evaluated: float = (
    -math.inf
  )  # end of the last evaluation; one is due at first
  eval_seconds: float = 0.0  # that all evaluations so far have taken
  step_seconds: float = 0.0  # between the last two returns
  eval_step: int = -1  # steps taken at the last evaluation; -1 if unknown
  gap: int = 0  # steps between the last two evaluations; 0 if unknown

  def after_evaluation(self, step: int, eval_seconds: float) -> Forecast:
    """Args: steps taken, and the seconds of all evaluations (NaN if unknown)."""
    now = time.time()
    evaluated = self.returned + eval_seconds - self.eval_seconds
    is_known = self.returned <= evaluated <= now
    return self._replace(
      evaluated=evaluated if is_known else now,
      eval_seconds=eval_seconds,
      eval_step=step,
      gap=step - self.eval_step if 0 <= self.eval_step < step else 0,
    )

  def is_due(self, step: int, period: float) -> bool:
    """Whether an evaluation may follow after `step` steps.

    The duration of a step is allowed for: a runner that waits for the devices
    before it reads the clock reads it that much later. For a runner that
    evaluates every so many steps, the last two evaluations predict it.
    """
    since = time.time() + self.step_seconds - self.evaluated
    return since >= period or 0 < self.gap == step - self.eval_step

  def after_step(self) -> Forecast:
    """To be called as update_params returns."""
    now = time.time()
    since = now - max(self.returned, self.evaluated)
    known = 0 <= since < math.inf
    return self._replace(
      returned=now, step_seconds=since if known else self.step_seconds
    )
