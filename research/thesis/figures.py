"""The thesis' figures, drawn from logs of runs with several seeds.

Blue, vermilion and green stand for full resets, kept momentum and soft resets,
as blue, red and green do in the thesis; orange for none. They are of Okabe and
Ito's palette, and each has a line style of its own: they are told apart without
colour vision and in print.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from ...soft_reset import Cyclic, FullReset, KeptMomentum, SoftReset
from ...views.pictures import save_picture
from ...views.run_files import RunTable, read_run
from ...views.run_plot import (
  draw_target,
  mark_switches,
  scale_to_target,
  write_above,
)
from .folders import Job, RunLog
from .premises import PREMISES, held
from .registry import ThesisFigure
from .settings import RUNS

# Points of a curve whose seeds were not evaluated at the same places.
_NUM_POINTS = 400
_GREY, _PURPLE = '#888888', to_rgba('#CC79A7', 0.7)
_PHASES = {'warm-up': '#E69F00', 'decay': '#56B4E9'}
_X_LABELS = {'steps': 'global step', 'time': 'seconds of submission time'}
_LOSS_LABELS = {
  'loss': 'validation loss L',
  'smoothed_loss': 'smoothed validation loss l',
  'loss_change': "change of l per evaluation, l'",
}
# How the runs of a reset mode are drawn: label, color and line style.
_STYLES: Mapping[type, tuple[str, str, Any]] = {
  FullReset: ('full reset', '#0072B2', (0, (6, 2))),
  KeptMomentum: ('kept momentum', '#D55E00', (0, (4, 1.5, 1, 1.5))),
  SoftReset: ('soft reset', '#009E73', '-'),
  Cyclic: ('no reset (cyclic)', '#E69F00', (0, (7, 1.5, 1.5, 1.5))),
}
_SMALL_LEGEND = {'loc': 'best', 'fontsize': 'small', 'framealpha': 0.9}

# A run's steps and the values of a quantity at them, shape=(n,).
Curve = Callable[[RunTable], tuple[np.ndarray, np.ndarray]]
Runs = Mapping[str, Sequence[RunTable]]  # tables by run, a seed each


class Band(NamedTuple):
  """A quantity over seeds: median, and quartiles as its spread."""

  x: np.ndarray  # shape=(n,); steps or seconds
  lower: np.ndarray  # shape=(n,); 25 % of the seeds are below
  median: np.ndarray  # shape=(n,)
  upper: np.ndarray  # shape=(n,); 25 % of the seeds are above


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
  grid = max((x for x, _ in curves), key=len)
  if not all(np.array_equal(x, grid[: len(x)]) for x, _ in curves):
    end = max(x[-1] for x, _ in curves)
    grid = np.linspace(min(x[0] for x, _ in curves), end, _NUM_POINTS)
  rows = np.array([np.interp(grid, x, y, right=np.nan) for x, y in curves])
  quartiles = np.full((3, grid.size), np.nan)
  for i, column in enumerate(rows.T):
    finite = column[np.isfinite(column)]
    if finite.size:
      quartiles[:, i] = np.quantile(finite, (0.25, 0.5, 0.75))
  return Band(grid, *quartiles)


def places(table: RunTable, steps: Any, x_axis: str) -> np.ndarray:
  """Where steps are on an axis: 'steps', or 'time' in seconds.

  Seconds are those of submission time, on a line between evaluations.
  """
  if x_axis == 'steps':
    return np.asarray(steps)
  times = np.append(0.0, table.eval_times)
  return np.interp(steps, np.append(0, table.eval_steps), times)


def describe_taus(taus: Sequence[float]) -> str:
  """tau, or its median with the lowest and the highest over seeds."""
  middle = f'τ = {np.median(taus):.3g}'
  if len(taus) == 1 or min(taus) == max(taus):
    return middle
  return f'{middle}\n({min(taus):.3g} to {max(taus):.3g})'


def in_step(runs: Runs, x_axis: str) -> bool:
  """Whether a run's seeds start their cycles at the same places of an axis.

  Machines drift (thesis, figure 3.1), and early switches come where they come:
  a median of curves that are out of step looks like none of them.
  """
  starts = [
    {tuple(table.cycle_starts) for table in tables} for tables in runs.values()
  ]
  return x_axis == 'steps' and all(len(found) == 1 for found in starts)


def shown_seed(runs: Runs) -> int | None:
  """The seed that stands for all: of median length in steps, then in time."""
  tables = next(iter(runs.values()))
  lengths = [(t.last_step, *t.eval_times[-1:]) for t in tables]
  order = sorted(range(len(tables)), key=lengths.__getitem__)
  return tables[order[len(order) // 2]].seed


class Panel:
  """A panel of a figure: some runs' seeds over steps or over time."""

  def __init__(self, axes: Axes, runs: Runs, x_axis: str) -> None:
    """Starts a panel."""
    self.axes = axes
    self.runs = runs
    self.x_axis = x_axis
    self.tables = [table for tables in runs.values() for table in tables]
    self.is_in_step = in_step(runs, x_axis)
    self.seed = shown_seed(runs)

  def draw_schedule(self, phases: bool) -> None:
    """The learning rate of each run; only the first where all have the same."""
    if phases:
      self._shade_phases(self.tables[0])
      self.axes.legend(fontsize='small')
    plans = {(t.last_step, tuple(t.rates.tolist())) for t in self.tables}
    if self.is_in_step and len(plans) == 1:
      self.axes.plot(*_rates(self.tables[0]), color='#000000', linewidth=1.5)
    else:
      self._draw_curves(_rates, others=False)
      self.axes.legend(fontsize='small')
    self._finish('learning rate')
    self.axes.set_ylim(bottom=0)

  def draw_metric(self) -> None:
    """The validation metric of each run, the target, the resets with tau."""
    self._draw_curves(lambda table: (table.eval_steps, table.metric))
    table = self.tables[0]
    draw_target(self.axes, table)
    values = np.concatenate([t.metric for t in self.tables])
    scale_to_target(self.axes, values, table.target.value)
    # tau of modes that are not soft is no measurement, and is written where
    # nothing else would be.
    soft = [n for n in self.runs if isinstance(RUNS[n].reset, SoftReset)]
    for name in soft or list(self.runs)[:1]:
      for x, taus in self._resets(self.runs[name]):
        write_above(self.axes, x, describe_taus(taus))
    switches = [
      x
      for table in self.tables
      for x in places(table, [step for step, _ in table.switches], self.x_axis)
    ]
    mark_switches(self.axes, switches, _PURPLE, 'early switch')
    self._finish(table.metric_label)
    self.axes.legend(**_SMALL_LEGEND)

  def draw_losses(self, shows: str) -> None:
    """What the switching rule sees: L, l or l' of each run, a key of Losses."""
    self._draw_curves(lambda t: (t.losses.steps, getattr(t.losses, shows)))
    if shows == 'loss_change':
      self.axes.axhline(0.0, color='#000000', linewidth=0.8)
    self._finish(_LOSS_LABELS[shows])
    self.axes.legend(**_SMALL_LEGEND)

  def _draw_curves(self, curve: Curve, others: bool = True) -> None:
    """A quantity of each run: one band, or a line for each seed.

    Of lines, that of the seed that stands for the others is thick.
    """
    for name, tables in self.runs.items():
      label, color, line = _STYLES[type(RUNS[name].reset)]
      style = {'color': color, 'linestyle': line, 'linewidth': 1.5}
      if self.is_in_step:
        shown = band([curve(table) for table in tables])
        self.axes.plot(shown.x, shown.median, label=label, **style)
        if len(tables) > 1:
          self.axes.fill_between(
            shown.x,
            shown.lower,
            shown.upper,
            color=color,
            alpha=0.2,
            linewidth=0,
          )
        continue
      for table in tables:
        steps, y = curve(table)
        x = places(table, steps, self.x_axis)
        if table.seed == self.seed:
          self.axes.plot(
            x, y, label=label, zorder=3, **{**style, 'linewidth': 2.0}
          )
        elif others:
          self.axes.plot(x, y, color=color, linewidth=0.6, alpha=0.3)

  def _resets(
    self, tables: Sequence[RunTable]
  ) -> list[tuple[float, list[float]]]:
    """Median place and taus of a run's n-th reset, over seeds that came so far.

    Seeds that are out of step have no place in common: one stands for all.
    """
    if not self.is_in_step:
      tables = [table for table in tables if table.seed == self.seed]
    found = []
    for n in range(max((len(t.resets) for t in tables), default=0)):
      there = [table for table in tables if n < len(table.resets)]
      xs = [places(t, [t.resets[n][0]], self.x_axis)[0] for t in there]
      found.append((float(np.median(xs)), [t.resets[n][1] for t in there]))
    return found

  def _shade_phases(self, table: RunTable) -> None:
    """Warm-ups in orange and decays in blue, as in the thesis' figure 2.1."""
    spans = zip(table.warmups, table.cycle_ends)
    for i, ((start, middle), end) in enumerate(spans):
      x = places(table, [start, middle, end], self.x_axis)
      for left, right, label in zip(x, x[1:], _PHASES):
        self.axes.axvspan(
          left,
          right,
          color=_PHASES[label],
          alpha=0.3,
          linewidth=0,
          label=None if i else label,
        )

  def _finish(self, y_label: str) -> None:
    """Marks the resets, and labels the axes."""
    resets = {
      x for tables in self.runs.values() for x, _ in self._resets(tables)
    }
    for x in sorted(resets):
      self.axes.axvline(x, color=_GREY, linestyle='-.', linewidth=0.8, zorder=1)
    end = max(places(t, [t.last_step], self.x_axis)[0] for t in self.tables)
    self.axes.set_xlim(0, 1.01 * max(end, 1))
    self.axes.set_xlabel(_X_LABELS[self.x_axis])
    self.axes.set_ylabel(y_label)
    self.axes.grid(alpha=0.25, linewidth=0.5)


