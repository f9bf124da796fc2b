"""The thesis' figures, drawn from logs of runs with several seeds.

Blue, vermilion and green stand for full resets, kept momentum and soft resets,
as blue, red and green do in the thesis; they are of Okabe and Ito's palette,
and each has a line style of its own, so that they are told apart without colour
vision and in print.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...mini_algoperf.workloads import WORKLOADS
from ..paths import check_free, save_picture
from ..run_files import RunTable, read_run
from ..run_plot import scale_to_target
from . import registry
from .logs import Job, RunLog
from .registry import ThesisFigure

# Points of a curve whose seeds were not evaluated at the same places.
_NUM_POINTS = 400

# A run's steps and the values of a quantity at them.
Curve = Callable[[RunTable], tuple[np.ndarray, np.ndarray]]


class Band(NamedTuple):
  """A quantity over seeds: median, and quartiles as its spread."""

  x: np.ndarray  # shape=(n,); steps or seconds
  median: np.ndarray  # shape=(n,)
  lower: np.ndarray  # shape=(n,); 25 % of the seeds are below
  upper: np.ndarray  # shape=(n,); 25 % of the seeds are above


class ResetMark(NamedTuple):
  """A reset, the n-th of a run, over its seeds."""

  x: float  # median step or second
  taus: tuple[float, ...]  # one per seed that came so far


def seconds_at(table: RunTable, steps: np.ndarray) -> np.ndarray:
  """Seconds of submission time at some steps, between evaluations on a line.

  Args:
    table: the run, which has been evaluated.
    steps: shape (n,).
  """
  times = np.append(0.0, table.eval_times)
  return np.interp(steps, np.append(0, table.eval_steps), times)


def positions(table: RunTable, steps: np.ndarray, x_axis: str) -> np.ndarray:
  """Where steps are on an axis: the steps themselves, or seconds.

  Args:
    table: the run.
    steps: shape (n,).
    x_axis: 'steps' or 'time'.
  """
  return seconds_at(table, steps) if x_axis == 'time' else np.asarray(steps)


def band(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> Band:
  """Median and quartiles over seeds.

  Args:
    curves: (x, y) of each seed, x ascending. Between its points a seed's curve
      is straight, as it is drawn; where it has ended, or is not finite, the
      others are what is shown.

  Returns:
    The band over all places at which a seed has a point, if all have the same
    ones, and otherwise over evenly spaced ones.
  """
  curves = [(x, y) for x, y in curves if len(x)]
  if not curves:
    return Band(*np.zeros((4, 0)))
  # A seed that ended earlier has the start of the others' points.
  longest = max((x for x, _ in curves), key=len)
  if all(np.array_equal(x, longest[: len(x)]) for x, _ in curves):
    grid = longest
  else:
    end = max(x[-1] for x, _ in curves)
    grid = np.linspace(min(x[0] for x, _ in curves), end, _NUM_POINTS)
  rows = np.array([np.interp(grid, x, y, right=np.nan) for x, y in curves])
  return Band(grid, *_quartiles(rows))


def _quartiles(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Median and quartiles of each column's finite values; NaN if there is none."""
  middle, low, high = np.full((3, rows.shape[1]), np.nan)
  for i, column in enumerate(rows.T):
    finite = column[np.isfinite(column)]
    if finite.size:
      low[i], middle[i], high[i] = np.quantile(finite, (0.25, 0.5, 0.75))
  return middle, low, high


def curve_bands(
  tables: Sequence[RunTable],
  curve: Curve,
  x_axis: str,
) -> list[Band]:
  """A quantity over seeds: one band over steps, over time a curve per seed.

  Machines drift (thesis, figure 3.1): over time the seeds' cycles are out of
  step, and a median of such curves looks like none of them.

  Args:
    tables: a run's seeds.
    curve: gives a seed's (steps, values).
    x_axis: 'steps' or 'time'.
  """
  if x_axis == 'steps':
    return [band([curve(table) for table in tables])]
  points = [(table, *curve(table)) for table in tables]
  return [Band(seconds_at(t, steps), y, y, y) for t, steps, y in points]


