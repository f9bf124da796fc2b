"""Numbers for the benchmark's metrics logger."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .workload import MetricsLogger

# Points of the learning-rate curve in a run that is as long as planned.
_RATE_POINTS = 500


def log_scalars(
  metrics_logger: MetricsLogger,
  rows: Sequence[Mapping[str, Any]],
  step_metrics: Mapping[str, Any],
  global_step: int,
) -> None:
  """Passes the finite numbers of events on to the benchmark's metrics logger.

  This takes one call, since each call rewrites the benchmark's files. `loss` is
  the training loss of the last step, as in the benchmark's own submissions; the
  validation loss is left out, as the runner logs it itself.

  Args:
    metrics_logger: the workload's.
    rows: events, in order; the last value of a column counts.
    step_metrics: loss and gradient norm of the last step, or empty.
    global_step: the step about to be taken.
  """
  merged = {}
  for row in rows:
    merged.update(row)
  merged.pop('loss', None)
  merged.update(step_metrics)
  scalars = {
    key: float(value)
    for key, value in merged.items()
    if not isinstance(value, str) and math.isfinite(value)
  }
  metrics_logger.append_scalar_metrics(scalars, global_step)


def log_rates(
  metrics_logger: MetricsLogger,
  rate: Callable[[int], float],
  since: int,
  until: int,
  horizon: int,
) -> None:
  """Logs the learning rate of the steps since the last events to TensorBoard.

  The points are on a fixed grid, so that the curve has no kinks at evaluations:
  every step whose number max(1, horizon // 500) divides. Called when events are
  written anyway, so that the steps in between cost nothing.

  The logger's own method would rewrite the benchmark's CSV files for each point:
  15 to 35 ms, or 17 s for 500 points on two busy cores, and every further row
  makes all later writes slower. Written straight to the logger's TensorBoard
  writer, a point takes 1.2 ms, and 500 take 0.6 s. A logger without such a
  writer (mini_algoperf's) gets no points; the clock in cycles.csv determines
  the rate of every step.

  Args:
    metrics_logger: the workload's.
    rate: step -> learning rate, as the clock stood in those steps. Computed on
      the host: nothing is read from a device.
    since: first step that has not been drawn yet.
    until: the step about to be taken, which is logged with its own events.
    horizon: first step after the run, as planned.
  """
  # Private, but the same in both generations of the benchmark.
  writer = getattr(metrics_logger, '_tb_metric_writer', None)
  if writer is None:
    return
  grid = max(1, horizon // _RATE_POINTS)
  for step in range(-(-since // grid) * grid, until, grid):
    writer.write_scalars(step=step, scalars={'learning_rate': rate(step)})
