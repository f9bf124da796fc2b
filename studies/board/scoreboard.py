"""The scoreboard: submissions' scores under conditions, as a page in Markdown.

Scores are AlgoPerf's (`studies.scores`): a submission's time in a cell, that is
a workload under a condition, is the median over seeds. The spread is found by
bootstrap: seeds are drawn with replacement, the same for all submissions, and
the scores are recomputed.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from ...mini_algoperf import files
from .. import scores
from . import conditions, entries
from .logs import BoardRun, comparable

PICTURE = 'scoreboard.png'
_DRAWS = 1000
_SEED = 0
_INTERVAL = (5, 95)  # percentiles
_WHAT = """\
Written by `soft-reset scoreboard`; not to be edited by hand. Small stand-ins on
a CPU, not AlgoPerf: nothing here is an AlgoPerf result, and no order here need
be the order there.

A run has reached its target or not; its time is counted in steps, as a share of
the budget. Scores are AlgoPerf's definition (performance profiles up to four
times the fastest, medians over seeds) on these cells, relative to the
submissions of this page. In brackets: the 5th and the 95th percentile over 1,000
bootstrap draws of the seeds. `studies/board/stand_in.py` says how the stand-ins
were shortened, `studies/board/conditions.py` what the conditions are. Rates are the
published ones times one factor per submission, the same everywhere, chosen under
`tuned` on a seed that is not among those here:
"""


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
  runs: Sequence[BoardRun], draws: int = _DRAWS
) -> list[EntryStanding]:
  """All submissions, the best first.

  Args:
    runs: as `logs.comparable` returns them; all cells count equally.
    draws: number of bootstrap draws.
  """
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
      )
    )
  return sorted(found, key=lambda s: (-s.score, -s.reached, s.submission))


def write_page(
  out: pathlib.Path, runs: Sequence[BoardRun], reading: str = ''
) -> None:
  """Writes the page and, beside it, the picture of the profiles.

  Both are replaced. `reading` is a person's interpretation, Markdown.
  """
  files.write_whole(out, page(runs, reading))
  scored = [r for r in comparable(runs) if r.condition in conditions.SCORED]
  found = [
    scores.Entry(s.submission, s.score, s.relative)
    for s in standings(scored, draws=1)
  ]
  scores.save_profiles(out.with_name(PICTURE), found)


def page(runs: Sequence[BoardRun], reading: str = '') -> str:
  """The page as Markdown; arguments as for `write_page`."""
  usable = comparable(runs)
  scored = [r for r in usable if r.condition in conditions.SCORED]
  overall = standings(scored)
  factors = [
    f'{s.submission} {entries.factor_of(s.submission):g}' for s in overall
  ]
  lines = ['# Scoreboard', '', *_reading(overall, scored, reading), '']
  lines += [f'{_WHAT}{", ".join(factors)}.', '', '## Over all', '']
  lines += [*_extent(scored), '', *_table(overall)]
  lines += [
    '',
    f'![Performance profiles]({PICTURE})',
    '',
    '## By condition',
    '',
  ]
  names = [*conditions.CONDITIONS]
  names += sorted({r.condition for r in usable} - set(names))
  for name in names:
    own = [r for r in usable if r.condition == name]
    if own:
      lines += [f'### {name}', '', *_extent(own), '', *_table(standings(own))]
      lines += ['', *_agreement(name, own, usable)]
  lines += ['## Targets reached, by workload', '']
  workloads = sorted({run.workload for run in scored})
  rows = [['submission', *workloads]]
  for standing in overall:
    mine = [r for r in scored if r.submission == standing.submission]
    shares = [
      np.mean([r.is_reached for r in mine if r.workload == workload])
      for workload in workloads
    ]
    rows.append([standing.submission, *(f'{share:.0%}' for share in shares)])
  return '\n'.join([*lines, *_markdown(rows)]) + '\n'


def _reading(
  overall: Sequence[EntryStanding], runs: Sequence[BoardRun], reading: str
) -> list[str]:
  first, rest = overall[0], overall[1:]
  said = [f'- Over all, {first.submission} is first with {_score(first)}.']
  close = [s.submission for s in rest if s.high >= first.low]
  if close:
    said.append(
      '- The intervals of these overlap with its: ' + ', '.join(close) + '.'
    )
  for name in conditions.SCORED:
    own = [r for r in runs if r.condition == name]
    if own:
      best = standings(own)[0]
      said.append(
        f'- Under {name}: {best.submission} ({best.score:.3f}, '
        f'{best.reached:.0%} of its runs reach the target).'
      )
  return [*said, *(['', reading.strip()] if reading.strip() else [])]


def _extent(runs: Sequence[BoardRun]) -> list[str]:
  cells: dict[tuple[str, str], set[int]] = {}
  for run in runs:
    cells.setdefault((run.condition, run.workload), set()).add(run.seed)
  counts = [len(seeds) for seeds in cells.values()]
  workloads = sorted({workload for _, workload in cells})
  seeds = f'{min(counts)}'
  seeds += f' to {max(counts)}' if max(counts) > min(counts) else ''
  return [f'Workloads: {", ".join(workloads)}. Seeds: {seeds}.']


def _table(found: Sequence[EntryStanding]) -> list[str]:
  rows = [('submission', 'score', 'reached', 'median time / budget', 'broken')]
  for s in found:
    share = (
      f'{s.median_share:.0%}' if math.isfinite(s.median_share) else 'never'
    )
    rows.append(
      (s.submission, _score(s), f'{s.reached:.0%}', share, f'{s.failed}')
    )
  return _markdown(rows)


def _score(standing: EntryStanding) -> str:
  if math.isnan(standing.low):
    return f'{standing.score:.3f} (too few seeds)'
  return f'{standing.score:.3f} [{standing.low:.3f}, {standing.high:.3f}]'


def _agreement(
  name: str, own: Sequence[BoardRun], runs: Sequence[BoardRun]
) -> list[str]:
  """Whether the shortened workloads put the submissions in the same order.

  Nothing is said unless the condition is one at full length.
  """
  short = name.removesuffix('_full')
  same = [r for r in runs if r.condition == short]
  shared = {r.workload for r in own} & {r.workload for r in same}
  if short == name or not shared:
    return []
  long, brief = (
    {
      s.submission: s.score
      for s in standings([r for r in some if r.workload in shared], draws=1)
    }
    for some in (own, same)
  )
  told = ', '.join(f'{s} {score:.3f}' for s, score in brief.items())
  lines = [f'Under `{short}`, on {", ".join(sorted(shared))}: {told}.', '']
  # Of fewer, or of equal scores, there is no rank correlation.
  if len({*long.values()}) > 1 and len({*brief.values()}) > 1:
    tau, _ = stats.kendalltau([long[s] for s in brief], [*brief.values()])
    lines[0] += f" Kendall's rank correlation of the scores: {tau:.2f}."
  return lines


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
  head, *rest = ('| ' + ' | '.join(row) + ' |' for row in rows)
  return [head, '|' + ' --- |' * len(rows[0]), *rest]
