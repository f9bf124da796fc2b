"""Which of joined rules abandons a chain first, and what becomes of the run.

Runs of an entry are held against those of a baseline that differs from it in
the switching rule alone: the same condition, workload and seed. Up to the
evaluation at which a rule speaks that the baseline does not have, both runs are
the same.

A table by condition has a row for each speaker, such as ChainLossRule:

  runs      of the entry in which it abandoned the first chain; `nobody`: none
            was abandoned
  reached   how many of them reach their target, and how many of the baseline's
  steps     to the target over the baseline's, and targets lost and won, as in
            ablation/page.py
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence

from ...engine.records import CYCLES
from ...mini_algoperf import files
from .. import run_logs
from . import runs as logs
from .ablation.page import Pair, compared
from .runs import BoardRun

NOBODY = 'nobody'
HEAD = ('condition', 'spoke first', 'runs', 'reached', 'of the baseline')
_COMPARED = ('steps', 'lost', 'won')


def first_speaker(cycles: pathlib.Path) -> str:
  """Who abandoned the first chain, by a run's cycles.csv; `nobody` if none."""
  for row in files.read_rows(cycles):
    if row['event'] == 'abandon':
      return run_logs.speakers(row['reason'])
  return NOBODY


def rows(root: pathlib.Path, entry: str, baseline: str) -> list[Sequence[str]]:
  """The table, head first.

  Args:
    root: of a study's runs; archives have no cycles.csv.
    entry, baseline: submissions of the study.

  Raises:
    ValueError: if there is no run that both have.
  """
  runs = logs.read_runs(root)
  own, other = (
    {(r.condition, r.workload, r.seed): r for r in runs if r.submission == name}
    for name in (entry, baseline)
  )
  both = sorted(own.keys() & other.keys())
  if not both:
    raise ValueError(
      f'{root} has no runs of {entry} and {baseline} under the same condition.'
    )
  found: dict[tuple[str, str], list[Pair]] = {}
  for key in both:
    speaker = first_speaker(_place(root, own[key]) / CYCLES)
    pair = own[key], other[key]
    for name in ('all', speaker):
      found.setdefault((key[0], name), []).append(pair)
  cells = [(*key, *_cells(pairs)) for key, pairs in sorted(found.items())]
  return [(*HEAD, *_COMPARED), *cells]


def _place(root: pathlib.Path, run: BoardRun) -> pathlib.Path:
  study = root / run.condition / run.submission / f'study_{run.seed}'
  return study / f'{run.workload}_jax' / 'trial_1'


def _cells(pairs: Sequence[Pair]) -> Iterable[str]:
  found = compared(pairs)
  reached = [sum(run.is_reached for run in column) for column in zip(*pairs)]
  steps = f'{found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]'
  return map(str, (len(pairs), *reached, steps, found.lost, found.won))