def resets(tables: Sequence[RunTable], x_axis: str) -> list[ResetMark]:
  """The resets of a run, each over the seeds that have come so far.

  Over time, several seeds have no place in common: there are none.

  Args:
    tables: a run's seeds.
    x_axis: 'steps' or 'time'.
  """
  if x_axis == 'time' and len(tables) > 1:
    return []
  result = []
  for n in range(max((len(table.resets) for table in tables), default=0)):
    there = [table for table in tables if n < len(table.resets)]
    steps = [
      positions(table, np.array([table.resets[n][0]]), x_axis)[0]
      for table in there
    ]
    taus = tuple(table.resets[n][1] for table in there)
    result.append(ResetMark(float(np.median(steps)), taus))
  return result


def describe_taus(taus: Sequence[float]) -> str:
  """tau, or its median with the lowest and the highest over seeds."""
  middle = f'τ = {np.median(taus):.3g}'
  if len(taus) == 1 or min(taus) == max(taus):
    return middle
  return f'{middle}\n({min(taus):.3g} to {max(taus):.3g})'


_GREY, _PURPLE = '#888888', '#CC79A7'
_WARMUP, _DECAY = '#E69F00', '#56B4E9'

Runs = Mapping[str, Sequence[RunTable]]


def mark_resets(axes: Axes, runs: Runs, x_axis: str) -> None:
  """A vertical line where the seeds' n-th resets are, at their median.

  Args:
    axes: matplotlib axes.
    runs: tables by run, a seed each.
    x_axis: 'steps' or 'time'.
  """
  lines = {
    reset.x for tables in runs.values() for reset in resets(tables, x_axis)
  }
  for x in sorted(lines):
    axes.axvline(x, color=_GREY, linestyle='-.', linewidth=0.8, zorder=1)


def write_taus(axes: Axes, runs: Runs, x_axis: str) -> None:
  """tau over the axes at each reset; that of soft resets, if there are any.

  That of the other modes is no measurement, and is written where nothing else
  would be.

  Args:
    axes: matplotlib axes.
    runs: tables by run, a seed each.
    x_axis: 'steps' or 'time'.
  """
  soft = [name for name in runs if registry.reset_mode(name) == 'soft']
  for name in soft or list(runs)[:1]:
    for reset in resets(runs[name], x_axis):
      axes.annotate(
        describe_taus(reset.taus),
        (reset.x, 1.0),
        xycoords=('data', 'axes fraction'),
        xytext=(0, 3),
        textcoords='offset points',
        ha='center',
        va='bottom',
        fontsize='small',
        annotation_clip=False,
      )


def mark_switches(axes: Axes, runs: Runs, x_axis: str) -> None:
  """A triangle on the axis for every early switch of every seed.

  Args:
    axes: matplotlib axes.
    runs: tables by run, a seed each.
    x_axis: 'steps' or 'time'.
  """
  xs = [
    x
    for tables in runs.values()
    for table in tables
    for x in positions(
      table, np.array([step for step, _ in table.switches]), x_axis
    )
  ]
  if xs:
    axes.plot(
      xs,
      np.zeros(len(xs)),
      transform=axes.get_xaxis_transform(),
      marker='^',
      markersize=7,
      color=_PURPLE,
      alpha=0.7,
      linestyle='',
      clip_on=False,
      zorder=5,
      label='early switch',
    )


