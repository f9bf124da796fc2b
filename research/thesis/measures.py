"""What is measured of a run, as the claims and premises of the thesis ask it.

The way of a run leads from the untrained model, y_0, its first evaluation, to
the target; the share that a value y has gone of it is (y - y_0) / (target -
y_0), for metrics that rise and for those that fall. An evaluation at the last
step of a cycle belongs to that cycle.

Early switching is judged on runs that were trained with switching off, so that
the end of each cycle is known; the rule is replayed on their losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ...early_switching import SmoothedLoss, SmoothedLossRule
from ...views.run_files import RunTable
from .settings import RUNS

REGAINED = 0.95  # the share of what a reset took away at which it is recovered
# The shares of the way below which a cycle has failed, and from which on it is
# good.
FAILED, GOOD = 0.1, 0.5


def share_gone(value: np.ndarray, start: float, goal: float) -> np.ndarray:
  """(value - start) / (goal - start), shape=(n,); 0 where it is not finite."""
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
  start, goal = table.metric[0], table.target.value
  return [share_gone(y, start, goal) for y in cycle_metrics(table)]


def final_share(table: RunTable, cycle: int) -> float:
  """The share of the way gone at the end of a cycle, counted from 0."""
  return float(shares(table)[cycle][-1])


def best_share(table: RunTable) -> float:
  """The largest share of the way that a cycle after the first has gone."""
  return float(np.concatenate(shares(table)[1:]).max())


def good_resets(tables: Iterable[RunTable]) -> list[bool]:
  """For each boundary, whether the cycle before it is good in all runs."""
  ends = ([share[-1] for share in shares(table)[:-1]] for table in tables)
  return [min(at) >= GOOD for at in zip(*ends)]


def _since_reset(table: RunTable, reset: int) -> np.ndarray:
  """After a reset: shares of the way to what the model was before it."""
  before, after = cycle_metrics(table)[reset : reset + 2]
  return share_gone(after, table.metric[0], before[-1])


def loss_at_reset(table: RunTable, reset: int) -> float:
  """The share of the way that is lost at the first evaluation after a boundary.

  Boundaries count from 0. Where nothing is reset, it is what the rate costs.
  """
  return float(1.0 - _since_reset(table, reset)[0])


def recovery(table: RunTable, reset: int) -> float:
  """Evaluations until 95 % of what a reset took away is regained.

  1 is the first evaluation after the reset; infinity if the cycle ends before.
  """
  regained = np.flatnonzero(_since_reset(table, reset) >= REGAINED)
  return float(regained[0] + 1) if regained.size else math.inf


def mean_recovery(table: RunTable, resets: Sequence[bool]) -> float:
  """A recovery that doesn't come in its cycle counts as the cycle and one."""
  lengths = [len(y) for y in cycle_metrics(table)[1:]]
  counts = [
    min(recovery(table, reset), lengths[reset] + 1.0)
    for reset, is_good in enumerate(resets)
    if is_good
  ]
  return float(np.mean(counts))


def decline(table: RunTable, reset: int) -> float:
  """The largest fall of the share of the way after a reset's recovery.

  In the first half of the cycle; 0 if it does not recover there.
  """
  gone = shares(table)[reset + 1]
  start = recovery(table, reset)
  half = gone[: (gone.size + 1) // 2]
  if start > half.size:
    return 0.0
  since = half[int(start) - 1 :]
  return float((np.maximum.accumulate(since) - since).max())


def cycles_apart(table: RunTable) -> float:
  """How far the second and the third cycle are apart, evaluation by evaluation.

  The mean difference of the shares of the way, over as many evaluations as both
  cycles have.
  """
  _, second, third = shares(table)
  both = min(second.size, third.size)
  return float(np.abs(second[:both] - third[:both]).mean())


def to_its_asymptote(table: RunTable, reset: int) -> float:
  """Evaluations after a reset until 95 % of the cycle's best share is gone."""
  gone = shares(table)[reset + 1]
  return float(np.argmax(gone >= REGAINED * gone.max()) + 1)


def switching_evaluation(table: RunTable, cycle: int) -> int | None:
  """The evaluation of a cycle, from 1, at which the rule would have ended it.

  Returns:
    The number of the evaluation with the first S(t) = 1; None if there is none
    before the cycle's end, at which it is over anyway.
  """
  steps = table.losses.steps
  start, end = table.cycle_starts[cycle], table.cycle_ends[cycle]
  return _first_switch(table.losses.loss[(steps > start) & (steps < end)])


def _first_switch(losses: np.ndarray) -> int | None:
  """The evaluation, from 1, with the first S(t) = 1; None if there is none.

  Of a cycle's validation losses, shape=(n,), with the constants of figure 3.7.
  """
  rule = RUNS['failing_switching'].switching
  assert isinstance(rule, SmoothedLossRule)
  smoothed = SmoothedLoss()
  for t, loss in enumerate(losses, start=1):
    smoothed = smoothed.after(loss, rule.lam)
    if rule.verdict(smoothed).reason:
      return t
  return None
