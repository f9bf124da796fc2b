"""The tables of the page."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence

from ...schedule_params import SCHEDULE_PARAMS
from . import elements, events
from .cycles import ReportedCycle
from .elements import Child, Element, element
from .reading import Event, ReportedRun, flat

_NONE = '–'
# Of an evaluation's event, what the table has in columns of its own.
_OWN = ('global_step', 'event', 'cycle', 'evaluation', 'metric', 'metric_step')

_STARTS = {
  '': _NONE,
  'best': 'best model',
  'cyclic': 'model as it is',
  'current': 'model as it is',
  'paused': 'paused model',
  'reset': 'reset',  # older files have no mode
}


def whole(value: float) -> str:
  """Steps for people."""
  return f'{value:,.0f}'


def number(value: float) -> str:
  """A measured number with four digits; a dash if it is not known."""
  return _NONE if math.isnan(value) else f'{value:.4g}'


def seconds(value: float) -> str:
  """Seconds with a digit; a dash if they are not known."""
  return f'{value:,.1f}' if math.isfinite(value) else _NONE


def comparison(
  workload: str, runs: Sequence[tuple[int, ReportedRun]]
) -> Element:
  """One row per run: how far it came, and when.

  Args:
    workload: that all runs are of.
    runs: with their numbers on the page.
  """
  columns = (
    'run', 'name', 'target reached at step', 'after seconds', 'best',
    'at step', 'last', 'steps', 'seconds', 'evaluations', 'cycles', 'resets',
    'left early', 'state',
  )  # fmt: skip
  rows = [_compared(place, run) for place, run in runs]
  return elements.table(f'Runs on {workload}', columns, rows)


def _compared(place: int, run: ReportedRun) -> list[Child]:
  t, reached, best = run.table, run.reached, run.best()
  return [
    element('a', f'run {place}', href=f'#run-{place}'),
    run.name,
    'not reached' if reached is None else whole(t.eval_steps[reached]),
    _NONE if reached is None else seconds(t.eval_times[reached]),
    _NONE if best is None else number(t.metric[best]),
    _NONE if best is None else whole(t.eval_steps[best]),
    number(t.metric[-1]) if t.metric.size else _NONE,
    whole(t.last_step),
    seconds(t.eval_times[-1]) if t.eval_times.size else _NONE,
    whole(t.eval_steps.size),
    whole(t.num_cycles) if run.events else _NONE,
    whole(len(t.resets)) if run.events else _NONE,
    whole(len(t.switches)) if run.events else _NONE,
    _state(run),
  ]


def _state(run: ReportedRun) -> str:
  ends = [event for event in run.events if event['event'] == 'finish']
  if ends:
    return f'ended itself: {ends[-1].get("reason", "no reason given")}'
  written = dt.datetime.fromtimestamp(run.written, dt.timezone.utc)
  return f'last written {written:%Y-%m-%d %H:%M} UTC'


def of_cycles(run: ReportedRun, cycles: Sequence[ReportedCycle]) -> Element:
  """One row per cycle, with its reset, its rates and its end.

  Args:
    run: that they are of.
    cycles: in order.
  """
  columns = (
    'cycle', 'setting', 'first step', 'steps', 'seconds', 'starts with', 'τ',
    'highest rate', 'last rate', 'best metric', 'at step', 'ended',
  )  # fmt: skip
  rows = [
    [
      cycle.number,
      cycle.setting,
      whole(cycle.begin),
      whole(cycle.end - cycle.begin),
      seconds(run.seconds_at(cycle.end) - _begin(run, cycle)),
      _STARTS.get(cycle.reset, f'{cycle.reset} reset'.replace('_', ' ')),
      number(cycle.tau),
      number(cycle.peak),
      number(cycle.last_rate),
      _NONE if cycle.best is None else number(run.table.metric[cycle.best]),
      _NONE if cycle.best is None else whole(run.table.eval_steps[cycle.best]),
      cycle.ended or 'no end logged',
    ]
    for cycle in cycles
  ]
  return elements.table('Cycles', columns, rows)


def _begin(run: ReportedRun, cycle: ReportedCycle) -> float:
  return 0.0 if cycle.begin == 0 else run.seconds_at(cycle.begin)


def of_events(run: ReportedRun, happened: Sequence[Event]) -> Element:
  """What has happened, one row per event.

  Args:
    run: that they are of.
    happened: in order.
  """
  rows = [
    [
      whole(float(event['global_step'])),
      seconds(run.seconds_at(float(event['global_step']))),
      event.get('cycle', ''),
      events.kind(event),
      events.detail(event),
    ]
    for event in happened
  ]
  columns = ('step', 'seconds', 'cycle', 'event', 'reason and what it says')
  return elements.table('Events', columns, rows)


def of_evaluations(run: ReportedRun) -> Element:
  """One row per evaluation, with what the rule in force has made of it.

  Args:
    run: of any submission.
  """
  seen = {
    event['metric_step']: event
    for event in run.events
    if event['event'] == 'evaluation' and 'metric_step' in event
  }
  names = [
    name
    for name in dict.fromkeys(n for event in seen.values() for n in event)
    if name not in _OWN
  ]
  t = run.table
  rows = [
    [
      whole(step),
      seconds(float(t.eval_times[i])),
      number(float(t.metric[i])),
      *(events.shown(seen.get(str(step), {}).get(n, _NONE)) for n in names),
    ]
    for i, step in enumerate(t.eval_steps)
  ]
  columns = ['step', 'seconds', t.metric_name.replace('_', ' ')]
  columns += [name.replace('_', ' ') for name in names]
  return elements.table('Evaluations', columns, rows)


def differing(runs: Sequence[tuple[int, ReportedRun]]) -> Element | None:
  """The settings in which runs differ; None where they do not.

  Args:
    runs: with their numbers on the page; those without settings are left out.
  """
  known = [(place, run.settings) for place, run in runs if run.settings]
  names = dict.fromkeys(name for _, settings in known for name in settings)
  rows = [
    [name, *(settings.get(name, _NONE) for _, settings in known)]
    for name in names
    if len({settings.get(name) for _, settings in known}) > 1
  ]
  columns = ['setting', *(f'run {place}' for place, _ in known)]
  caption = 'Settings in which the runs differ'
  return elements.table(caption, columns, rows) if rows else None


def of_settings(run: ReportedRun) -> Element:
  """All settings, those other than the default first.

  Args:
    run: with settings.
  """
  default = {
    name: json.dumps(value)
    for name, value in flat(SCHEDULE_PARAMS.to_dict()).items()
  }
  rows = [
    [name, value, _other(default.get(name), value)]
    for name, value in run.settings.items()
  ]
  rows.sort(key=lambda row: row[2] == _NONE)
  columns = ('setting', 'in this run', 'default, where it is another')
  return elements.table('Settings', columns, rows)


def _other(usual: str | None, value: str) -> str:
  return _NONE if usual in (None, value) else str(usual)


def of_names(caption: str, values: Mapping[str, str]) -> Element:
  """Names and values.

  Args:
    caption: what they are.
    values: by name.
  """
  rows = [[name, value] for name, value in values.items()]
  return elements.table(caption, ('name', 'value'), rows)
