"""The thesis' figures, drawn from tables of runs.

Blue, vermilion and green stand for full resets, kept momentum and soft resets,
as blue, red and green do in the thesis; they are of Okabe and Ito's palette,
and each has a line style of its own, so that they are told apart without colour
vision and in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...experiments import thesis
from ..runs.metric_plot import scale_to_target
from ..runs.table import RunTable
from . import figure_data, figure_marks
from .figure_data import Band, Curve
from .figure_marks import Runs

X_LABELS = {'steps': 'global step', 'time': 'seconds of submission time'}
_Y_LABELS = {
  'loss': 'validation loss L',
  'smoothed_loss': 'smoothed validation loss l',
  'loss_change': "change of l per evaluation, l'",
}


class Style(NamedTuple):
  """How the runs of a reset mode are drawn."""

  label: str
  color: str
  line: str | tuple[int, tuple[float, ...]]  # solid, or dashes and gaps


_PLAIN = Style('', '#000000', '-')
STYLES = {
  'full': Style('full reset', '#0072B2', (0, (6, 2))),
  'kept_momentum': Style('kept momentum', '#D55E00', (0, (4, 1.5, 1, 1.5))),
  'soft': Style('soft reset', '#009E73', '-'),
  'cyclic': Style('no reset (cyclic)', '#444444', (0, (1.5, 1))),
}


def draw_figure(
  name: str, figure: thesis.ThesisFigure, runs: Runs, x_axis: str
) -> Figure:
  """A figure of the thesis: the schedule's panel and, beside it, the metric's.

  Args:
    name: the figure's, such as 'fig3.8a'.
    figure: what it shows.
    runs: the tables of its runs, a seed each; at least one run, all on one
      workload.
    x_axis: 'steps' or 'time'.

  Returns:
    A matplotlib figure without a canvas.
  """
  if figure.shows == 'schedule':
    picture = Figure(figsize=(7.0, 3.4), dpi=120, layout='constrained')
    draw_schedule(picture.subplots(), runs, x_axis, phases=True)
  else:
    picture = Figure(figsize=(10.5, 3.9), dpi=120, layout='constrained')
    schedule, metric = picture.subplots(
      1, 2, gridspec_kw={'width_ratios': [2, 3]}
    )
    draw_schedule(schedule, runs, x_axis, phases=False)
    if figure.shows == 'metric':
      draw_metric(metric, runs, x_axis)
    else:
      draw_losses(metric, runs, x_axis, figure.shows)
  picture.suptitle(
    _title(name, figure, runs, x_axis), fontsize='medium', x=0.01, ha='left'
  )
  return picture


def _title(
  name: str, figure: thesis.ThesisFigure, runs: Runs, x_axis: str
) -> str:
  counts = sorted({len(tables) for tables in runs.values()})
  seeds = ' to '.join(map(str, counts[:: max(len(counts) - 1, 1)]))
  text = f'{name}: {figure.title} ({_any_table(runs).workload}'
  if counts == [1]:
    return f'{text}, 1 seed)'
  how = 'median and quartiles' if x_axis == 'steps' else 'a line each'
  return f'{text}, {seeds} seeds: {how})'


def _any_table(runs: Runs) -> RunTable:
  return next(iter(runs.values()))[0]


def draw_schedule(axes: Axes, runs: Runs, x_axis: str, phases: bool) -> None:
  """The learning rate of each run; only the first where all have the same.

  Args:
    axes: matplotlib axes.
    runs: as for `draw_figure`.
    x_axis: 'steps' or 'time'.
    phases: whether to shade warm-ups and decays.
  """
  if phases:
    figure_marks.shade_phases(axes, _any_table(runs), x_axis)
    axes.legend(fontsize='small')
  bands = [
    figure_data.curve_bands(tables, _rates, x_axis) for tables in runs.values()
  ]
  if _all_equal([one for group in bands for one in group]):
    _draw_band(axes, bands[0][0], None, _PLAIN)
  else:
    _draw_curves(axes, runs, _rates, x_axis)
    axes.legend(fontsize='small')
  figure_marks.mark_resets(axes, runs, x_axis)
  axes.set_ylabel('learning rate')
  axes.set_ylim(bottom=0)
  _finish(axes, runs, x_axis)


def draw_metric(axes: Axes, runs: Runs, x_axis: str) -> None:
  """The validation metric of each run, the target, the resets with their tau.

  Args:
    axes: matplotlib axes.
    runs: as for `draw_figure`.
    x_axis: 'steps' or 'time'.
  """
  _draw_curves(axes, runs, _metric, x_axis)
  table = _any_table(runs)
  axes.axhline(
    table.target,
    color='#000000',
    linestyle='--',
    linewidth=0.8,
    label=f'target {table.target:.4g}',
  )
  scale_to_target(
    axes,
    np.concatenate([t.metric for ts in runs.values() for t in ts]),
    table.target,
  )
  figure_marks.mark_resets(axes, runs, x_axis)
  figure_marks.write_taus(axes, runs, x_axis)
  figure_marks.mark_switches(axes, runs, x_axis)
  axes.set_ylabel(f'{table.metric_name.replace("_", " ")} (validation)')
  axes.legend(loc='best', fontsize='small', framealpha=0.9)
  _finish(axes, runs, x_axis)


def draw_losses(axes: Axes, runs: Runs, x_axis: str, shows: str) -> None:
  """What the switching rule sees: L, l or l' of each run.

  Args:
    axes: matplotlib axes.
    runs: as for `draw_figure`.
    x_axis: 'steps' or 'time'.
    shows: 'loss', 'smoothed_loss' or 'loss_change'.
  """

  def curve(table: RunTable) -> tuple[np.ndarray, np.ndarray]:
    return table.losses.steps, getattr(table.losses, shows)

  _draw_curves(axes, runs, curve, x_axis)
  if shows == 'loss_change':
    axes.axhline(0.0, color='#000000', linewidth=0.8)
  figure_marks.mark_resets(axes, runs, x_axis)
  axes.set_ylabel(_Y_LABELS[shows])
  axes.legend(loc='best', fontsize='small', framealpha=0.9)
  _finish(axes, runs, x_axis)


def _rates(table: RunTable) -> tuple[np.ndarray, np.ndarray]:
  return table.rate_steps, table.rates


def _metric(table: RunTable) -> tuple[np.ndarray, np.ndarray]:
  return table.eval_steps, table.metric


def _all_equal(bands: Sequence[Band]) -> bool:
  first = bands[0]
  return all(
    np.array_equal(one.x, first.x) and np.array_equal(one.median, first.median)
    for one in bands[1:]
  )


def _draw_curves(axes: Axes, runs: Runs, curve: Curve, x_axis: str) -> None:
  for name, tables in runs.items():
    style = STYLES[thesis.RUNS[name].reset_mode]
    bands = figure_data.curve_bands(tables, curve, x_axis)
    for i, shown in enumerate(bands):
      _draw_band(axes, shown, None if i else style.label, style)


def _draw_band(
  axes: Axes, shown: Band, label: str | None, style: Style
) -> None:
  axes.plot(
    shown.x,
    shown.median,
    color=style.color,
    linestyle=style.line,
    linewidth=1.5,
    label=label,
  )
  if not np.array_equal(shown.lower, shown.upper, equal_nan=True):
    axes.fill_between(
      shown.x,
      shown.lower,
      shown.upper,
      color=style.color,
      alpha=0.2,
      linewidth=0,
    )


def _finish(axes: Axes, runs: Runs, x_axis: str) -> None:
  tables = [table for tables in runs.values() for table in tables]
  end = max(
    figure_data.positions(t, np.array([t.last_step]), x_axis)[0] for t in tables
  )
  axes.set_xlim(0, 1.01 * max(end, 1))
  axes.set_xlabel(X_LABELS[x_axis])
  axes.grid(alpha=0.25, linewidth=0.5)
