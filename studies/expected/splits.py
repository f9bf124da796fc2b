"""Recorded runs split into cycles: tau at the end of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...control.goals import Goal
from ...control.way import log_share
from ...soft_reset import tau
from ..real_runs.reading import RecordedRun
from .curves import target_of

_FAILS = 0.5  # a run fails below this best share of the way, on a log scale


def fails(run: RecordedRun) -> bool:
  """Whether a run never comes half of the way to its target."""
  target, metrics = target_of(run), run.metric.tolist()
  shares = [log_share(metric, target, metrics[0]) for metric in metrics]
  best = max((s for s in shares if math.isfinite(s)), default=0.0)
  return run.reached is None and best < _FAILS


def taus(
  runs: Sequence[RecordedRun], cycles: int, goal: Goal, distance: str
) -> np.ndarray:
  """tau at the ends of equal cycles into which runs are split.

  A run is as long as its step hint or the maximum runtime, whichever is over
  first. Its models at those ends are not annealed, as those of real cycles
  would be. Not counted are the last end, which no cycle follows, and ends after
  a run's target or its last evaluation.

  Args:
    runs: the runs to split.
    cycles: into how many cycles.
    goal: the goal to which tau is the distance.
    distance: the scale of tau; see `soft_reset.tau`.

  Returns:
    The values of tau, shape=(ends,).
  """
  return np.array(
    [t for run in runs for t in _taus(run, cycles, goal, distance)]
  )


def _taus(
  run: RecordedRun, cycles: int, goal: Goal, distance: str
) -> Iterator[float]:
  target, share, first = target_of(run), run.share, float(run.metric[0])
  reached = math.inf if run.reached is None else run.reached
  for i in range(1, cycles):
    f = i / cycles
    last = int(np.searchsorted(share, f, side='right')) - 1
    if last < 0:
      continue
    if last >= reached or share[-1] < f:
      return
    wanted = goal.metric(target, first, f)
    yield tau(float(run.metric[last]), wanted, first, target.rising, distance)
