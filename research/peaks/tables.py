"""The table of PEAKS.md: each cell beside its best share and AdamW."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .. import run_logs
from .study import FIELDS

# Losses of a cell by (arm, number): for each seed the curve.
Curves = Mapping[tuple[str, float], list[list[float]]]
_ARMS = {'share', 'law', 'adamw'}  # without which a cell has no row
_HEAD = (
  '| task | steps | best share | AdamW | .08: over the best, reaches AdamW '
  '| the law: over the best, reaches AdamW |\n'
  '|---|---|---|---|---|---|'
)


class Cell(NamedTuple):
  """A task at a length."""

  task: str
  steps: int
  untrained: float
  curves: Curves

  def last(self, arm: str, number: float) -> float:
    """The median of the losses at the end."""
    return float(np.median([c[-1] for c in self.curves[arm, number]]))

  def best(self, arm: str) -> float:
    """The number at which an arm ends lowest."""
    numbers = [number for name, number in self.curves if name == arm]
    return min(numbers, key=lambda number: self.last(arm, number))

  def over_best_share(self, arm: str, number: float) -> float:
    """The loss at the end over the best fixed share's.

    Returns:
      A fraction of the way from the untrained loss to the best share's.
    """
    least = self.last('share', self.best('share'))
    return (self.last(arm, number) - least) / (self.untrained - least)

  def over_adamw(self, arm: str, number: float) -> float | None:
    """The steps to the loss that AdamW at its best peak ends with.

    Returns:
      A fraction of the run, by the curve of medians; None if it is not reached.
    """
    goal = self.last('adamw', self.best('adamw'))
    curve = np.median(self.curves[arm, number], axis=0)
    reached = np.flatnonzero(curve <= goal)
    return float(reached[0] + 1) / len(curve) if len(reached) else None


def cells(rows: Iterable[Mapping[str, str]]) -> list[Cell]:
  """The cells of a log in the order of lengths, then of the log."""
  curves: dict[tuple[str, int], dict[tuple[str, float], list[list[float]]]]
  curves = collections.defaultdict(lambda: collections.defaultdict(list))
  untrained = collections.defaultdict(list)
  for row in rows:
    key = row['task'], int(row['steps'])
    losses = [float(loss) for loss in row['losses'].split()]
    curves[key][row['arm'], float(row['number'])].append(losses)
    untrained[key].append(float(row['untrained']))
  keys = sorted(curves, key=lambda key: key[1])
  return [
    Cell(*key, float(np.median(untrained[key])), curves[key]) for key in keys
  ]


def _beside(cell: Cell, arm: str, number: float) -> str:
  share = cell.over_adamw(arm, number)
  reached = 'never' if share is None else f'{share:.2f}'
  return f'{100 * cell.over_best_share(arm, number):+.1f} %, {reached}'


def table(log: pathlib.Path) -> str:
  """A row for each cell whose arms are all trained, in Markdown."""
  lines = [_HEAD]
  for cell in cells(run_logs.read(log, FIELDS)):
    if not _ARMS <= {arm for arm, _ in cell.curves}:
      continue
    ends = (
      f'{cell.last(arm, cell.best(arm)):.3f} ({cell.best(arm):g})'
      for arm in ('share', 'adamw')
    )
    beside = (_beside(cell, *arm) for arm in (('share', 0.08), ('law', 0.16)))
    parts = (cell.task, f'{cell.steps:,}', *ends, *beside)
    lines.append(f'| {" | ".join(parts)} |')
  return '\n'.join(lines)
