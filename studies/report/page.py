"""The whole page: one file without anything to be fetched, and no program."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from ...mini_algoperf import files
from . import charts, elements, tables
from .cycles import read_cycles
from .elements import Element, element
from .reading import ReportedRun, read_all
from .style import STYLE

_LEGEND = (
  'Dashed: the target; a star where it is first reached. Dash-dotted: a reset, '
  'with its τ. Triangle: a cycle left early. Steps are counted as in the logs, '
  'seconds are those that count as score. Losses, gradients and the other '
  "splits are in TensorBoard and in the run's folder."
)

# Events that are to be seen without a click.
_SHOWN_AT_ONCE = 30


def save_page(trials: Sequence[pathlib.Path], path: pathlib.Path) -> None:
  """Reads runs and writes the page on them, whole.

  Args:
    trials: folders with meta_data_0.json, of this runner or the benchmark's.
    path: file to write; an existing one is replaced.

  Raises:
    ValueError: if a run's files are damaged; the message names the file.
  """
  page = make_page(read_all(trials))
  # What no encoding has, as half of a pair in JSON, is no reason to fail.
  content = elements.as_text(page).encode('utf-8', 'replace')
  files.write_whole(path, content)


def make_page(runs: Sequence[ReportedRun]) -> Element:
  """The element <html>.

  Args:
    runs: at least one, in the order in which they are numbered from 1.
  """
  title = _title(runs)
  numbered = list(enumerate(runs, start=1))
  # Runs are compared that are to come to the same target.
  tasks = dict.fromkeys(_task(run) for run in runs)
  sections = [
    _section(index, [pair for pair in numbered if _task(pair[1]) == task])
    for index, task in enumerate(tasks, start=1)
  ]
  head = element(
    'head',
    element('meta', charset='utf-8'),
    element(
      'meta', name='viewport', content='width=device-width, initial-scale=1'
    ),
    element('title', title),
    element('style', STYLE),
  )
  body = element(
    'body',
    element('h1', title),
    element('p', _LEGEND, class_='quiet'),
    element('main', *sections),
  )
  return element('html', head, body, lang='en')


def _title(runs: Sequence[ReportedRun]) -> str:
  names = list(dict.fromkeys(run.table.workload for run in runs))
  if len(runs) == 1:
    return f'{names[0]}: {runs[0].name}'
  return f'{len(runs)} runs on {", ".join(names)}'


def _task(run: ReportedRun) -> tuple[str, str, float]:
  return run.table.workload, run.table.metric_name, run.table.target


def _section(index: int, runs: Sequence[tuple[int, ReportedRun]]) -> Element:
  table = runs[0][1].table
  has_values = any(run.table.metric.size for _, run in runs)
  way = 'at least' if runs[0][1].rises else 'at most'
  metric = table.metric_name.replace('_', ' ')
  pictures = [
    charts.overview(runs, f'overview-{index}-{axis}', axis == 'time')
    for axis in ('steps', 'time')
    # The steps of a single run are in its own picture.
    if has_values and (axis == 'time' or len(runs) > 1)
  ]
  differences = tables.differing(runs)
  return element(
    'section',
    element('h2', table.workload),
    element('p', f'Target: {metric} {way} {table.target:.4g} (validation).'),
    tables.comparison(table.workload, runs),
    *pictures,
    *([] if differences is None else [differences]),
    *(_run(number, run) for number, run in runs),
  )


def _run(number: int, run: ReportedRun) -> Element:
  cycles = read_cycles(run)
  parts = [element('p', run.place, class_='quiet')]
  if run.table.metric.size:
    parts.append(charts.course(number, run, cycles))
  else:
    parts.append(element('p', 'Not evaluated yet.'))
  if cycles:
    parts.append(tables.of_cycles(run, cycles))
  if run.events:
    happened = [e for e in run.events if e['event'] != 'evaluation']
    parts.append(
      elements.details(
        f'Events ({len(happened)})',
        tables.of_events(run, happened),
        is_open=len(happened) <= _SHOWN_AT_ONCE,
      )
    )
  else:
    parts.append(element('p', 'No cycles.csv: another submission, or no step.'))
  if run.table.metric.size:
    title = f'Evaluations ({run.table.metric.size})'
    parts.append(elements.details(title, tables.of_evaluations(run)))
  if run.settings:
    parts.append(elements.details('Settings', tables.of_settings(run)))
  about = tables.of_names('Workload and machine', run.about)
  parts.append(elements.details('Workload and machine', about))
  heading = element('h3', f'Run {number}: {run.table.workload}: {run.name}')
  return element('section', heading, *parts, id=f'run-{number}')
