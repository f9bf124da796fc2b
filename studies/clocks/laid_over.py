"""A run replayed on a recorded run's clock: is its end evaluated in time?

A recorded run states after how many steps and seconds it was evaluated. This
determines all that matters to the budget for a run with the same clock and one
of our horizons: the horizon is estimated at each evaluation, its step is taken
between two evaluations, and the later one sees the annealed model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...control.horizons import Horizon, Timing
from ..real_runs.reading import RecordedRun

_FEWEST_EVALUATIONS = 4  # two around an interval, and two after them


class LaidOver(NamedTuple):
  """How the end of a run turns out; seconds of submission time."""

  run: RecordedRun
  budget: float
  annealed: float  # when the horizon's step is taken; NaN if never
  evaluated: float  # when that model is evaluated; NaN if never

  @property
  def is_in_time(self) -> bool:
    """Whether the annealed model is evaluated within the budget."""
    return not math.isnan(self.evaluated)

  @property
  def unused(self) -> float:
    """Share of the budget left when the model is annealed."""
    return 1.0 - self.annealed / self.budget

  @property
  def unseen(self) -> float:
    """Share of the budget left when the annealed model is evaluated."""
    return 1.0 - self.evaluated / self.budget


def lay_over(
  run: RecordedRun, budget: float, horizon: Horizon, planned: int
) -> LaidOver:
  """Goes through a recorded clock as a run with this horizon would.

  Args:
    run: its steps and seconds are used. Evaluations at or after the end of the
      budget do not take place, as in the benchmark's main branch.
    budget: seconds.
    horizon: consulted at each evaluation.
    planned: the horizon before the first evaluation, steps.
  """
  state, before = horizon.initial, (0, 0.0)
  for step, seconds in zip(run.step.tolist(), run.seconds.tolist()):
    if seconds >= budget:
      break
    if before[0] < planned <= step:
      share = (planned - before[0]) / (step - before[0])
      annealed = before[1] + share * (seconds - before[1])
      return LaidOver(run, budget, annealed, seconds)
    timing = Timing(int(step), seconds, planned, budget)
    state, planned = horizon.observe(state, timing)
    before = step, seconds
  return LaidOver(run, budget, math.nan, math.nan)


def is_long_enough(run: RecordedRun) -> bool:
  """Whether its times are known and enough to estimate a pace."""
  enough = run.step.size >= _FEWEST_EVALUATIONS
  return bool(enough and np.isfinite(run.seconds).all())


def counts_steps(run: RecordedRun) -> bool:
  """Whether recorded steps are training steps; see real_runs/README.md."""
  return not run.submission.startswith('lawa_')


def lasts_for(run: RecordedRun, factor: float) -> bool:
  """Whether a run went on for a multiple of the maximum runtime.

  An evaluation that would come too late is missing, so the last interval is
  counted twice. A run that ended by itself, and was therefore evaluated early,
  did not last: its clock stopped.
  """
  intervals = np.diff(run.seconds)
  ended = intervals[-1] < 0.95 * np.median(intervals)
  end = run.seconds[-1] + intervals[-1]
  budget = factor * run.workload.max_runtime
  return bool(run.seconds[-1] >= budget or (end >= budget and not ended))


def own_budgets(runs: Sequence[RecordedRun]) -> list[float]:
  """A budget for each run, somewhere between its last two evaluations, seconds.

  As if the budget had ended the run. Drawn uniformly with a fixed seed, since
  where in an interval a budget ends is chance.

  Args:
    runs: runs that satisfy `is_long_enough`.
  """
  places = np.random.default_rng(0).uniform(size=len(runs))
  return [
    float(run.seconds[-2] + place * (run.seconds[-1] - run.seconds[-2]))
    for run, place in zip(runs, places)
  ]
