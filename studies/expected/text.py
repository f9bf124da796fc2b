"""Tables of expected progress, and of tau as it results from that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...control.goals import GOALS, Goal
from ...control.goals.expected import CURVES, SHARES
from ..real_runs.reading import RecordedRun
from ..text_table import table_lines
from .curves import QUANTILES, Drawn, curve, progress
from .splits import fails, taus

CYCLES = (6, 12)
_SHOWN = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # of SHARES
_AT = (0.5, 0.9, 0.95, 0.99)
_WIDTH = 130  # workloads have long names


def goals() -> dict[str, Goal]:
  """The goals that are compared, by their names in the tables."""
  found = {'final': GOALS.make('final')}
  for name in CURVES:
    setting = GOALS.read('goal', {'name': 'expected', 'curve': name})
    found[f'expected, {name}'] = GOALS.make(setting)
  return found


def all_lines(runs: Sequence[RecordedRun]) -> list[str]:
  """All tables, each below a line that says what it shows.

  Args:
    runs: as returned by `comparable`.

  Raises:
    ValueError: if no run reaches its target.
  """
  parts = (
    ('Share of the way, by the share of the run:', curve_lines(runs)),
    ('Median, and 5 % quantile, by workload:', workload_lines(runs)),
    (
      "tau at the cycles' ends, linear scale, runs that reach:",
      tau_lines(runs),
    ),
    ('The same on the log scale:', tau_lines(runs, 'log')),
    ('q05, drawn without what it judges:', left_out_lines(runs)),
  )
  found = [[title, *table, ''] for title, table in parts]
  return [line for part in found for line in part][:-1]


def curve_lines(runs: Sequence[RecordedRun]) -> list[str]:
  """The curves from these runs, in the form of `control.goals.expected`."""
  header = ('curve', *(f'{share:g}' for share in SHARES))
  rows = [
    (name, *(_short(point) for point in curve(runs, quantile)))
    for name, quantile in QUANTILES.items()
  ]
  return table_lines([header, *rows])


def workload_lines(runs: Sequence[RecordedRun]) -> list[str]:
  """Median and 5 % quantile of the progress on each workload."""
  places = [SHARES.index(share) for share in _SHOWN]
  header = ('workload', 'runs', *(f'{share:g}' for share in _SHOWN))
  rows = []
  for name in sorted({run.workload.name for run in runs}):
    found = [
      progress(run)
      for run in runs
      if run.workload.name == name and run.reached is not None
    ]
    if found:
      low, middle = np.quantile(found, (0.05, 0.5), axis=0)
      cells = [f'{_short(middle[i])} ({_short(low[i])})' for i in places]
      rows.append((name, str(len(found)), *cells))
  return table_lines([header, *rows], _WIDTH)


def tau_lines(
  runs: Sequence[RecordedRun], distance: str = 'linear'
) -> list[str]:
  """Quantiles of tau at cycles' ends, of runs that reach and of failed ones."""
  reach = [run for run in runs if run.reached is not None]
  failed = [run for run in runs if fails(run)]
  header = ('cycles', 'goal', 'ends', 'tau = 0', 'median')
  header += tuple(f'{at:.0%}' for at in _AT[1:])
  header += ('failed runs: 5 %', 'median')
  rows = []
  for cycles in CYCLES:
    for name, goal in goals().items():
      good = taus(reach, cycles, goal, distance)
      bad = taus(failed, cycles, goal, distance)
      cells = [f'{cycles}', name, f'{good.size:,}', _share_of_zeros(good)]
      cells += [*_quantiles(good, _AT), *_quantiles(bad, (0.05, 0.5))]
      rows.append(cells)
  return table_lines([header, *rows])


def left_out_lines(
  runs: Sequence[RecordedRun], quantile: str = 'q05'
) -> list[str]:
  """The same, with each group judged by the curve of all others."""
  reach = [run for run in runs if run.reached is not None]
  groups: dict[str, Callable[[RecordedRun], str]] = {
    'submission': lambda run: run.submission,
    'workload': lambda run: run.workload.name,
  }
  header = ('left out', 'cycles', 'tau = 0') + tuple(f'{at:.0%}' for at in _AT)
  rows = []
  for label, key in groups.items():
    for cycles in CYCLES:
      found = _left_out(reach, key, cycles, QUANTILES[quantile])
      cells = _share_of_zeros(found), *_quantiles(found, _AT)
      rows.append((label, f'{cycles}', *cells))
  return table_lines([header, *rows])


def _left_out(
  reach: Sequence[RecordedRun],
  key: Callable[[RecordedRun], str],
  cycles: int,
  quantile: float,
) -> np.ndarray:
  found = [np.zeros(0)]
  for name in sorted({key(run) for run in reach}):
    others = [run for run in reach if key(run) != name]
    if others:
      goal = Drawn(tuple(curve(others, quantile)))
      own = [run for run in reach if key(run) == name]
      found.append(taus(own, cycles, goal, 'linear'))
  return np.concatenate(found)


def _share_of_zeros(values: np.ndarray) -> str:
  return f'{np.mean(values == 0):.0%}' if values.size else '–'


def _quantiles(values: np.ndarray, at: Sequence[float]) -> list[str]:
  if not values.size:
    return ['–'] * len(at)
  return [f'{q:.3f}' for q in np.quantile(values, at)]


def _short(share: float) -> str:
  return f'{share:.2f}'.lstrip('0') if share < 0.995 else '1'
