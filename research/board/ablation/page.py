"""Entries relative to a baseline: steps to the target, targets lost and won.

The baseline is `bare`, the optimizer of SOFT_RESET in one cycle. Runs are
compared pair by pair: the same condition, workload and seed.

  steps     under tuned, near and slow: the geometric mean of the steps to the
            target over the baseline's, of the runs that both reach; beside it
            the targets lost, which only the baseline reaches, and the targets
            won, which only the entry reaches
  targets   under hot, cold, failed, large, small and inputs: how many are
            reached
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....mini_algoperf import files
from ....views.pages import render
from ..runs import BoardRun
from ..workload_sets import SETS

BASELINE = 'bare'
# Where steps are compared, and where reached targets are counted.
STEPS = ('tuned', 'near', 'slow')
TARGETS = ('hot', 'cold', 'failed', 'large', 'small', 'inputs')
_TITLES = {'held_out': 'Held-out set', 'selection': 'Selection set'}
_DRAWS, _SEED, _INTERVAL = 1000, 0, (5, 95)
Pair = tuple[BoardRun, BoardRun]  # an entry's run and the baseline's


class Comparison(NamedTuple):
  """An entry's runs relative to the baseline's."""

  ratio: float  # of steps to the target; NaN if no run of both reaches it
  low: float  # 5th percentile, over draws of seeds; NaN with one seed
  high: float  # 95th
  lost: int  # targets that only the baseline reaches
  won: int  # that only the entry reaches


def pairs_of(
  runs: Sequence[BoardRun], submission: str, condition: str
) -> list[Pair]:
  """The runs of a submission that the baseline has too, beside those."""
  own, baseline = (
    {
      (run.workload, run.seed): run
      for run in runs
      if (run.submission, run.condition) == (name, condition)
    }
    for name in (submission, BASELINE)
  )
  both = sorted(own.keys() & baseline.keys())
  return [(own[key], baseline[key]) for key in both]


def compared(pairs: Sequence[Pair], draws: int = _DRAWS) -> Comparison:
  """Steps and targets; the interval by drawing seeds with replacement.

  The same seeds are drawn for all workloads. A draw without a run that both
  reach is left out.
  """
  logs: dict[int, list[float]] = {run.seed: [] for run, _ in pairs}
  for run, baseline in pairs:
    if run.is_reached and baseline.is_reached:
      ratio = run.share_to_target / baseline.share_to_target
      logs[run.seed].append(math.log(ratio))
  counts = np.array([len(own) for own in logs.values()])
  sums = np.array([sum(own) for own in logs.values()])
  lost, won = (
    sum(pair[i].is_reached > pair[1 - i].is_reached for pair in pairs)
    for i in (1, 0)
  )
  if not counts.sum():
    return Comparison(math.nan, math.nan, math.nan, lost, won)
  low = high = math.nan
  if len(logs) > 1:
    random = np.random.default_rng(_SEED)
    drawn = random.integers(len(logs), size=(draws, len(logs)))
    there = drawn[counts[drawn].sum(axis=1) > 0]
    means = sums[there].sum(axis=1) / counts[there].sum(axis=1)
    low, high = np.exp(np.percentile(means, _INTERVAL))
  ratio = math.exp(sums.sum() / counts.sum())
  return Comparison(ratio, float(low), float(high), lost, won)


def cell(pairs: Sequence[Pair], condition: str) -> str:
  """What the page says of an entry under a condition."""
  if not pairs:
    return ''
  if condition in TARGETS or pairs[0][0].submission == BASELINE:
    reached = sum(run.is_reached for run, _ in pairs)
    return f'{reached} of {len(pairs)}'
  ratio, low, high, lost, won = compared(pairs)
  said = 'none of both' if math.isnan(ratio) else f'{ratio:.2f}'
  if not math.isnan(low):
    said += f' [{low:.2f}, {high:.2f}]'
  return f'{said}, {lost} lost, {won} won' if lost or won else said


def page(runs: Sequence[BoardRun], reading: str = '') -> str:
  """The page, in Markdown; `reading`, a person's findings, comes first.

  Raises:
    ValueError: if there is no run of the baseline, `bare`.
  """
  if all(run.submission != BASELINE for run in runs):
    raise ValueError(
      f'--logs: there is no run of {BASELINE}, the entry of `study`.'
    )
  assigned = [name for names in SETS.values() for name in names]
  there = {run.workload for run in runs}
  parts = {
    _TITLES[key]: [name for name in names if name in there]
    for key, names in SETS.items()
  }
  parts['Other workloads'] = sorted(there - {*assigned})
  suffixes = {'': '', '_full': ', at full length'}
  tables = {}
  for title, workloads in parts.items():
    own = [run for run in runs if run.workload in workloads]
    trained = {run.condition for run in own}
    for suffix, more in suffixes.items():
      known = [c + suffix for c in (*STEPS, *TARGETS)]
      conditions = [c for c in known if c in trained]
      if conditions:
        tables[title + more] = _table(own, workloads, conditions)
  return render(
    pathlib.Path(__file__).with_suffix('.txt'),
    reading=reading.strip(),
    tables=tables,
  )


def _table(
  runs: Sequence[BoardRun], workloads: Sequence[str], conditions: Sequence[str]
) -> dict[str, object]:
  """What the template needs: one row per submission, the baseline first."""
  of = [run for run in runs if run.condition in conditions]
  names = sorted({run.submission for run in of} - {BASELINE})
  rows = [
    [
      name,
      *(
        cell(pairs_of(of, name, c), c.removesuffix('_full')) for c in conditions
      ),
    ]
    for name in (BASELINE, *names)
  ]
  seeds = sorted({run.seed for run in of})
  shown = [name for name in workloads if name in {r.workload for r in of}]
  return {
    'workloads': shown, 'seeds': seeds, 'conditions': conditions, 'rows': rows,
  }  # fmt: skip


def write_page(
  out: pathlib.Path, runs: Sequence[BoardRun], reading: str = ''
) -> None:
  """Writes the page, see `page`."""
  files.write_whole(out, page(runs, reading))
