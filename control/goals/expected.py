"""The metric that runs which reach their target had by then."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...settings.kinds import Choice
from ..state import Target
from ..way import metric_at
from .goal import GOALS

# Shares of the run, and quantiles of the share of the way to the target that
# runs which reach it have come by then, as found by `soft-reset expected`.
SHARES = (0.0, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5) + (
  0.6,
  0.7,
  0.8,
  0.9,
  1.0,
)
CURVES = {
  'q05': (0.01, 0.01, 0.01, 0.36, 0.55, 0.64, 0.74, 0.80, 0.85, 0.88, 0.91)
  + (0.93, 0.96, 0.98, 0.99, 1.0),
  'q25': (0.01, 0.05, 0.32, 0.53, 0.72, 0.79, 0.85, 0.90, 0.93, 0.95, 0.97)
  + (0.99, 0.99, 1.0, 1.0, 1.0),
  'q50': (0.01, 0.23, 0.56, 0.77, 0.86, 0.90, 0.94, 0.96, 0.98, 0.99, 1.0)
  + (1.0, 1.0, 1.0, 1.0, 1.0),
}
Curve = Choice(*CURVES)


@GOALS.register(name='expected')
@dataclasses.dataclass(frozen=True)
class Expected:
  """The metric that a run which reaches its target has at this share of it.

    rising:   p y*
    falling:  y0 - p (y0 - y*)

  p comes from a curve over the share of the run, one for all workloads, with
  straight lines between its points: 1 at the end of the run, where the goal is
  the target, and .01 at its beginning. So tau asks whether a model is behind
  schedule, not whether it is done: with cycles that are short compared with the
  run, a model that is on schedule is not reset.

  Source: ours. Quantiles over the 1,326 recorded runs that reach their target
  (studies/expected/RESULTS.md): the best share of the way so far, on the
  linear scale, at a share of the step hint or of the maximum runtime, whichever
  is larger. Those runs were evaluated at high learning rates; an annealed model
  is further on, so the curve demands less than it seems to.

  Attributes:
    curve: which quantile of those runs is demanded: 5, 25 or 50 %.
  """

  curve: Curve = 'q05'

  def metric(
    self, target: Target, first_metric: float, share_of_run: float
  ) -> float:
    """See `Goal`."""
    share = float(np.interp(share_of_run, SHARES, CURVES[self.curve]))
    return metric_at(share, target, first_metric)
