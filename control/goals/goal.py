"""What a goal is: the metric that a run should have by now."""

from __future__ import annotations

from typing import Protocol

from ...settings.named import Registry
from ..state import Target

GOALS = Registry('goal')


class Goal(Protocol):
  """A metric for each point of a run.

  tau, the strength of a soft reset, is the distance to it.
  """

  def metric(
    self, target: Target, first_metric: float, share_of_run: float
  ) -> float:
    """The metric that the run should have by now, in the metric's own unit.

    Args:
      target: the workload's target.
      first_metric: that of the run's first evaluation; NaN before it.
      share_of_run: steps taken, as a share of the run's steps as now planned.
    """
