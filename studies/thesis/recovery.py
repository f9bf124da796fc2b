"""How far a run has come, and what a reset cost it, in pure functions of tables.

The way of a run leads from the untrained model, y_0, its first evaluation, to
the target; the share that a value y has gone of it is (y - y_0) / (target -
y_0), for metrics that rise and for those that fall. An evaluation at the last
step of a cycle belongs to that cycle.
"""

from __future__ import annotations

import math

import numpy as np

from ..runs.table import RunTable

REGAINED = 0.95


def share_gone(value: np.ndarray, start: float, goal: float) -> np.ndarray:
  """(value - start) / (goal - start); 0 where the value is not finite.

  Args:
    value: shape (n,) or a scalar, metrics.
    start: the untrained model's metric.
    goal: where the way leads to, which is not where it starts.
  """
  share = (np.asarray(value, float) - start) / (goal - start)
  return np.where(np.isfinite(share), share, 0.0)


def cycle_metrics(table: RunTable) -> list[np.ndarray]:
  """The metric at the evaluations of each cycle, a vector per cycle."""
  starts = np.array(table.cycle_starts)
  # Cycle i has the evaluations after its first step's start, up to its end.
  cycle = np.searchsorted(starts, table.eval_steps, side='left') - 1
  return [table.metric[cycle == i] for i in range(len(starts))]


def shares(table: RunTable) -> list[np.ndarray]:
  """`share_gone` towards the target at the evaluations of each cycle."""
  start = table.metric[0]
  return [share_gone(y, start, table.target) for y in cycle_metrics(table)]


def final_share(table: RunTable, cycle: int) -> float:
  """The share of the way to the target gone at the end of a cycle.

  Args:
    table: the run.
    cycle: index of the cycle, from 0.
  """
  return float(shares(table)[cycle][-1])


def best_share(table: RunTable, first_cycle: int) -> float:
  """The largest share of the way that a cycle or a later one has gone.

  Args:
    table: the run.
    first_cycle: index of the first cycle that counts, from 0.
  """
  return float(np.concatenate(shares(table)[first_cycle:]).max())


def _since_reset(table: RunTable, reset: int) -> np.ndarray:
  """After a reset: shares of the way to what the model was before it."""
  before, after = cycle_metrics(table)[reset : reset + 2]
  return share_gone(after, table.metric[0], before[-1])


def loss_at_reset(table: RunTable, reset: int) -> float:
  """The share of the way that is lost at the first evaluation after a reset.

  Args:
    table: the run.
    reset: which boundary between cycles, from 0. Whether anything is reset
      there depends on the run: without, it is what the learning rate costs.
  """
  return float(1.0 - _since_reset(table, reset)[0])


def recovery(table: RunTable, reset: int) -> float:
  """Evaluations until 95 % of the way to the model before the reset is regained.

  The way is that from the untrained model to the last evaluation before the
  boundary. 1 is the first evaluation after it.

  Args:
    table: the run.
    reset: which boundary between cycles, from 0.

  Returns:
    A count; infinity if the cycle ends before.
  """
  regained = np.flatnonzero(_since_reset(table, reset) >= REGAINED)
  return float(regained[0] + 1) if regained.size else math.inf