def _rates(table: RunTable) -> tuple[np.ndarray, np.ndarray]:
  return table.rate_steps, table.rates


def draw_figure(name: str, figure: ThesisFigure, runs: Runs) -> Figure:
  """A figure of the thesis: the schedule's panel and, beside it, the metric's.

  There is at least one run, and all are on one workload.
  """
  x_axis = figure.x_axis
  if figure.shows == 'schedule':
    picture = Figure(figsize=(7.0, 3.4), dpi=120, layout='constrained')
    Panel(picture.subplots(), runs, x_axis).draw_schedule(phases=True)
  else:
    picture = Figure(figsize=(10.5, 3.9), dpi=120, layout='constrained')
    left, right = picture.subplots(1, 2, gridspec_kw={'width_ratios': [2, 3]})
    Panel(left, runs, x_axis).draw_schedule(phases=False)
    if figure.shows == 'metric':
      Panel(right, runs, x_axis).draw_metric()
    else:
      Panel(right, runs, x_axis).draw_losses(figure.shows)
  workload = next(iter(runs.values()))[0].workload
  about = ', '.join(filter(None, (workload, _seeds(figure, runs))))
  shown = _premise_line(name, figure, runs)
  title = f'{name}: {figure.title} ({about})\n{shown}'
  picture.suptitle(title.rstrip(), fontsize='medium', x=0.01, ha='left')
  return picture


