"""The tables of PEAKS.md: the grid, its seeds, and what was tried."""

from __future__ import annotations

import collections
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import run_logs
from .study import ARMS, FIELDS

_Key = tuple[str, float]  # name; share or peak
Curves = Mapping[_Key, list[float]]  # losses of a cell
_NAMES = {'share', 'law', 'adamw'}  # without which a cell has no row
_GRID = tuple((name, x) for name in sorted(_NAMES) for x in ARMS[name].numbers)
_FIXED = 'share', 0.08  # in force before
_LAW = 'law', ARMS['law'].numbers[0]
_WITHOUT_EPOCHS = 'law_without_epochs', _LAW[1]
_CHAINS = ('chain_without_epochs', _LAW[1]), ('chain', _LAW[1])
_HEAD = (
  '| task | steps | best share | AdamW | .08: over the best, reaches AdamW '
  '| the law: over the best, reaches AdamW |\n'
  '|---|---|---|---|---|---|'
)
_SEEDS_HEAD = (
  '| task | steps | seeds | below AdamW at the end | seeds that reach AdamW '
  '| after |\n|---|---|---|---|---|---|'
)
_OVER_SEEDS_HEAD = (
  '| task | steps | seeds | best share | AdamW | the law '
  '| over the best share | below AdamW |\n|---|---|---|---|---|---|---|---|'
)
_FEW_HEAD = (
  '| task | steps | epochs | AdamW | without the epochs | the law '
  '| Cycles without the epochs | Cycles |\n'
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

  def last(self, arm: _Key) -> float:
    """The loss at the end."""
    return self.curves[arm][-1]

  def best(self, name: str) -> _Key:
    """The arm of a name that ends lowest."""
    return min((arm for arm in self.curves if arm[0] == name), key=self.last)

  def over(self, arm: _Key, other: _Key) -> float:
    """The loss at the end over that of another arm.

    Returns:
      A fraction of the way from the untrained loss to the other arm's.
    """
    least = self.last(other)
    return (self.last(arm) - least) / (self.untrained - least)

  def reaches(self, arm: _Key, other: _Key) -> float | None:
    """The steps to the loss that another arm ends with.

    Returns:
      A fraction of the run; None if the loss is not reached.
    """
    curve = np.asarray(self.curves[arm])
    reached = np.flatnonzero(curve <= self.last(other))
    return float(reached[0] + 1) / len(curve) if len(reached) else None


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


def _beside(cell: Cell, arm: _Key) -> str:
  share = cell.reaches(arm, cell.best('adamw'))
  reached = 'never' if share is None else f'{share:.2f}'
  return f'{100 * cell.over(arm, cell.best("share")):+.1f} %, {reached}'


def _end(loss: float, arm: _Key) -> str:
  return f'{loss:.3f} ({arm[1]:g})'


def _groups(
  log: pathlib.Path, names: set[str]
) -> dict[tuple[str, int], list[Cell]]:
  """The cells of each task and length that have arms of all these names."""
  groups: dict[tuple[str, int], list[Cell]] = {}
  for cell in cells(run_logs.read(log, FIELDS)):
    if names <= {name for name, _ in cell.curves}:
      groups.setdefault((cell.task, cell.steps), []).append(cell)
  return groups


def table(log: pathlib.Path) -> str:
  """A row for each cell whose arms are all trained with seed 0, in Markdown."""
  lines = [_HEAD]
  for cell in cells(run_logs.read(log, FIELDS)):
    if cell.seed or not cell.curves.keys() >= {*_GRID}:
      continue
    best = [cell.best(name) for name in ('share', 'adamw')]
    ends = (_end(cell.last(arm), arm) for arm in best)
    beside = (_beside(cell, arm) for arm in (_FIXED, _LAW))
    parts = (cell.task, f'{cell.steps:,}', *ends, *beside)
    lines.append(f'| {" | ".join(parts)} |')
  return '\n'.join(lines)


def seeds(log: pathlib.Path) -> str:
  """The law beside AdamW at the best peak of seed 0, over seeds, in Markdown.

  A row for each cell of several seeds, seed 0 among them; '' without a cell.
  The loss that is to be reached is AdamW's with the same seed. A run that does
  not reach it counts as infinite in the median.
  """
  lines = []
  for (task, steps), own in _groups(log, {_LAW[0], 'adamw'}).items():
    first = next((cell for cell in own if cell.seed == 0), None)
    if first is None:
      continue
    peak = first.best('adamw')
    own = [cell for cell in own if {_LAW, peak} <= cell.curves.keys()]
    if len(own) < 2:
      continue
    below = [-100 * cell.over(_LAW, peak) for cell in own]
    shares = [cell.reaches(_LAW, peak) or math.inf for cell in own]
    middle = float(np.median(shares))
    parts = (
      f'{task} | {steps:,} | {len(own)}',
      _percent(below),
      f'{sum(map(math.isfinite, shares))}',
      'never' if math.isinf(middle) else f'{middle:.2f}',
    )
    lines.append(f'| {" | ".join(parts)} |')
  return '\n'.join([_SEEDS_HEAD, *lines] if lines else [])


def over_seeds(log: pathlib.Path) -> str:
  """The law beside the share and the peak that are best over seeds.

  A row, in Markdown, for each cell of several seeds with all shares and peaks;
  '' without a cell. Best is what ends lowest in the median. The law is compared
  with the run of the same seed.
  """
  lines = []
  for (task, steps), found in _groups(log, _NAMES).items():
    own = [cell for cell in found if cell.curves.keys() >= {*_GRID}]
    if len(own) < 2:
      continue
    middle = {
      arm: float(np.median([cell.last(arm) for cell in own])) for arm in _GRID
    }
    share, adamw = (
      min((arm for arm in _GRID if arm[0] == name), key=middle.__getitem__)
      for name in ('share', 'adamw')
    )
    over = [100 * cell.over(_LAW, share) for cell in own]
    below = [-100 * cell.over(_LAW, adamw) for cell in own]
    parts = (
      f'{task} | {steps:,} | {len(own)}',
      *(_end(middle[arm], arm) for arm in (share, adamw)),
      f'{middle[_LAW]:.3f}',
      *map(_percent, (over, below)),
    )
    lines.append(f'| {" | ".join(parts)} |')
  return '\n'.join([_OVER_SEEDS_HEAD, *lines] if lines else [])


def few(log: pathlib.Path, grid: pathlib.Path) -> str:
  """The law on few data, with and without the epochs, in Markdown.

  A row for each cell that has the law with them and without. AdamW has the peak
  and the weight decay that end lowest with seed 0. A cell has the median of all
  seeds, the least and the most, and how many these are.

  Args:
    log: of tasks beside the grid, and of further weight decays of AdamW.
    grid: the log of the grid.
  """
  ends: dict[tuple[str, int], dict[tuple[str, float], dict[int, float]]]
  ends = collections.defaultdict(lambda: collections.defaultdict(dict))
  rows = [*run_logs.read(log, FIELDS), *run_logs.read(grid, FIELDS)]
  for cell in cells(rows):
    for arm in cell.curves:
      ends[cell.task, cell.steps][arm][cell.seed] = cell.last(arm)
  lines = [_FEW_HEAD]
  for (task, steps), arms in ends.items():
    adamws = [arm for arm in arms if arm[0].startswith('adamw')]
    if not {_WITHOUT_EPOCHS, _LAW} <= arms.keys() or not adamws:
      continue
    best = min(adamws, key=lambda arm: arms[arm][0])
    epochs = steps / _STEPS_PER_EPOCH[task]
    shown = best, _WITHOUT_EPOCHS, _LAW, *_CHAINS
    texts = (_spread(arms[arm]) if arm in arms else '' for arm in shown)
    lines.append(f'| {task} | {steps:,} | {epochs:.1f} | {" | ".join(texts)} |')
  return '\n'.join(lines)


def _percent(found: Sequence[float]) -> str:
  return f'{np.median(found):+.1f} [{min(found):+.1f}, {max(found):+.1f}] %'


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
    key: f'{cell.last(_LAW):.3f}'
    for key, cell in ends.items()
    if _LAW in cell.curves
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
