"""The scoreboard: submissions' scores under conditions, as a page in Markdown.

Scores are AlgoPerf's (`research.scores`): a submission's time in a cell, that
is a workload under a condition, is the median over seeds. The spread is found
by bootstrap: seeds are drawn with replacement, the same for all submissions,
and the scores are recomputed.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...mini_algoperf import files
from ...optimizers.peaks import SpectralPeak
from ...views.pages import render
from .. import scores
from . import conditions, entries
from .ablation import ABLATIONS
from .runs import BoardRun, comparable

PICTURE = 'scoreboard.png'
_DRAWS = 1000
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
  by_workload: Sequence[float]  # share of runs that reach their target


class ScoreTable(NamedTuple):
  """Runs that are compared in one table: all, or those under a condition."""

  workloads: Sequence[str]
  seeds: str  # how many a cell has
  standings: Sequence[EntryStanding]  # the best first


def standings(
  runs: Sequence[BoardRun], draws: int = _DRAWS
) -> list[EntryStanding]:
  """All submissions, the best first."""
  names = sorted({run.submission for run in runs})
  cells: dict[tuple[str, str], dict[str, list[float]]] = {}
  for run in sorted(runs, key=lambda r: r.seed):
    own = cells.setdefault((run.condition, run.workload), {})
    own.setdefault(run.submission, []).append(run.share_to_target)
  # Shares of the budget for each cell, shape=(submissions, seeds).
  shares = [np.array([own[name] for name in names]) for own in cells.values()]

  def relative_to_fastest(cells: Sequence[np.ndarray]) -> np.ndarray:
    medians = np.stack([np.median(times, axis=1) for times in cells])
    return scores.relative_times(medians.T)

  random = np.random.default_rng(_SEED)
  drawn = []
  for _ in range(draws):
    again = []
    for times in shares:
      chosen = random.integers(times.shape[1], size=times.shape[1])
      again.append(times[:, chosen])
    drawn.append([scores.score(row) for row in relative_to_fastest(again)])
  low, high = np.percentile(drawn, _INTERVAL, axis=0)
  if min(times.shape[1] for times in shares) < 2:  # nothing to draw from
    low, high = np.full_like([low, high], np.nan)
  found = []
  for i, relative in enumerate(relative_to_fastest(shares)):
    mine = [run for run in runs if run.submission == names[i]]
    found.append(
      EntryStanding(
        names[i],
        scores.score(relative),
        low[i],
        high[i],
        float(np.mean([run.is_reached for run in mine])),
        float(np.median([run.share_to_target for run in mine])),
        sum(run.failed for run in mine),
        relative,
        [
          float(np.mean([r.is_reached for r in mine if r.workload == workload]))
          for workload in sorted({run.workload for run in mine})
        ],
      )
    )
  return sorted(found, key=lambda s: (-s.score, -s.reached, s.submission))


def write_page(
  out: pathlib.Path, runs: Sequence[BoardRun], reading: str = ''
) -> None:
  """Writes the page and, beside it, the picture of the profiles.

  Both are replaced. `reading`, a person's findings in Markdown, comes first.
  """
  files.write_whole(out, page(runs, reading))
  found = [
    scores.Entry(s.submission, s.score, s.relative)
    for s in standings(_scored(comparable(runs)), draws=1)
  ]
  scores.save_profiles(out.with_name(PICTURE), found)


def page(runs: Sequence[BoardRun], reading: str = '') -> str:
  """The page as Markdown; arguments as for `write_page`.

  Raises:
    ValueError: if there is nothing to compare.
  """
  usable = comparable(runs)
  if not usable:
    raise ValueError(
      '--logs: no workload and condition has a seed that all submissions share.'
    )
  known = list(conditions.CONDITIONS)
  others = sorted({r.condition for r in usable} - set(known))
  of = {n: [r for r in usable if r.condition == n] for n in (*known, *others)}
  scored = _scored(usable)
  return render(
    pathlib.Path(__file__).with_suffix('.txt'),
    reading=reading.strip(),
    overall=_part(scored),
    parts={name: _part(own) for name, own in of.items() if own},
    scored=[name for name in of if name in {r.condition for r in scored}],
    unscored=[
      name for name in known if of[name] and name not in conditions.SCORED
    ],
    factor_of=entries.factor_of,
    by_weights={
      name: _share_of(params.relative_peak)
      for name, params in ABLATIONS.items()
      if params.relative_peak and name in {run.submission for run in usable}
    },
    picture=PICTURE,
    inf=math.inf,
  )


def _share_of(peak: Any) -> tuple[float, str]:
  """Its share, and what that is a share of, in words."""
  if isinstance(peak, SpectralPeak):
    return peak.share, 'the spectral size of the matrices'
  return peak.share, 'the size of the weights'


def _scored(runs: Sequence[BoardRun]) -> Sequence[BoardRun]:
  """The runs that count over all: those under SCORED, or all if none is."""
  return [r for r in runs if r.condition in conditions.SCORED] or runs


def _part(runs: Sequence[BoardRun]) -> ScoreTable:
  cells: dict[tuple[str, str], set[int]] = {}
  for run in runs:
    cells.setdefault((run.condition, run.workload), set()).add(run.seed)
  counts = sorted({len(seeds) for seeds in cells.values()})
  seeds = f'{counts[0]} to {counts[-1]}' if counts[1:] else f'{counts[0]}'
  workloads = sorted({workload for _, workload in cells})
  return ScoreTable(workloads, seeds, standings(runs))
