"""The tables of PEAKS.md: the grid, its seeds, and what was tried."""

from __future__ import annotations

import collections
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .. import run_logs
from .study import FIELDS

# Losses of a cell by (arm, number): the curve.
Curves = Mapping[tuple[str, float], list[float]]
_ARMS = {'share', 'law', 'adamw'}  # without which a cell has no row
_FIXED = 'share', 0.08  # in force before
_LAW = 'law', 0.16
_BY_EPOCH = 'by_epoch', 0.16
_CHAINS = ('chain', 0.16), ('chain_by_epoch', 0.16)
_HEAD = (
  '| task | steps | best share | AdamW | .08: over the best, reaches AdamW '
  '| the law: over the best, reaches AdamW |\n'
  '|---|---|---|---|---|---|'
)
_SEEDS_HEAD = (
  '| task | steps | seeds | below AdamW at the end | seeds that reach AdamW '
  '| after |\n|---|---|---|---|---|---|'
)
_FEW_HEAD = (
  '| task | steps | epochs | AdamW | the law | the law by the epochs '
  '| Cycles | Cycles by the epochs |\n'
  '|---|---|---|---|---|---|---|---|'
)
# Of the tasks whose data end.
_STEPS_PER_EPOCH = {
  'labels_of_2k': 32,
  'labels_of_8k': 128,
  'labels_of_32k': 512,
  'regression_of_8k': 128,
  'clicks_of_32k': 256,
  'images': 312.5,
  'sentences': 2345.4,
}
_TRIED = ('what', 'task', 'steps', 'seed', 'untrained', 'loss')
# The cells of the table of what was tried.
_SOME = (
  ('noisy_labels', 1500),
  ('noisy_labels', 6000),
  ('noisy_labels', 24000),
  ('markov_chain', 1500),
  ('markov_chain', 6000),
  ('clicks', 1500),
  ('clicks', 6000),
  ('images', 300),
)
_SOME_FEW = (
  ('labels_of_2k', 1500),
  ('labels_of_8k', 1500),
  ('labels_of_8k', 6000),
  ('labels_of_32k', 1500),
  ('labels_of_32k', 6000),
  ('digits', 1500),
  ('images', 1500),
  ('images', 6000),
)


class Cell(NamedTuple):
  """A task at a length, with one seed."""

  task: str
  steps: int
  seed: int
  untrained: float
  curves: Curves

  def last(self, arm: str, number: float) -> float:
    """The loss at the end."""
    return self.curves[arm, number][-1]

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

  def over_adamw(self, arm: str, number: float, peak: float) -> float | None:
    """The steps to the loss that AdamW at a peak ends with.

    Returns:
      A fraction of the run; None if the loss is not reached.
    """
    curve = np.asarray(self.curves[arm, number])
    reached = np.flatnonzero(curve <= self.last('adamw', peak))
    return float(reached[0] + 1) / len(curve) if len(reached) else None

  def below_adamw(self, arm: str, number: float, peak: float) -> float:
    """The loss at the end below that of AdamW at a peak.

    Returns:
      A fraction of the way from the untrained loss to AdamW's.
    """
    least = self.last('adamw', peak)
    return (least - self.last(arm, number)) / (self.untrained - least)


def cells(rows: Iterable[Mapping[str, str]]) -> list[Cell]:
  """The cells of a log in the order of lengths, then of the log."""
  curves: dict[tuple[str, int, int], dict[tuple[str, float], list[float]]]
  curves = collections.defaultdict(dict)
  untrained = {}
  for row in rows:
    key = row['task'], int(row['steps']), int(row['seed'])
    losses = [float(loss) for loss in row['losses'].split()]
    curves[key][row['arm'], float(row['number'])] = losses
    untrained[key] = float(row['untrained'])
  keys = sorted(curves, key=lambda key: key[1])
  return [Cell(*key, untrained[key], curves[key]) for key in keys]


def _beside(cell: Cell, arm: str, number: float) -> str:
  share = cell.over_adamw(arm, number, cell.best('adamw'))
  reached = 'never' if share is None else f'{share:.2f}'
  return f'{100 * cell.over_best_share(arm, number):+.1f} %, {reached}'


def table(log: pathlib.Path) -> str:
  """A row for each cell whose arms are all trained with seed 0, in Markdown."""
  lines = [_HEAD]
  for cell in cells(run_logs.read(log, FIELDS)):
    arms = {arm for arm, _ in cell.curves}
    if cell.seed or not _ARMS <= arms or _FIXED not in cell.curves:
      continue
    ends = (
      f'{cell.last(arm, cell.best(arm)):.3f} ({cell.best(arm):g})'
      for arm in ('share', 'adamw')
    )
    beside = (_beside(cell, *arm) for arm in (_FIXED, _LAW))
    parts = (cell.task, f'{cell.steps:,}', *ends, *beside)
    lines.append(f'| {" | ".join(parts)} |')
  return '\n'.join(lines)


