"""Progress by share of the run, of recorded runs that reach their target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...control.goals.expected import SHARES
from ...control.state import Target
from ...control.way import linear_share, metric_at
from ..real_runs.reading import RecordedRun

QUANTILES = {'q05': 0.05, 'q25': 0.25, 'q50': 0.5}
_LEAST = 0.01  # least share of the way: with a goal of 0, tau is not defined


class Drawn(NamedTuple):
  """A goal like `expected`, with its own curve over SHARES."""

  curve: Sequence[float]  # share of the way, shape=(len(SHARES),)

  def metric(
    self, target: Target, first_metric: float, share_of_run: float
  ) -> float:
    """See `Goal`."""
    share = float(np.interp(share_of_run, SHARES, self.curve))
    return metric_at(share, target, first_metric)


def target_of(run: RecordedRun) -> Target:
  """The target of a run's workload, as a submission would read it."""
  workload = run.workload
  return Target(workload.metric, workload.target, workload.rises)


def progress(run: RecordedRun) -> np.ndarray:
  """The best linear share of the way at each of SHARES.

  0 before the first evaluation, 1 from the evaluation on that reaches the
  target. SHARES are shares of the step hint or of the maximum runtime,
  whichever is larger.

  Args:
    run: one that reaches its target.

  Returns:
    shape=(len(SHARES),), from 0 to 1.
  """
  target, metrics = target_of(run), run.metric.tolist()
  way = np.array([linear_share(m, target, metrics[0]) for m in metrics])
  way[run.reached :] = 1.0
  # NaN does not count, nor does a metric that is worse than at first.
  best = np.fmax.accumulate(np.append(0.0, way))
  at = np.searchsorted(run.share, SHARES, side='right')
  return np.clip(best[at], 0.0, 1.0)


def curve(runs: Sequence[RecordedRun], quantile: float) -> np.ndarray:
  """A quantile of the progress of runs that reach their target.

  Args:
    runs: recorded runs; only those that reach their target count.
    quantile: from 0 to 1; this share of the runs had come less far.

  Returns:
    shape=(len(SHARES),), rounded to hundredths: at least .01, 1 at the end of
    the run.

  Raises:
    ValueError: if no run reaches its target.
  """
  found = [progress(run) for run in runs if run.reached is not None]
  if not found:
    raise ValueError('no run reaches its target: there is nothing to expect.')
  points = np.quantile(found, quantile, axis=0)
  points = np.maximum(np.round(points, 2), _LEAST)
  points[-1] = 1.0
  return points
