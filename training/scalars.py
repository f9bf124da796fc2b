"""Numbers for the benchmark's metrics logger."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .workload import MetricsLogger

# Points of the learning rate's curve in a run as long as planned.
_RATE_POINTS = 500


def log_scalars(
  metrics_logger: MetricsLogger,
  rows: Sequence[Mapping[str, Any]],
  step_metrics: Mapping[str, Any],
  global_step: int,
) -> None:
  """Passes the finite numbers of events on to the benchmark's metrics logger.

  In one call, since each call rewrites the benchmark's files. The validation
  loss, which the runner logs itself, makes way for the loss of the last step,
  which goes by the name `loss` in the benchmark's own submissions.

  Args:
    metrics_logger: the workload's.
    rows: events, in order; the last value of a column counts.
    step_metrics: loss and gradient norm of the last step, or nothing.
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
  """Draws the learning rate of the steps since the last events, in TensorBoard.

  On a fixed grid, so that the curve has no corners where the run was evaluated:
  every step whose number max(1, horizon // 500) divides. To be called when
  events are written anyway; the steps in between do not even compare a number.

  The logger's own method would rewrite the benchmark's CSV files for each point:
  15 to 35 ms, 17 s for 500 points on two busy cores, and the more rows, the
  longer also for all others. Straight to the logger's TensorBoard writer a point
  takes 1.2 ms, 0.6 s for 500. A logger without such a writer (mini_algoperf's)
  gets none: cycles.csv has the clock, which says the rate of every step.

  Args:
    metrics_logger: the workload's.
    rate: the learning rate with which a step is taken, by its number, as the
      clock stood in those steps. On the host: nothing is read from a device.
    since: first step that has not been drawn yet.
    until: the step about to be taken; it is left to its own events.
    horizon: first step after the run, as planned.
  """
  # Private, but the same in both generations of the benchmark.
  writer = getattr(metrics_logger, '_tb_metric_writer', None)
  if writer is None:
    return
  grid = max(1, horizon // _RATE_POINTS)
  for step in range(-(-since // grid) * grid, until, grid):
    writer.write_scalars(step=step, scalars={'learning_rate': rate(step)})
