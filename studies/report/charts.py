"""The pictures of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..runs import metric_plot
from .cycles import ReportedCycle
from .drawing import BAND, GREY, INK, LINES, drawing, inline
from .elements import Element
from .reading import ReportedRun

_STYLES = ('-', '--', ':', '-.')
_MARKERS = 'osD^vX'
_WIDTH = 9.0  # inches of 72 px; the page makes it as wide as it is itself
# Of cycles whose numbers are written, and of evaluations that get a symbol.
_MOST_NUMBERS, _MOST_SYMBOLS = 30, 60
# Of a legend: runs, and characters of their names.
_PER_ROW, _NAME = 2, 60


def overview(
  runs: Sequence[tuple[int, ReportedRun]], name: str, over_time: bool
) -> Element:
  """The metric of several runs of one workload, and their target.

  Args:
    runs: with their numbers on the page.
    name: of the picture on the page.
    over_time: over seconds of training instead of steps.
  """
  table = runs[0][1].table
  x = 'seconds of training' if over_time else 'global step'
  with drawing():
    rows = math.ceil(len(runs) / _PER_ROW)
    figure = Figure(figsize=(_WIDTH, 3.1 + 0.2 * rows), layout='constrained')
    axes = figure.subplots()
    for place, (number, run) in enumerate(runs):
      _line(axes, place, number, run, over_time)
    axes.axhline(table.target, color=INK, linestyle=(0, (6, 3)), linewidth=1)
    values = np.concatenate([run.table.metric for _, run in runs])
    metric_plot.scale_to_target(axes, values, table.target)
    axes.set_xlabel(x)
    axes.set_ylabel(_words(table.metric_name))
    axes.set_xlim(left=0)
    figure.legend(loc='outside lower center', ncols=_PER_ROW, fontsize='small')
    about = f'{table.workload}: {_words(table.metric_name)} over {x}'
    return inline(
      figure,
      name,
      about,
      f'One line per run, {len(runs)} in all, and dashed the target, '
      f'{table.target:.4g}. The tables have the numbers.',
    )


def _line(
  axes: Axes, place: int, number: int, run: ReportedRun, over_time: bool
) -> None:
  table = run.table
  x = table.eval_times if over_time else table.eval_steps
  color = LINES[place % len(LINES)]
  style = _STYLES[place // len(LINES) % len(_STYLES)]
  axes.plot(
    x,
    table.metric,
    color=color,
    linestyle=style,
    linewidth=1.4,
    marker=_MARKERS[place % len(_MARKERS)],
    markersize=3,
    markevery=max(len(x) // 20, 1),
    label=f'run {number}: {_shortened(run.name)}',
  )
  if run.reached is not None:
    axes.plot(
      x[run.reached], table.metric[run.reached], '*', color=color, markersize=11
    )


def course(
  number: int, run: ReportedRun, cycles: Sequence[ReportedCycle]
) -> Element:
  """Metric, learning rate and tau of one run over its steps.

  Args:
    number: of the run on the page.
    run: to draw.
    cycles: those of the run.
  """
  table = run.table
  heights = [3.0]
  heights += [1.6] if table.rates.size else []
  heights += [1.0] if table.resets else []
  with drawing():
    figure = Figure(figsize=(_WIDTH, 0.5 + sum(heights)), layout='constrained')
    panels = figure.subplots(
      len(heights),
      sharex=True,
      squeeze=False,
      gridspec_kw={'height_ratios': heights},
    )[:, 0]
    metric_plot.draw_metric(panels[0], table)
    if len(table.eval_steps) > _MOST_SYMBOLS:
      panels[0].lines[0].set_marker('')
    if table.rates.size:
      metric_plot.draw_learning_rate(panels[1], table)
    if table.resets:
      _draw_taus(panels[-1], table.resets)
    for panel in panels:
      _band(panel, cycles)
    # A rate is low where a cycle ends, so that there is room in its middle.
    _write_numbers(panels[1 if table.rates.size else 0], cycles)
    panels[-1].set_xlabel('global step')
    panels[-1].set_xlim(0, 1.01 * max(table.last_step, 1))
    return inline(
      figure,
      f'course-{number}',
      f'Run {number}: {table.workload}: {run.name}',
      'Metric with its target, learning rate, and tau at each reset, over '
      'steps. Every other cycle has a grey ground. The tables have the numbers.',
    )


def _draw_taus(axes: Axes, resets: Sequence[tuple[int, float]]) -> None:
  steps, taus = zip(*resets)
  axes.vlines(steps, 0, taus, color=LINES[0], linewidth=1.4)
  axes.plot(steps, taus, 'o', color=LINES[0], markersize=4, clip_on=False)
  axes.set_ylim(0, 1)
  axes.set_ylabel('τ of resets')


def _band(axes: Axes, cycles: Sequence[ReportedCycle]) -> None:
  for cycle in cycles[1::2]:
    axes.axvspan(cycle.begin, cycle.end, color=BAND, zorder=0, linewidth=0)


def _write_numbers(axes: Axes, cycles: Sequence[ReportedCycle]) -> None:
  """The cycles' numbers along the bottom, where there is room for them."""
  last = cycles[-1].end if cycles else 0
  for cycle in cycles:
    if (cycle.end - cycle.begin) * _MOST_NUMBERS < last:
      continue
    axes.annotate(
      cycle.number,
      ((cycle.begin + cycle.end) / 2, 0.0),
      xycoords=('data', 'axes fraction'),
      xytext=(0, 3),
      textcoords='offset points',
      ha='center',
      fontsize='small',
      color=GREY,
    )


def _shortened(name: str) -> str:
  return name if len(name) <= _NAME else f'{name[: _NAME - 1]}…'


def _words(metric: str) -> str:
  return f'{metric.replace("_", " ")} (validation)'
