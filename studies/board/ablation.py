"""What a method costs where nothing is wrong, and pays where something is.

It is compared with `bare`, the same optimizer without it, run by run: the same
condition, workload and seed.

  premium   the geometric mean of steps to the target over bare's, of the runs
            that both reach; beside it, as -n and +n, the targets that only bare
            and only the entry reaches
  payout    the targets that are reached where rates or the start are wrong
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files
from ..pages import render
from .logs import BoardRun
from .workload_sets import HALVES

BARE = 'bare'
COSTS, PAYS = ('tuned', 'slow', 'near'), ('hot', 'cold', 'failed')
_DRAWS, _SEED, _INTERVAL = 1000, 0, (5, 95)
Pair = tuple[BoardRun, BoardRun]  # an entry's run and bare's


class Premium(NamedTuple):
  """An entry's runs against bare's."""

  ratio: float  # of steps to the target; NaN if no run of both reaches it
  low: float  # 5th percentile, over draws of seeds; NaN with one seed
  high: float  # 95th
  lost: int  # targets that only bare reaches
  won: int  # that only the entry reaches


def pairs_of(
  runs: Sequence[BoardRun], submission: str, condition: str
) -> list[Pair]:
  """The runs of a submission that bare has as well, beside bare's."""
  own, bare = (
    {
      (run.workload, run.seed): run
      for run in runs
      if (run.submission, run.condition) == (name, condition)
    }
    for name in (submission, BARE)
  )
  return [(own[key], bare[key]) for key in sorted(own.keys() & bare.keys())]


def premium_of(pairs: Sequence[Pair], draws: int = _DRAWS) -> Premium:
  """The premium; its interval by drawing seeds with replacement.

  The same seeds are drawn for all workloads. A draw without a run that both
  reach is left out.
  """
  logs: dict[int, list[float]] = {run.seed: [] for run, _ in pairs}
  for run, bare in pairs:
    if run.is_reached and bare.is_reached:
      ratio = run.share_to_target / bare.share_to_target
      logs[run.seed].append(math.log(ratio))
  counts = np.array([len(own) for own in logs.values()])
  sums = np.array([sum(own) for own in logs.values()])
  lost, won = (
    sum(pair[i].is_reached > pair[1 - i].is_reached for pair in pairs)
    for i in (1, 0)
  )
  if not counts.sum():
    return Premium(math.nan, math.nan, math.nan, lost, won)
  low = high = math.nan
  if len(logs) > 1:
    random = np.random.default_rng(_SEED)
    drawn = random.integers(len(logs), size=(draws, len(logs)))
    there = drawn[counts[drawn].sum(axis=1) > 0]
    means = sums[there].sum(axis=1) / counts[there].sum(axis=1)
    low, high = np.exp(np.percentile(means, _INTERVAL))
  ratio = math.exp(sums.sum() / counts.sum())
  return Premium(ratio, float(low), float(high), lost, won)


def cell(pairs: Sequence[Pair], condition: str) -> str:
  """What the page says of an entry under a condition."""
  if not pairs:
    return ''
  if condition in PAYS or pairs[0][0].submission == BARE:
    reached = sum(run.is_reached for run, _ in pairs)
    return f'{reached} of {len(pairs)}'
  ratio, low, high, lost, won = premium_of(pairs)
  said = 'none of both' if math.isnan(ratio) else f'{ratio:.2f}'
  if not math.isnan(low):
    said += f' [{low:.2f}, {high:.2f}]'
  return f'{said} -{lost} +{won}' if lost or won else said


def page(
  runs: Sequence[BoardRun], reading: str = '', explained: str = ''
) -> str:
  """The page, in Markdown; `explained` is one that has the definitions.

  Raises:
    ValueError: if there is no run of `bare`.
  """
  if all(run.submission != BARE for run in runs):
    raise ValueError(
      f'--logs: there is no run of {BARE}, the entry of `study`.'
    )
  assigned = [name for half in HALVES.values() for name in half]
  there = {run.workload for run in runs}
  parts = {
    f'Workloads for {half}': [name for name in names if name in there]
    for half, names in HALVES.items()
  }
  parts['Other workloads'] = sorted(there - {*assigned})
  suffixes = {'': '', '_full': ', at their full length'}
  tables = {}
  for title, workloads in parts.items():
    own = [run for run in runs if run.workload in workloads]
    trained = {run.condition for run in own}
    for suffix, more in suffixes.items():
      known = [c + suffix for c in (*COSTS, *PAYS)]
      conditions = [c for c in known if c in trained]
      if conditions:
        tables[title + more] = _table(own, workloads, conditions)
  return render(
    pathlib.Path(__file__).with_suffix('.txt'),
    reading=reading.strip(),
    explained=explained,
    tables=tables,
  )


def _table(
  runs: Sequence[BoardRun], workloads: Sequence[str], conditions: Sequence[str]
) -> dict[str, object]:
  """What the template needs: one row per submission, bare first."""
  of = [run for run in runs if run.condition in conditions]
  names = sorted({run.submission for run in of} - {BARE})
  rows = [
    [
      name,
      *(
        cell(pairs_of(of, name, c), c.removesuffix('_full')) for c in conditions
      ),
    ]
    for name in (BARE, *names)
  ]
  seeds = sorted({run.seed for run in of})
  shown = [name for name in workloads if name in {r.workload for r in of}]
  return {
    'workloads': shown, 'seeds': seeds, 'conditions': conditions, 'rows': rows,
  }  # fmt: skip


def write_page(
  out: pathlib.Path, runs: Sequence[BoardRun], reading: str = ''
) -> None:
  """Writes the page; beside a ABLATION.md it refers to that."""
  main = out.with_name('ABLATION.md')
  explained = main.name if main != out and main.exists() else ''
  files.write_whole(out, page(runs, reading, explained))