def seeds(log: pathlib.Path) -> str:
  """The law beside AdamW at the best peak of seed 0, over seeds, in Markdown.

  A row for each cell of several seeds, seed 0 among them; '' without a cell.
  The loss that is to be reached is AdamW's with the same seed. A run that does
  not reach it counts as infinite in the median.
  """
  groups: dict[tuple[str, int], list[Cell]] = {}
  for cell in cells(run_logs.read(log, FIELDS)):
    if {_LAW[0], 'adamw'} <= {arm for arm, _ in cell.curves}:
      groups.setdefault((cell.task, cell.steps), []).append(cell)
  lines = []
  for (task, steps), own in groups.items():
    peaks = [cell.best('adamw') for cell in own if cell.seed == 0]
    if len(own) == 1 or not peaks:
      continue
    peak = peaks[0]
    below = [100 * cell.below_adamw(*_LAW, peak) for cell in own]
    shares = [cell.over_adamw(*_LAW, peak) or math.inf for cell in own]
    middle = float(np.median(shares))
    parts = (
      f'{task} | {steps:,} | {len(own)}',
      f'{np.median(below):+.1f} [{min(below):+.1f}, {max(below):+.1f}] %',
      f'{sum(map(math.isfinite, shares))}',
      'never' if math.isinf(middle) else f'{middle:.2f}',
    )
    lines.append(f'| {" | ".join(parts)} |')
  return '\n'.join([_SEEDS_HEAD, *lines] if lines else [])


def few(log: pathlib.Path, grid: pathlib.Path) -> str:
  """The law on few data, with and without the epochs, in Markdown.

  A row for each cell of the log that has the law by the epochs. AdamW has the
  peak and the weight decay that end lowest with seed 0. A cell has the median
  of all seeds, the least and the most, and how many these are.

  Args:
    log: of runs by the epochs, and of tasks beside the grid.
    grid: the log of the grid.
  """
  ends: dict[tuple[str, int], dict[tuple[str, float], dict[int, float]]]
  ends = collections.defaultdict(lambda: collections.defaultdict(dict))
  rows = [*run_logs.read(log, FIELDS), *run_logs.read(grid, FIELDS)]
  for cell in cells(rows):
    for arm in cell.curves:
      ends[cell.task, cell.steps][arm][cell.seed] = cell.last(*arm)
  lines = [_FEW_HEAD]
  for (task, steps), arms in ends.items():
    adamws = [arm for arm in arms if arm[0].startswith('adamw')]
    if _BY_EPOCH not in arms or not adamws:
      continue
    best = min(adamws, key=lambda arm: arms[arm][0])
    epochs = steps / _STEPS_PER_EPOCH[task]
    shown = best, _LAW, _BY_EPOCH, *_CHAINS
    texts = (_spread(arms[arm]) if arm in arms else '' for arm in shown)
    lines.append(f'| {task} | {steps:,} | {epochs:.1f} | {" | ".join(texts)} |')
  return '\n'.join(lines)


def _spread(losses: Mapping[int, float]) -> str:
  least, middle, most = np.quantile([*losses.values()], (0, 0.5, 1))
  seeds = f' [{least:.3f}, {most:.3f}], {len(losses)} seeds'
  return f'{middle:.3f}' + (seeds if len(losses) > 1 else '')


def tried(log: pathlib.Path, in_force: pathlib.Path) -> str:
  """A row for the law and for each change that was tried, in Markdown.

  Args:
    log: of what was tried: the loss at the end of a run.
    in_force: the log of the grid.
  """
  ends = {
    ('the law', c.task, c.steps): c
    for c in cells(run_logs.read(in_force, FIELDS))
    if not c.seed
  }
  texts = {
    key: f'{cell.last("law", cell.best("law")):.3f}'
    for key, cell in ends.items()
    if any(arm == 'law' for arm, _ in cell.curves)
  }
  return _losses({**texts, **_ends(log)}, _SOME)


def tried_on_few(log: pathlib.Path) -> str:
  """A row for each weight decay that was tried on few data, in Markdown."""
  return _losses(_ends(log), _SOME_FEW)


# Losses at the end, as text, by (what, task, steps).
_Texts = Mapping[tuple[str, str, int], str]


def _ends(log: pathlib.Path) -> _Texts:
  return {
    (row['what'], row['task'], int(row['steps'])): f'{float(row["loss"]):.3f}'
    for row in run_logs.read(log, _TRIED)
  }


def _losses(texts: _Texts, some: Iterable[tuple[str, int]]) -> str:
  columns = [*some]
  head = ' | '.join(f'{task}, {steps:,}' for task, steps in columns)
  lines = [f'| what | {head} |', '|' + '---|' * (1 + len(columns))]
  for what in dict.fromkeys(what for what, *_ in texts):
    shown = (texts.get((what, *cell), '') for cell in columns)
    lines.append(f'| {what} | {" | ".join(shown)} |')
  return '\n'.join(lines)
