"""An HTML page without anything beside it: pictures are drawn into it."""

from __future__ import annotations

import html
import io
import math
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...training.configuration import CONFIGURATION
from ...training.events import CYCLES
from ..runs import metric_plot
from ..runs.log import read_log
from ..runs.table import RunTable, read_run

# In the order in which they are shown; evaluations are in the picture.
_SHOWN = {
  'cycle_start': ('peak_value', 'cycle_end'),
  'switch': (),
  'reset': ('mode', 'tau', 'metric', 'metric_step'),
  'clock': ('pace', 'cycle_end'),
  'wait': ('cycle_end',),
  'pause': ('metric',),
  'hold': (),
  'finish': (),
}
_STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; color: #1a1a1a; margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
table { border-collapse: collapse; font-size: .9rem; margin: 1rem 0 }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; vertical-align: top;
  border-bottom: 1px solid #ddd }
svg { max-width: 100%; height: auto } pre { overflow: auto; font-size: .8rem }
summary { cursor: pointer; color: #0072b2 } .wide { overflow-x: auto }
"""


class Shown(NamedTuple):
  """A run on the page."""

  folder: pathlib.Path
  table: RunTable
  label: str


def make_page(folders: Sequence[pathlib.Path]) -> str:
  """The page of some runs, finished or not.

  Args:
    folders: of trials.

  Raises:
    ValueError: if a log is damaged; the message names it.
  """
  runs = _labelled(folders)
  parts = ['<h1>Runs</h1>', _overview(runs)]
  for workload in sorted({run.table.workload for run in runs}):
    several = [run for run in runs if run.table.workload == workload]
    if len(several) > 1:
      parts += [f'<h2>{_text(workload)}, compared</h2>', _compared(several)]
  for run in runs:
    parts += _about(run)
  return (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width">'
    f'<title>Runs</title><style>{_STYLE}</style></head>\n<body>\n'
    + '\n'.join(parts)
    + '\n</body></html>\n'
  )


def _labelled(folders: Sequence[pathlib.Path]) -> list[Shown]:
  """The runs with their titles; with their folders where titles are alike."""
  tables = [read_run(folder) for folder in folders]
  titles = [metric_plot.title(table) for table in tables]
  return [
    Shown(
      folder,
      table,
      title if titles.count(title) == 1 else f'{title} ({folder})',
    )
    for folder, table, title in zip(folders, tables, titles)
  ]


def _overview(runs: Sequence[Shown]) -> str:
  rows = []
  for run in runs:
    t = run.table
    reached = _first_reached(t)
    rows.append(
      (
        run.label,
        t.metric_name,
        _number(t.target),
        _number(_best(t)),
        'not yet' if reached is None else f'step {reached:,}',
        f'{t.last_step:,}',
        str(t.num_cycles),
        str(len(t.switches)),
      )
    )
  head = 'run|metric|target|best|reached|steps|cycles|left early'.split('|')
  return _table(head, rows)


def _falls(t: RunTable) -> bool:
  """Whether the metric falls, judged by where the run began."""
  finite = t.metric[[math.isfinite(v) for v in t.metric]]
  return finite.size > 0 and bool(finite[0] > t.target)


def _best(t: RunTable) -> float:
  finite = [v for v in t.metric.tolist() if math.isfinite(v)]
  return (min if _falls(t) else max)(finite, default=math.nan)


def _first_reached(t: RunTable) -> int | None:
  for step, value in zip(t.eval_steps.tolist(), t.metric.tolist()):
    if value < t.target if _falls(t) else value > t.target:
      return step
  return None


def _compared(runs: Sequence[Shown]) -> str:
  def draw(axes: Axes) -> None:
    for run in runs:
      line = {'marker': 'o', 'markersize': 2.5, 'linewidth': 1.2}
      axes.plot(run.table.eval_steps, run.table.metric, label=run.label, **line)
    first = runs[0].table
    axes.axhline(first.target, color='k', linestyle='--', linewidth=1)
    metric_plot.scale_to_target(axes, first.metric, first.target)
    axes.set_xlabel('global step')
    axes.set_ylabel(first.metric_name.replace('_', ' '))
    axes.legend(fontsize='small')

  return _svg([draw])


def _about(run: Shown) -> Iterable[str]:
  """Title, picture, events and settings of one run."""
  yield f'<h2>{_text(run.label)}</h2>'
  yield f'<p><code>{_text(str(run.folder))}</code></p>'
  draws: list[Callable[[Axes], None]] = [
    lambda axes: metric_plot.draw_metric(axes, run.table)
  ]
  if run.table.rates.size:
    draws.append(lambda axes: metric_plot.draw_learning_rate(axes, run.table))
  yield _svg(draws)
  events = [
    (
      f'{int(float(row["global_step"])):,}',
      row['event'].replace('_', ' '),
      row.get('cycle', ''),
      '; '.join(filter(None, (row.get('reason'), row.get('note')))),
      ', '.join(
        f'{name.replace("_", " ")} {_number(row[name])}'
        for name in _SHOWN[row['event']]
        if row.get(name)
      ),
    )
    for row in read_log(run.folder / CYCLES).rows
    if row.get('event') in _SHOWN
  ]
  if events:
    yield _table(['step', 'event', 'cycle', 'reason', ''], events)
  settings = run.folder / CONFIGURATION
  if settings.exists():
    text = _text(settings.read_text(encoding='utf-8'))
    yield f'<details><summary>settings</summary><pre>{text}</pre></details>'


def _svg(draws: Sequence[Callable[[Axes], None]]) -> str:
  """A picture of axes above each other, as an element of the page."""
  count = len(draws)
  figure = Figure(figsize=(9, 1 + 2.7 * count), layout='constrained')
  all_axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
  for axes, draw in zip(all_axes, draws):
    draw(axes)
  all_axes[-1].set_xlabel('global step')
  stream = io.StringIO()
  figure.savefig(stream, format='svg', metadata={'Date': None})
  text = stream.getvalue()
  return text[text.index('<svg') :]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  def line(cells: Sequence[str], tag: str) -> str:
    inner = ''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)
    return f'<tr>{inner}</tr>'

  body = '\n'.join(line(row, 'td') for row in rows)
  return f'<div class="wide"><table>{line(head, "th")}\n{body}</table></div>'


def _number(value: float | str) -> str:
  try:
    return f'{float(value):.4g}'
  except ValueError:
    return str(value)


def _text(value: str) -> str:
  return html.escape(value)
