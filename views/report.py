"""One page about one or several runs, with nothing in it to be fetched."""

from __future__ import annotations

import base64
import io
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import markupsafe
import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ..engine.records import CYCLES
from ..mini_algoperf import files, logger
from . import planned_runs, run_plot
from .pages import render
from .pictures import any_letters, line_styles
from .run_files import RunTable, read_flags, read_log, read_run
from .story import sentences, value_text

LoggedEvent = Mapping[str, str]  # a row of cycles.csv; blank cells left out
Rows = Sequence[Sequence[str]]  # the first one is a header
# A data URI, so that nothing has to be fetched; and the text of a screen
# reader.
Picture = tuple[str, str]
# The parts of a folder's name that the page shows: experiment, workload and
# trial. The page does not say where on the machine the folders are.
_PARTS = 3
_NONE = '–'
_COLUMNS = (
  'run', 'name', 'target reached at step', 'after seconds', 'best', 'at step',
  'last', 'steps', 'seconds', 'evaluations', 'cycles', 'resets', 'abandoned',
  'state',
)  # fmt: skip
# A run has ended if its files are older than this, and older than three of its
# intervals between evaluations.
_STILL_RUNNING = 600.0  # seconds
_ENDS = {'abandon': 'abandoned', 'finish': 'run ends'}
# The columns that an event's sentence has, or that only a machine needs.
_APART = (
  *('global_step', 'event', 'cycle', 'reason', 'note', 'reset', 'tau'),
  *('peak_value', 'cycle_end', 'setting', 'anchor_nominal', 'learning_rate'),
)


class ReportedRun(NamedTuple):
  """One run. Steps are global steps."""

  number: int  # on the page
  place: str  # the end of its folder's name
  name: str  # of the experiment, or else the place; with the seed
  table: RunTable
  events: Sequence[LoggedEvent]  # in order; none for another submission
  settings: Mapping[str, str]  # by field; empty if no file has them
  state: str  # how it ended, or that it runs


def save_page(
  trials: Sequence[pathlib.Path], path: pathlib.Path, now: float
) -> None:
  """Reads runs and writes the page on them, whole.

  There is at least one trial, of this runner or the benchmark's. `now`, in
  seconds since 1970, decides whether a run counts as still running. An existing
  page is replaced; ValueError names a damaged file.
  """
  runs = [read_reported(t, now, i) for i, t in enumerate(trials, start=1)]
  workloads = ', '.join(dict.fromkeys(run.table.workload for run in runs))
  title = f'{len(runs)} runs on {workloads}'
  if len(runs) == 1:
    title = f'{workloads}: {runs[0].name}'
  # Only runs with the same target are compared.
  groups: dict[Any, list[ReportedRun]] = {}
  for run in runs:
    groups.setdefault((run.table.workload, run.table.target), []).append(run)
  # Inside, names of runs are not read as formulas, and equal pictures have
  # equal bytes.
  with mpl.rc_context({'svg.hashsalt': 'report', 'text.parse_math': False}):
    page = render(
      pathlib.Path(__file__).with_suffix('.html'),
      title=title,
      columns=_COLUMNS,
      groups=groups.values(),
      compared=compared,
      differing=differing,
      cycle_rows=cycle_rows,
      story=story,
      overview=overview,
      course=course,
    )
  # A character that no encoding has, such as half of a pair in JSON, is
  # replaced.
  files.write_whole(path, page.encode('utf-8', 'replace'))


def read_reported(
  trial: pathlib.Path, now: float, number: int = 1
) -> ReportedRun:
  """Reads a trial's folder, also while it runs; ValueError names a file."""
  table, log = read_run(trial), read_log(trial / CYCLES)
  log.whole_numbers()  # raises for what is not a number
  # Rows of a damaged file that do not name an event are left out.
  rows = [row for row in log.rows if row.get('event')]
  events = [{k: value for k, value in row.items() if value} for row in rows]
  place = '/'.join(trial.resolve().parts[-_PARTS:])
  seed = [] if table.seed is None else [f'seed {table.seed}']
  return ReportedRun(
    number,
    place,
    ', '.join([table.name or place, *seed]),
    table,
    events,
    planned_runs.run_settings(trial),
    _state(trial, table, events, now),
  )


def _state(
  trial: pathlib.Path,
  table: RunTable,
  events: Sequence[LoggedEvent],
  now: float,
) -> str:
  """How a run has ended, or that it is running."""
  finish = [event for event in events if event['event'] == 'finish']
  if finish:
    return f'finished: {finish[-1].get("reason", "no reason given")}'
  limit = read_flags(trial)[-1].get('max_global_steps')
  if isinstance(limit, int) and table.last_step >= limit:
    return f'ended by --max_global_steps={limit}'
  # The runner logs the score after the last step, not only at evaluations.
  rows = read_log(trial / logger.MEASUREMENTS).rows
  last = rows[-1] if rows else {}
  if last.get('score') and not any(last[name] for name in last if '/' in name):
    return 'finished'
  # Without files that are being written: they are gone a moment later.
  silent = now - max(
    path.stat().st_mtime
    for pattern in ('*.csv', '*.json')
    for path in trial.glob(pattern)
  )
  interval = np.diff(table.eval_times, prepend=0.0).max(initial=0.0)
  if silent <= max(_STILL_RUNNING, 3 * float(np.nan_to_num(interval))):
    return 'running'
  return f'not finished; nothing was written for {silent / 3600:,.1f} hours'


