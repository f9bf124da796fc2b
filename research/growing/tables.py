"""The tables of the study of growing data, in Markdown, and its figure."""

from __future__ import annotations

import functools
import itertools
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...views.pictures import save_picture
from .study import (
  ARMS,
  CONDITIONS,
  HELD_OUT,
  SELECTION,
  TAUS,
  Rows,
  arms_of,
  goals_of,
  read,
)
from .tasks import TASKS

LOG = pathlib.Path(__file__).with_name('log.csv')
# The condition and the arms of the picture.
DRAWN = (
  '50 %, long',
  ('fresh', 'go on', 'shrink and perturb', 'soft 0.1', 'soft 0.4'),
)
NEVER = 2.0  # the cost of a run that does not reach the target
_RISES = {'images': True, 'characters': False, 'images_norm': True}
_RISES |= {'molecules': True}


_METRICS = {
  'images': 'accuracy',
  'characters': 'perplexity',
  'images_norm': 'accuracy',
  'molecules': 'mean average precision',
}


class Result(NamedTuple):
  """The last stage of an arm under a condition, seed by seed."""

  costs: np.ndarray  # steps to the target as a share of the stage's, or NEVER
  last: np.ndarray  # metrics
  taus: np.ndarray
  rises: bool
  curves: np.ndarray  # shape=(seeds, evaluations)

  @property
  def reached(self) -> int:
    return int(np.sum(self.costs < NEVER))


Key = tuple[str, str, str]  # task, condition, arm


def results_of(rows: Rows) -> dict[Key, Result]:
  """The results of all tasks and conditions that the log has."""
  found: dict[Key, Result] = {}
  pairs = [*itertools.product(_RISES, CONDITIONS)]
  for task, condition in pairs:
    goals = goals_of(rows, task, condition)
    for arm in arms_of(CONDITIONS[condition]):
      key = task, condition, arm
      own = [r for r in rows if (r['task'], r['condition'], r['arm']) == key]
      if not own:
        continue
      own = [r for r in own if r['part'] == len(goals)]
      curves = np.stack([r['metrics'] for r in own])
      sign = 1 if _RISES[task] else -1
      # The first value is that before the first step.
      has = sign * curves[:, 1:] >= sign * goals[-1]
      share = (np.argmax(has, axis=1) + 1) / has.shape[1]
      costs = np.where(has.any(axis=1), share, NEVER)
      taus = np.array([float(r['tau']) for r in own])
      last = curves[:, -1]
      found[key] = Result(costs, last, taus, _RISES[task], curves)
  return found


def cost(results: dict[Key, Result], tasks: Sequence[str], arm: str) -> float:
  """The geometric mean of the costs over all conditions and seeds."""
  own = [r.costs for (t, _, a), r in results.items() if t in tasks and a == arm]
  return math.exp(np.mean(np.log(np.concatenate(own))))


def _pairs(
  results: dict[Key, Result], tasks: Sequence[str], arm: str, base: str
) -> Iterator[tuple[Result, Result]]:
  for (task, condition, name), result in results.items():
    if task in tasks and name == arm:
      yield result, results[task, condition, base]


def _tally(better: Sequence[np.ndarray]) -> str:
  """Won : lost, of arrays of signs."""
  signs = np.concatenate(better)
  return f'{np.sum(signs > 0)} : {np.sum(signs < 0)}'


def _sooner(one: Result, other: Result) -> np.ndarray:
  return np.sign(other.costs - one.costs)


def _better(one: Result, other: Result) -> np.ndarray:
  sign = 1 if one.rises else -1
  return sign * np.sign(one.last - other.last)


def _row(cells: Sequence[str]) -> str:
  return f'| {" | ".join(cells)} |'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
  line = ['---', *(['--:'] * (len(head) - 1))]
  return [_row(head), _row(line), *map(_row, rows)]


def summary(
  results: dict[Key, Result], tasks: Sequence[str], has_chains: bool
) -> list[str]:
  """All conditions of some tasks together: a row for each arm.

  With chains, the arms that have a chain beside them, and the conditions of two
  parts only, which have chains.
  """
  if has_chains:
    results = {
      key: r for key, r in results.items() if not CONDITIONS[key[1]].is_stream
    }
  base = cost(results, tasks, 'fresh')
  rows = []
  for arm, how in ARMS.items():
    is_chain = how.cycles > 1
    is_beside = is_chain or f'{arm}, chain' in ARMS
    if not is_beside if has_chains else is_chain:
      continue
    own = [r for (t, _, a), r in results.items() if t in tasks and a == arm]
    if not own:
      continue
    reached, count = sum(r.reached for r in own), sum(len(r.last) for r in own)
    cells = [arm, f'{reached} of {count}']
    cells.append(f'{cost(results, tasks, arm) / base:.2f}')
    for other in ('fresh', 'go on'):
      pairs = list(_pairs(results, tasks, arm, other))
      for compare in (_sooner, _better):
        tally = _tally([compare(*pair) for pair in pairs])
        cells.append('' if arm == other else tally)
    rows.append(cells)
  head = ['', 'reached', 'cost over fresh']
  for other in ('fresh', 'go on'):
    head += [f'sooner than {other}', f'better than {other}']
  return _table(head, rows)