def _seeds(figure: ThesisFigure, runs: Runs) -> str:
  """How many seeds are shown, and how; of a plan, which has none, nothing."""
  if figure.shows == 'schedule':
    return ''
  counts = sorted({len(tables) for tables in runs.values()})
  if counts == [1]:
    return '1 seed'
  how = 'median and quartiles'
  if not in_step(runs, figure.x_axis):
    how = f'a line each, seed {shown_seed(runs)} thick'
  span = f'{counts[0]} to {counts[-1]}' if counts[1:] else f'{counts[0]}'
  return f'{span} seeds: {how}'


def _premise_line(name: str, figure: ThesisFigure, runs: Runs) -> str:
  """Whether the figure shows what the thesis' shows; nothing for a plan.

  Fewer than ten seeds carry no verdict.
  """
  found, sentence = held(name, runs), PREMISES[name].sentence
  if figure.shows == 'schedule' or not found.asked:
    return ''
  begins = {
    'as': f'As in the thesis ({found} seeds)',
    'unlike': f'Unlike the thesis ({found} seeds)',
    'no verdict': f'In the thesis (seeds here: {found.asked}, no verdict)',
  }
  return f'{begins[found.verdict]}: {sentence}'


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


def pictures(
  figures: Mapping[str, ThesisFigure], jobs: Iterable[Job], out: pathlib.Path
) -> dict[pathlib.Path, tuple[str, ThesisFigure, str]]:
  """Name, figure and workload of each picture <out>/<figure>_<workload>.png.

  A workload with all of a figure's runs has one, if `is_drawn_for` says so.
  """
  there = {job[:2] for job in jobs}
  return {
    out / f'{name}_{workload}.png': (name, figure, workload)
    for workload in sorted({workload for workload, _ in there})
    for name, figure in figures.items()
    if figure.is_drawn_for(workload)
    if all((workload, run) in there for run in figure.runs)
  }


def draw_all(
  wanted: Mapping[pathlib.Path, tuple[str, ThesisFigure, str]],
  logs: Sequence[RunLog],
) -> Iterator[pathlib.Path]:
  """Draws `pictures`, of all seeds that have logs; yields their paths."""
  # Most runs are in several figures.
  read = functools.lru_cache(maxsize=None)(read_run)
  for path, (name, figure, workload) in wanted.items():
    runs = {
      run: [read(x.log_dir) for x in logs if x.job[:2] == (workload, run)]
      for run in figure.runs
    }
    save_picture(draw_figure(name, figure, runs), path)
    yield path
