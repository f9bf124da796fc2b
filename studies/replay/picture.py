"""A picture of what rules reach by budget, and of the progress of runs."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ..paths import save_picture
from ..real_runs.reading import RecordedRun
from .cases import Group, Replayed, comparable
from .rules import best_shares

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_COLORS = (
  *('#000000', '#D55E00', '#E69F00', '#0072B2'),
  *('#009E73', '#CC79A7', '#56B4E9'),
)
_LINES = ('-', '--', '-.', ':')
# How runs end, and its color.
_ENDS = {'reach': '#009E73', 'come near': '#0072B2', 'fail': '#D55E00'}
_BUDGETS = np.linspace(0.25, 3.0, 56)
_F = np.linspace(0.02, 1.0, 50)
_NEAR, _FAILS = 0.95, 0.5
_OUTER = (5, 95)  # per cent, the edges of a band


def save_replay(path: pathlib.Path, shown: Sequence[Replayed]) -> None:
  """Draws rules over budgets, and the progress of all runs.

  On the left the share of cases that reach their target, a line per rule; on
  the right the best share of the way so far, its median and a band of 5 to
  95 %.
  """
  figure = Figure(figsize=(11.0, 4.4), dpi=120, layout='constrained')
  left, right = figure.subplots(1, 2)
  for index, one in enumerate(shown):
    left.plot(
      _BUDGETS,
      [_share_reached(one.groups, budget) for budget in _BUDGETS.tolist()],
      color=_COLORS[index % len(_COLORS)],
      linestyle=_LINES[index % len(_LINES)],
      linewidth=1.6,
      label=str(one.rule),
    )
  left.set_xlim(0.0, _BUDGETS[-1])
  left.set_ylim(0.0, 1.0)
  left.set_xlabel('budget as a multiple of the maximum runtime')
  left.set_ylabel('share of cases that reach their target')
  for name, curves in progress_curves([j.run for j in shown[0].judged]).items():
    if len(curves):
      low, high = np.percentile(curves, _OUTER, axis=0)
      color, label = _ENDS[name], f'{name} ({len(curves):,})'
      right.fill_between(_F, low, high, color=color, alpha=0.2, linewidth=0)
      right.plot(_F, np.median(curves, axis=0), color=color, label=label)
  right.set_xlim(0.0, 1.0)
  right.set_ylim(0.0, 1.1)
  right.set_xlabel('f: share of the step hint or of the maximum runtime')
  right.set_ylabel('best share of the way to the target so far')
  for axes, place in ((left, 'lower right'), (right, 'center right')):
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(fontsize='small', loc=place)
  save_picture(figure, path)


def _share_reached(groups: Sequence[Group], factor: float) -> float:
  cases = [case.reached for group in groups for case in group.cases(factor)]
  return sum(cases) / len(cases)


def progress_curves(runs: Sequence[RecordedRun]) -> Mapping[str, np.ndarray]:
  """Best shares of the way, by how runs end, shape=(runs, 50) each.

  On a log scale for metrics that fall. A run that has ended keeps its last
  value, and one that has not been evaluated yet has 0. Runs that come at least
  half, but less than 95 %, of the way are left out.

  Args:
    runs: recorded runs; those that `comparable` leaves out do not count.
  """
  curves: dict[str, list[np.ndarray]] = {name: [] for name in _ENDS}
  for run in comparable(runs):
    best = best_shares(run, logarithmic=True)
    if run.reached is not None:
      name = 'reach'
    elif best[-1] >= _NEAR:
      name = 'come near'
    elif best[-1] < _FAILS:
      name = 'fail'
    else:
      continue
    at = np.searchsorted(run.share, _F, side='right')
    curves[name].append(np.maximum(np.append(0.0, best)[at], 0.0))
  return {name: np.array(found) for name, found in curves.items()}