def by_condition(results: dict[Key, Result], tasks: Sequence[str]) -> list[str]:
  """The cost over a fresh model's, condition by condition."""
  rows = []
  for arm, how in ARMS.items():
    if how.cycles > 1 or arm == 'fresh':
      continue
    cells = [arm]
    for condition in CONDITIONS:
      own = {k: r for k, r in results.items() if k[1] == condition}
      ratio = cost(own, tasks, arm) / cost(own, tasks, 'fresh')
      cells.append(f'{ratio:.2f}')
    rows.append(cells)
  return _table(['', *CONDITIONS], rows)


def detail(results: dict[Key, Result], task: str) -> list[str]:
  """The conditions of a task: reached, and last metrics, for the one cycle."""
  names = [c for c in CONDITIONS if (task, c, 'fresh') in results]
  rows = []
  for arm in ARMS:
    cells = [arm]
    for condition in names:
      result = results.get((task, condition, arm))
      if result is None:
        cells.append('')
        continue
      low, middle, high = np.percentile(result.last, [25, 50, 75])
      spread = f'{_short(middle)} ({_short(low)}–{_short(high)})'
      cells.append(f'{result.reached}: {spread}')
    rows.append(cells)
  return _table(['', *names], rows)


def _short(value: float) -> str:
  text = f'{value:.3f}' if value < 1 else f'{value:.2f}'
  return text.removeprefix('0')


_SETS = ('Selection', SELECTION), ('Held out', HELD_OUT)


def by_set(results: dict[Key, Result]) -> str:
  """The tables of GROWING_DATA.md."""
  lines: list[str] = []
  for title, tasks in _SETS:
    lines += [f'### {title}: {" and ".join(tasks)}', '']
    lines += [*summary(results, tasks, has_chains=False), '']
    lines += ['The cost over a fresh model under each condition:', '']
    lines += [*by_condition(results, tasks), '']
  return '\n'.join(lines)


def by_task(results: dict[Key, Result]) -> str:
  """The tables of ARMS.md."""
  lines: list[str] = []
  for title, tasks in _SETS:
    lines += [f'## {title}: chains of three cycles', '']
    lines += [*summary(results, tasks, has_chains=True), '']
  for task in (*SELECTION, *HELD_OUT):
    lines += [f'## {task}', '', *detail(results, task), '']
  return '\n'.join(lines)


def text(results: dict[Key, Result]) -> str:
  """The tables of both pages."""
  return f'{by_set(results)}\n{by_task(results)}'


def chosen_tau(results: dict[Key, Result]) -> float:
  """The tau with the least cost on the selection."""
  return min(TAUS, key=lambda tau: cost(results, SELECTION, f'soft {tau}'))


def _missing(rises: bool, y: Any) -> Any:
  """1 - y of a metric that rises; a metric that falls itself."""
  return 1.0 - y if rises else y


def draw(
  results: dict[Key, Result],
  tasks: Sequence[str],
  condition: str,
  arms: Sequence[str],
  path: pathlib.Path,
) -> None:
  """What is missing against steps: medians over the seeds, and quartiles.

  All of every curve is in its frame, and so is the target: on a log scale, of
  1 - y for a metric y that rises.
  """
  from matplotlib.figure import Figure
  from matplotlib.ticker import LogLocator

  figure = Figure(figsize=(10, 7), layout='constrained')
  for axes, task in zip(figure.subplots(2, 2).flat, tasks):
    made = TASKS[task]()
    shown = functools.partial(_missing, made.rises)
    for i, arm in enumerate(arms):
      curves = shown(results[task, condition, arm].curves)
      steps = made.every * np.arange(curves.shape[1])
      low, middle, high = np.percentile(curves, [25, 50, 75], axis=0)
      axes.plot(steps, middle, label=arm, color=f'C{i}')
      axes.fill_between(steps, low, high, color=f'C{i}', alpha=0.2)
    goal = np.median(results[task, condition, 'fresh'].last)
    axes.axhline(shown(goal), color='k', ls='--', lw=0.9, label='target')
    axes.set_yscale('log')
    axes.yaxis.set_minor_locator(LogLocator(subs=(1.5, 2, 3, 4, 6, 8)))
    axes.yaxis.set_major_formatter('{x:g}')
    axes.yaxis.set_minor_formatter('{x:g}')
    axes.set_title(f'{task}: {condition}')
    axes.set_xlabel('steps of the new stage')
    name = _METRICS[task]
    name = f'1 - {name}' if made.rises else name
    axes.set_ylabel(f'{name}; less is better')
    axes.grid(alpha=0.3, which='both')
  figure.axes[0].legend()
  save_picture(figure, path)


def write(log: pathlib.Path, picture: pathlib.Path | None) -> str:
  """The tables, and the tau that the selection chooses; draws the picture, too.

  Raises:
    ValueError: if the log is no table of this study.
  """
  results = results_of(read(log))
  if picture:
    draw(results, (*SELECTION, *HELD_OUT), *DRAWN, picture)
  lines = [text(results), f'The tau of the selection: {chosen_tau(results)}']
  lines += [
    f'  {tau}: {cost(results, SELECTION, f"soft {tau}"):.3f}' for tau in TAUS
  ]
  return '\n'.join(lines)
