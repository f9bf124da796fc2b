"""What a goal is: the metric that a run should have by now."""

from __future__ import annotations

from typing import Protocol

from ...settings.named import Registry
from ..state import Target

GOALS = Registry('goal')


class Goal(Protocol):
  """tau, the strength of a soft reset, is the distance to it."""

  def metric(
    self, target: Target, first_metric: float, share_of_run: float
  ) -> float:
    """The metric to be held against.

    Args:
      target: the workload's.
      first_metric: of the run's first evaluation; NaN before it.
      share_of_run: of the run's steps as planned now, taken.
    """