def shade_phases(axes: Axes, table: RunTable, x_axis: str) -> None:
  """Warm-ups in orange and decays in blue, as in the thesis' figure 2.1.

  Args:
    axes: matplotlib axes.
    table: the run.
    x_axis: 'steps' or 'time'.
  """
  ends = [*table.cycle_starts[1:], table.last_step]
  for i, ((start, middle), end) in enumerate(zip(table.warmups, ends)):
    x = positions(table, np.array([start, middle, end]), x_axis)
    for left, right, color, label in (
      (x[0], x[1], _WARMUP, 'warm-up'),
      (x[1], x[2], _DECAY, 'decay'),
    ):
      axes.axvspan(
        left,
        right,
        color=color,
        alpha=0.3,
        linewidth=0,
        label=None if i else label,
      )


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
  name: str, figure: ThesisFigure, runs: Runs, x_axis: str
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


def _title(name: str, figure: ThesisFigure, runs: Runs, x_axis: str) -> str:
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
    shade_phases(axes, _any_table(runs), x_axis)
    axes.legend(fontsize='small')
  bands = [curve_bands(tables, _rates, x_axis) for tables in runs.values()]
  if _all_equal([one for group in bands for one in group]):
    _draw_band(axes, bands[0][0], None, _PLAIN)
  else:
    _draw_curves(axes, runs, _rates, x_axis)
    axes.legend(fontsize='small')
  mark_resets(axes, runs, x_axis)
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
    table.target.value,
    color='#000000',
    linestyle='--',
    linewidth=0.8,
    label=f'target {table.target.value:.4g}',
  )
  scale_to_target(
    axes,
    np.concatenate([t.metric for ts in runs.values() for t in ts]),
    table.target.value,
  )
  mark_resets(axes, runs, x_axis)
  write_taus(axes, runs, x_axis)
  mark_switches(axes, runs, x_axis)
  axes.set_ylabel(table.metric_label)
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
  mark_resets(axes, runs, x_axis)
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
    style = STYLES[registry.reset_mode(name)]
    bands = curve_bands(tables, curve, x_axis)
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
  end = max(positions(t, np.array([t.last_step]), x_axis)[0] for t in tables)
  axes.set_xlim(0, 1.01 * max(end, 1))
  axes.set_xlabel(X_LABELS[x_axis])
  axes.grid(alpha=0.25, linewidth=0.5)


def wanted_jobs(
  figures: Iterable[ThesisFigure], seeds: Iterable[int]
) -> list[Job]:
  """The runs of the figures with all seeds, seed by seed."""
  figures = tuple(figures)
  return [
    Job(figure.workload.stand_in, name, seed)
    for seed in seeds
    for figure in figures
    for name in figure.runs
  ]


def draw_all(
  figures: Mapping[str, ThesisFigure],
  logs: Sequence[RunLog],
  out: pathlib.Path,
  x_axis: str | None,
  overwrite: bool = True,
) -> Iterator[pathlib.Path]:
  """Draws each figure once for each workload that has logs of all its runs.

  Args:
    figures: by their names.
    logs: all logs; seeds beyond those asked for are shown as well.
    out: folder of the pictures.
    x_axis: 'steps' or 'time'; None: each figure's own.
    overwrite: whether pictures may be replaced.

  Yields:
    The pictures' paths, <figure>_<workload>.png.

  Raises:
    ValueError: if a picture would be replaced unasked.
  """
  # Most runs are in several figures.
  read = functools.lru_cache(maxsize=None)(read_run)
  for workload in sorted({log.job.workload for log in logs}):
    for name, figure in figures.items():
      runs = {
        run: [log for log in logs if log.job[:2] == (workload, run)]
        for run in figure.runs
      }
      if not all(runs.values()) or not _is_shown_on(figure, workload):
        continue
      path = out / f'{name}_{workload}.png'
      check_free(path, overwrite)
      picture = draw_figure(
        name,
        figure,
        {run: [read(log.log_dir) for log in runs[run]] for run in runs},
        x_axis or figure.x_axis,
      )
      save_picture(picture, path)
      yield path


def _is_shown_on(figure: ThesisFigure, workload: str) -> bool:
  """Of our workloads the stand-in alone; of the benchmark's any with logs."""
  return workload == figure.workload.stand_in or workload not in WORKLOADS
