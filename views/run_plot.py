"""metric.png: how a run went, from its files.

Blue, orange and black are from Okabe and Ito's palette, which is readable
without colour vision. Each mark also has a line style or a symbol of its own.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from .pictures import save_picture
from .run_files import RunTable, read_run

PICTURE = 'metric.png'
# The width of 'τ = 0.123', as a share of the axis.
_TEXT_WIDTH = 0.11
_BLUE, _ORANGE, _BLACK, _GREY = '#0072B2', '#D55E00', '#000000', '#666666'
# Peaks with a larger ratio need a logarithmic axis.
FAR_APART = 10.0


def save_metric_plot(log_dir: pathlib.Path) -> pathlib.Path:
  """Reads a trial's folder and writes its metric.png; returns the file."""
  table = read_run(log_dir)
  figure = Figure(dpi=120, layout='constrained')
  figure.set_size_inches(7.5, draw_run(figure, table))
  # Workload, name and seed, above the axes' own text: taus stand where their
  # title would.
  seed = None if table.seed is None else f'seed {table.seed}'
  about = ', '.join(filter(None, (table.name, seed)))
  title = ': '.join(filter(None, (table.workload, about)))
  figure.suptitle(title, x=0.01, ha='left')
  save_picture(figure, log_dir / PICTURE)
  return log_dir / PICTURE


def draw_run(figure: Figure, table: RunTable) -> float:
  """Draws metric and, where rates are known, learning rate of a run.

  Returns the height that suits the figure, in inches.
  """
  if not table.rates.size:
    axes = figure.subplots()
    axes.set_xlabel('global step')
    draw_metric(axes, table)
    return 3.4
  metric_axes, rate_axes = figure.subplots(
    2, 1, sharex=True, gridspec_kw={'height_ratios': [3, 2]}
  )
  rate_axes.plot(table.rate_steps, table.rates, color=_BLUE, linewidth=1.4)
  _mark(rate_axes, table, (None, None))
  rate_axes.set_ylabel('learning rate')
  starts = [step for step, _ in table.resets]
  scale_rates(rate_axes, table.rate_steps, table.rates, starts)
  rate_axes.set_xlabel('global step')
  draw_metric(metric_axes, table)
  return 5.2


def draw_metric(axes: Axes, table: RunTable) -> None:
  """Validation metric and target over steps, with resets and switches."""
  axes.plot(
    table.eval_steps,
    table.metric,
    color=_BLUE,
    marker='o',
    markersize=3,
    linewidth=1.4,
    label='validation',
  )
  draw_target(axes, table)
  scale_to_target(axes, table.metric, table.target.value)
  _mark(axes, table, (_reset_label(table), 'early switch'))
  written = -math.inf
  for step, tau in table.resets:
    # A text too close to the last text could not be read.
    if step - written >= _TEXT_WIDTH * table.last_step:
      written = step
      write_above(axes, step, f'τ = {tau:.3g}')
  axes.set_ylabel(table.metric_label)
  axes.legend(loc='best', fontsize='small', framealpha=0.9)


def _reset_label(table: RunTable) -> str:
  """Says that a jump after τ = 0 does not come from the reset."""
  if all(tau > 0 for _, tau in table.resets):
    return 'reset, with its τ'
  return 'reset, with its τ; τ = 0 keeps the model:\nthe higher rate moves it'


def draw_target(axes: Axes, table: RunTable) -> None:
  """A dashed line at the target."""
  axes.axhline(
    table.target.value,
    color=_BLACK,
    linestyle='--',
    linewidth=0.8,
    label=f'target {table.target.value:.4g}',
  )


def scale_to_target(axes: Axes, metric: np.ndarray, target: float) -> None:
  """A log axis where a linear one would hide what happens near the target.

  The first value of the metric is that of an untrained model.
  """
  values = metric[np.isfinite(metric)]
  if (
    values.size > 0
    and values[0] > target > 0  # the metric falls
    and values.min() > 0
    and values.max() / min(values.min(), target) > 20
  ):
    axes.set_yscale('log')
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FormatStrFormatter('%g'))
    axes.yaxis.set_minor_formatter(NullFormatter())


def scale_rates(
  axes: Axes, steps: np.ndarray, values: np.ndarray, starts: Sequence[int]
) -> None:
  """Makes the y axis logarithmic if cycles' highest values are far apart.

  The values, none below 0, are those at the steps; starts are the first steps
  of all cycles but the first.
  """
  parts = np.split(values, np.searchsorted(steps, starts))
  highest = [float(part.max()) for part in parts if part.size]
  if highest and max(highest) > FAR_APART * min(highest) > 0:
    axes.set_yscale('log')
    axes.set_ylim(bottom=min(highest) / FAR_APART)
  else:
    axes.set_ylim(bottom=0)


def mark_switches(
  axes: Axes, steps: Sequence[float], color: Any, label: str | None
) -> None:
  """A triangle on the horizontal axis at each early switch."""
  if steps:
    axes.plot(
      steps,
      np.zeros(len(steps)),
      transform=axes.get_xaxis_transform(),
      marker='^',
      markersize=7,
      color=color,
      linestyle='',
      clip_on=False,
      zorder=5,
      label=label,
    )


def write_above(axes: Axes, x: float, text: str) -> None:
  """Writes over the axes, where their title would stand."""
  axes.annotate(
    text,
    (x, 1.0),
    xycoords=('data', 'axes fraction'),
    xytext=(0, 3),
    textcoords='offset points',
    ha='center',
    va='bottom',
    fontsize='small',
    annotation_clip=False,
  )


def _mark(
  axes: Axes, table: RunTable, labels: tuple[str | None, str | None]
) -> None:
  """A dash-dotted line at each reset, a triangle at each switch."""
  for i, (step, _) in enumerate(table.resets):
    label = None if i else labels[0]
    axes.axvline(step, color=_GREY, linestyle='-.', linewidth=1, label=label)
  mark_switches(axes, [step for step, _ in table.switches], _ORANGE, labels[1])
  axes.set_xlim(0, 1.01 * max(table.last_step, 1))