def compared(runs: Iterable[ReportedRun]) -> Iterator[list[Any]]:
  """Rows of the table that compares runs: how far they came, and when."""
  for run in runs:
    t = run.table
    reached = t.target.reached(t.metric)
    counts = (t.num_cycles, len(t.resets), len(t.switches))
    yield [
      markupsafe.Markup(f'<a href="#run-{run.number}">run {run.number}</a>'),
      run.name,
      'not reached' if reached is None else _whole(t.eval_steps[reached]),
      _NONE if reached is None else _seconds(t.eval_times[reached]),
      *_at(t, t.best()),
      _number(t.metric[-1]) if t.metric.size else _NONE,
      _whole(t.last_step),
      _seconds(t.eval_times[-1]) if t.eval_times.size else _NONE,
      _whole(t.eval_steps.size),
      *(_whole(count) if run.events else _NONE for count in counts),
      run.state,
    ]


def _at(t: RunTable, evaluation: int | None) -> tuple[str, str]:
  """The metric at an evaluation, and its step."""
  if evaluation is None:
    return _NONE, _NONE
  return _number(t.metric[evaluation]), _whole(t.eval_steps[evaluation])


def differing(runs: Iterable[ReportedRun]) -> Rows:
  """The settings in which runs differ, below a header; empty without any."""
  known = [run for run in runs if run.settings]
  names = dict.fromkeys(name for run in known for name in run.settings)
  rows = [
    [name, *(run.settings.get(name, _NONE) for run in known)]
    for name in names
    if len({run.settings.get(name) for run in known}) > 1
  ]
  header = ['setting', *(f'run {run.number}' for run in known)]
  return [header, *rows] if rows else []


def cycle_rows(run: ReportedRun) -> Rows:
  """A header and a row per cycle."""
  t, taus = run.table, dict(run.table.resets)
  rows = [[
    'cycle', 'first step', 'steps', 'τ before', 'highest rate', 'best metric',
    'at step', 'ended',
  ]]  # fmt: skip
  starts = [i for i, e in enumerate(run.events) if e['event'] == 'cycle_start']
  bounds = [*starts[1:], len(run.events)]
  for start, bound, begin, end in zip(
    starts, bounds, t.cycle_starts, t.cycle_ends
  ):
    is_last = bound == len(run.events)
    rates = t.rates[(t.rate_steps >= begin) & (t.rate_steps < end)]
    ended = [
      ': '.join(filter(None, (_ENDS[e['event']], e.get('reason'))))
      for e in run.events[start + 1 : bound]
      if e['event'] in _ENDS
    ]
    rows.append(
      [
        run.events[start].get('cycle', ''),
        _whole(begin),
        _whole(end - begin),
        _number(taus.get(begin, math.nan)),
        _number(float(np.max(rates))) if rates.size else _NONE,
        # A run that finishes is evaluated under a number one higher.
        *_at(t, t.best(begin, math.inf if is_last else end)),
        *(ended or ['no end logged' if is_last else 'at its planned end'])[:1],
      ]
    )
  return rows


def story(run: ReportedRun) -> Iterator[tuple[str, str, str]]:
  """(step, sentence, the numbers behind it) of each event but evaluations."""
  for event in run.events:
    for step, sentence in sentences([event]):
      numbers = ', '.join(
        f'{name.replace("_", " ")} {value_text(value)}'
        for name, value in event.items()
        if name not in _APART
      )
      yield _whole(step), sentence, numbers


def overview(runs: Sequence[ReportedRun], over_time: bool) -> Picture:
  """The metric of several runs of one workload, and their target."""
  table = runs[0].table
  x_label = 'seconds of training' if over_time else 'global step'
  height = 3.1 + 0.2 * math.ceil(len(runs) / 2)
  figure = Figure(figsize=(9.0, height), layout='constrained')
  axes = figure.subplots()
  for run, style in zip(runs, line_styles()):
    t = run.table
    x = t.eval_times if over_time else t.eval_steps
    label = f'run {run.number}: {run.name}'[:60]
    axes.plot(x, t.metric, linewidth=1.4, label=label, **style)
    at = t.target.reached(t.metric)
    if at is not None:
      axes.plot(x[at], t.metric[at], '*', color=style['color'], markersize=11)
  axes.axhline(table.target.value, color='black', linestyle='--', linewidth=1)
  values = np.concatenate([run.table.metric for run in runs])
  run_plot.scale_to_target(axes, values, table.target.value)
  axes.set_xlabel(x_label)
  axes.set_ylabel(table.metric_label)
  axes.set_xlim(left=0)
  figure.legend(loc='outside lower center', ncols=2, fontsize='small')
  what = f'{table.metric_label} over {x_label}, a line per run'
  return _picture(figure, f'{table.workload}: {what}')


def course(run: ReportedRun) -> Picture:
  """Metric and learning rate of one run over its steps, with its resets."""
  figure = Figure(layout='constrained')
  figure.set_size_inches(9.0, run_plot.draw_run(figure, run.table))
  what = 'metric with its target, and learning rate, over steps'
  return _picture(figure, f'Run {run.number}: {what}')


def _picture(figure: Figure, text: str) -> Picture:
  content = io.BytesIO()
  with any_letters():
    FigureCanvasSVG(figure).print_svg(content, metadata={'Date': None})
  encoded = base64.b64encode(content.getvalue()).decode('ascii')
  return f'data:image/svg+xml;base64,{encoded}', text


def _whole(value: float) -> str:
  return f'{value:,.0f}'


def _number(value: float) -> str:
  """A measured number with four digits; a dash for an unknown number."""
  return _NONE if math.isnan(value) else f'{value:.4g}'


def _seconds(value: float) -> str:
  """Seconds with one digit after the point; a dash for an unknown number."""
  return f'{value:,.1f}' if math.isfinite(value) else _NONE
