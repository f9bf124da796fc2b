"""The submissions' scores under conditions, with their spread over seeds.

Scores are AlgoPerf's (`studies.scores`): a submission's time in a cell, that is
a workload under a condition, is the median over seeds. The spread is found by
bootstrap: seeds are drawn with replacement, the same for all submissions, and
the scores are recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..scores import profiles
from ..scores.text import Entry
from .logs import BoardRun, is_reached

DRAWS = 1000
_SEED = 0
_INTERVAL = (5, 95)  # percentiles


class EntryStanding(NamedTuple):
  """A submission's score and other figures, among those on the board."""

  submission: str
  score: float
  low: float  # 5th percentile of the score; NaN if a cell has one seed only
  high: float  # 95th
  reached: float  # share of runs
  median_share: float  # of the budget used until the target; infinite if never
  failed: int  # runs that broke
  relative: np.ndarray  # shape=(cells,), time over the fastest one's


def standings(
  runs: Sequence[BoardRun], draws: int = DRAWS
) -> list[EntryStanding]:
  """All submissions, the best first.

  Args:
    runs: as `logs.comparable` returns them; all cells count equally.
    draws: number of bootstrap draws.
  """
  names = sorted({run.submission for run in runs})
  cells = _cells(runs, names)
  medians = np.stack([np.median(times, axis=1) for times in cells])
  relative = _relative(medians)
  random = np.random.default_rng(_SEED)
  drawn = []
  for _ in range(draws):
    again = []
    for times in cells:
      chosen = random.integers(times.shape[1], size=times.shape[1])
      again.append(np.median(times[:, chosen], axis=1))
    drawn.append(_scores(_relative(np.stack(again))))
  low, high = np.percentile(drawn, _INTERVAL, axis=0)
  if min(times.shape[1] for times in cells) < 2:  # nothing to draw from
    low, high = np.full_like([low, high], np.nan)
  found = []
  for i, (name, score) in enumerate(zip(names, _scores(relative))):
    own = [run for run in runs if run.submission == name]
    found.append(
      EntryStanding(
        name,
        score,
        low[i],
        high[i],
        float(np.mean([is_reached(run) for run in own])),
        float(np.median([run.share_to_target for run in own])),
        sum(run.failed for run in own),
        relative[:, i],
      )
    )
  return sorted(found, key=lambda s: (-s.score, -s.reached, s.submission))


def as_entries(found: Sequence[EntryStanding]) -> list[Entry]:
  """The standings in the form that the picture of profiles takes."""
  return [
    Entry(s.submission, s.score, int(np.isfinite(s.relative).sum()), s.relative)
    for s in found
  ]


def _cells(runs: Sequence[BoardRun], names: Sequence[str]) -> list[np.ndarray]:
  """Shares of the budget for each cell, shape=(submissions, seeds)."""
  found: dict[tuple[str, str], dict[str, list[float]]] = {}
  for run in sorted(runs, key=lambda r: r.seed):
    own = found.setdefault((run.condition, run.workload), {})
    own.setdefault(run.submission, []).append(run.share_to_target)
  return [np.array([own[name] for name in names]) for own in found.values()]


def _relative(medians: np.ndarray) -> np.ndarray:
  """Times over the fastest one's, shape=(cells, submissions)."""
  fastest = medians.min(axis=1, keepdims=True)
  return medians / np.where(np.isfinite(fastest), fastest, 1.0)


def _scores(relative: np.ndarray) -> list[float]:
  """AlgoPerf's scores, shape=(submissions,)."""
  return [profiles.score(column) for column in relative.T]
