"""metric.png: how a run went, from its files.

Blue, orange and black of Okabe and Ito's palette, which is told apart without
colour vision; each mark has a line style or a symbol of its own besides.
"""

from __future__ import annotations

import math
import pathlib

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from .paths import save_picture
from .plans import scale_rates
from .run_files import RunTable, read_run

PICTURE = 'metric.png'
# Of 'τ = 0.123', as a share of the axis.
_TEXT_WIDTH = 0.11
_BLUE, _ORANGE, _BLACK, _GREY = '#0072B2', '#D55E00', '#000000', '#666666'


def save_metric_plot(log_dir: pathlib.Path) -> pathlib.Path:
  """Reads a trial's folder and writes its metric.png; returns the file."""
  table = read_run(log_dir)
  figure = Figure(dpi=120, layout='constrained')
  figure.set_size_inches(7.5, draw_run(figure, table))
  # Above the axes' own text: taus stand where their title would.
  figure.suptitle(title(table), x=0.01, ha='left')
  path = log_dir / PICTURE
  save_picture(figure, path)
  return path


def draw_run(figure: Figure, table: RunTable) -> float:
  """Draws metric and, where rates are known, learning rate of a run.

  Args:
    figure: without axes.
    table: the run.

  Returns:
    The height that suits the figure, inches.
  """
  if not table.rates.size:
    axes = figure.subplots()
    axes.set_xlabel('global step')
    draw_metric(axes, table)
    return 3.4
  metric_axes, rate_axes = figure.subplots(
    2, 1, sharex=True, gridspec_kw={'height_ratios': [3, 2]}
  )
  draw_learning_rate(rate_axes, table)
  rate_axes.set_xlabel('global step')
  draw_metric(metric_axes, table)
  return 5.2


def title(table: RunTable) -> str:
  """Workload, name and seed of a run, as far as it has them."""
  about = [table.name] if table.name else []
  if table.seed is not None:
    about.append(f'seed {table.seed}')
  return ': '.join([table.workload, *([', '.join(about)] if about else [])])


def draw_metric(axes: Axes, table: RunTable) -> None:
  """Validation metric and target over steps, with resets and switches.

  Args:
    axes: matplotlib axes.
    table: the run.
  """
  axes.plot(
    table.eval_steps,
    table.metric,
    color=_BLUE,
    marker='o',
    markersize=3,
    linewidth=1.4,
    label='validation',
  )
  axes.axhline(
    table.target.value,
    color=_BLACK,
    linestyle='--',
    linewidth=1,
    label=f'target {table.target.value:.4g}',
  )
  scale_to_target(axes, table.metric, table.target.value)
  _mark(axes, table, labelled=True)
  _write_taus(axes, table)
  axes.set_ylabel(table.metric_label)
  axes.set_xlim(0, 1.01 * max(table.last_step, 1))
  axes.legend(loc='best', fontsize='small', framealpha=0.9)


def draw_learning_rate(axes: Axes, table: RunTable) -> None:
  """Learning rate over steps, with the same marks.

  Args:
    axes: matplotlib axes.
    table: the run.
  """
  axes.plot(table.rate_steps, table.rates, color=_BLUE, linewidth=1.4)
  _mark(axes, table, labelled=False)
  axes.set_ylabel('learning rate')
  axes.set_xlim(0, 1.01 * max(table.last_step, 1))
  starts = [step for step, _ in table.resets]
  scale_rates(axes, table.rate_steps, table.rates, starts)


def scale_to_target(axes: Axes, metric: np.ndarray, target: float) -> None:
  """A log axis where a linear one would hide what happens near the target.

  Args:
    axes: matplotlib axes.
    metric: all values that are drawn, the first that of an untrained model.
    target: the metric's target.
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


def _mark(axes: Axes, table: RunTable, labelled: bool) -> None:
  """A dashed line at each reset, a dotted one with a triangle at a switch."""
  for i, (step, _) in enumerate(table.resets):
    label = 'reset, with its τ' if labelled and i == 0 else None
    axes.axvline(step, color=_GREY, linestyle='-.', linewidth=1, label=label)
  for i, (step, _) in enumerate(table.switches):
    label = 'early switch' if labelled and i == 0 else None
    axes.plot(
      [step],
      [0.0],
      transform=axes.get_xaxis_transform(),
      marker='^',
      markersize=8,
      color=_ORANGE,
      linestyle='',
      clip_on=False,
      zorder=5,
      label=label,
    )


def _write_taus(axes: Axes, table: RunTable) -> None:
  """tau over the axes at each reset, but for those too close to be read."""
  written = -math.inf
  for step, tau in table.resets:
    if step - written < _TEXT_WIDTH * table.last_step:
      continue
    written = step
    axes.annotate(
      f'τ = {tau:.3g}',
      (step, 1.0),
      xycoords=('data', 'axes fraction'),
      xytext=(0, 3),
      textcoords='offset points',
      ha='center',
      va='bottom',
      fontsize='small',
      annotation_clip=False,
    )
