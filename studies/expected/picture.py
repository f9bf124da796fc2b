"""A picture of expected progress: the curves, and tau at the ends of cycles."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...control.goals.expected import CURVES, SHARES
from .. import pictures
from ..real_runs.reading import RecordedRun
from .curves import progress
from .splits import fails, taus
from .text import goals

_SIZE = (11, 4.5)
_BANDS = ((0.05, 0.95), (0.25, 0.75))
_COLORS = {
  'final': '#D55E00',
  'expected, q50': '#E69F00',
  'expected, q25': '#0072B2',
  'expected, q05': '#009E73',
}


def save_expected(
  path: pathlib.Path, runs: Sequence[RecordedRun], cycles: int = 12
) -> None:
  """Writes the picture as PNG; an existing file is replaced.

  Args:
    path: file to write.
    runs: recorded runs, at least one of which reaches its target.
    cycles: how many cycles runs are split into.
  """
  figure = Figure(figsize=_SIZE, layout='constrained')
  left, right = figure.subplots(1, 2)
  draw_curves(left, runs)
  draw_taus(right, runs, cycles)
  pictures.save(figure, path)


def draw_curves(axes: Axes, runs: Sequence[RecordedRun]) -> None:
  """Draws bands of the runs that reach their target, and the goal's curves."""
  found = [progress(run) for run in runs if run.reached is not None]
  for band in _BANDS:
    low, high = np.quantile(found, band, axis=0)
    axes.fill_between(SHARES, low, high, color='0.5', alpha=0.2, linewidth=0)
  for name, points in CURVES.items():
    color = _COLORS[f'expected, {name}']
    axes.plot(SHARES, points, color=color, label=name, marker='.')
  axes.set_xlim(0.0, 1.0)
  axes.set_ylim(0.0, 1.05)
  axes.set_xlabel('share of the run')
  axes.set_ylabel('best share of the way so far')
  axes.set_title(f'{len(found):,} runs that reach their target', fontsize=10)
  axes.grid(alpha=0.25, linewidth=0.5)
  axes.legend(loc='lower right', fontsize='small')


def draw_taus(axes: Axes, runs: Sequence[RecordedRun], cycles: int) -> None:
  """Draws the share of cycles' ends with at most a tau; dashed: failed runs."""
  kinds = (
    ('-', [run for run in runs if run.reached is not None]),
    ('--', [run for run in runs if fails(run)]),
  )
  for style, some in kinds:
    for name, goal in goals().items():
      found = np.sort(taus(some, cycles, goal, 'linear'))
      if found.size:
        shares = np.arange(1, found.size + 1) / found.size
        label = name if style == '-' else None
        color = _COLORS[name]
        axes.plot(found, shares, style, color=color, label=label)
  axes.set_xlim(0.0, 1.0)
  axes.set_ylim(0.0, 1.0)
  axes.set_xlabel('tau, linear scale')
  axes.set_ylabel("share of the cycles' ends")
  title = f'{cycles} equal cycles; dashed: runs that fail'
  axes.set_title(title, fontsize=10)
  axes.grid(alpha=0.25, linewidth=0.5)
  axes.legend(loc='lower right', fontsize='small')
