"""README.md, with the tables of the logs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from ...mini_algoperf import files
from . import kept, logs
from .cases import CASES, FURTHER, LARGER, REAL, THESIS


def tables_of(found: logs.Logs, names: Iterable[str]) -> list[str]:
  """A table for each clock, of some cases."""
  targets, lines = {name: CASES[name].target for name in names}, []
  shown = [run for run in found if run.target == targets.get(run.data)]
  for clock in sorted({run.clock for run in shown}):
    lines += [f'Steps to the target, {clock} clock:', '']
    lines += [*logs.table(found, clock, targets), '']
  return lines[:-1]


def results_of(found: logs.Logs, names: Sequence[str]) -> list[str]:
  """Markdown: an entry's metrics where it reaches the target, on both splits.

  Medians of the runs that reach it and have been evaluated on the test split.
  """
  rows = [
    ['case', 'entry', 'runs', 'validation', 'test: median, least, most'],
    ['---'] * 5,
  ]
  for name in names:
    target, reached = CASES[name].target, dict[str, list[logs.Point]]()
    for run in sorted(run for run in found if run.data == name):
      steps = logs.steps_to(found[run], target)
      points = [point for point in found[run] if point.step == steps]
      is_shown = run.clock == 'counted' and run.target == target
      if is_shown and points:
        reached.setdefault(run.entry, []).extend(
          point for point in points if math.isfinite(point.test)
        )
    for entry, points in reached.items():
      if points:
        tests = [point.test for point in points]
        middle = statistics.median(point.metric for point in points)
        spread = statistics.median(tests), min(tests), max(tests)
        shown = (f'{value:.3g}' for value in spread)
        rows.append(
          [name, entry, str(len(points)), f'{middle:.3g}', ', '.join(shown)]
        )
  return [f'| {" | ".join(row)} |' for row in rows] if rows[2:] else []


def thesis_of(found: logs.Logs) -> list[str]:
  """Markdown: metrics of the thesis' runs at each third of their steps.

  A third is a cycle, but of the run that is one cycle. A number is the median
  of the seeds; the best has the least and the most of them beside it.
  """
  rows = [
    [
      *('data', 'run', 'seeds', 'at a third', 'at two thirds', 'at the end'),
      'best: median, least, most',
      'seeds that end above one_cycle',
    ],
    ['---'] * 8,
  ]
  for name, real in THESIS.items():
    steps = 2 * CASES[name].step_hint
    thirds = math.ceil(steps / 3), math.ceil(2 * steps / 3)
    runs: dict[str, dict[int, list[float]]] = {}
    for key in sorted(filter(kept.is_kept, found)):
      if key.data != name:
        continue
      points = found[key]
      metrics = [
        *(
          [point.metric for point in points if point.step <= step][-1]
          for step in (*thirds, math.inf)
        ),
        max(point.metric for point in points),
      ]
      entry = key.entry.removeprefix('thesis_')
      runs.setdefault(entry, {})[key.seed] = metrics
    one = runs.get('one_cycle', {})
    for entry, seeds in runs.items():
      columns = list(zip(*seeds.values()))
      *medians, best = (f'{statistics.median(c):.3g}' for c in columns)
      least, most = min(columns[-1]), max(columns[-1])
      spread = f'{best}, {least:.3g}, {most:.3g}'
      both = [seed for seed in seeds if seed in one]
      above = sum(seeds[seed][2] > one[seed][2] for seed in both)
      shown = '' if entry == 'one_cycle' else f'{above} of {len(both)}'
      rows.append([real, entry, str(len(seeds)), *medians, spread, shown])
  return [f'| {" | ".join(row)} |' for row in rows]


def courses_of(found: logs.Logs, names: Iterable[str]) -> list[str]:
  """Markdown: loss and metric of each run of some cases, from first to last."""
  rows = [
    [
      *('case', 'entry', 'seed', 'steps'),
      *('loss: first, least, last', 'metric: first, best, last'),
    ],
    ['---'] * 6,
  ]
  for name in names:
    best = min if CASES[name].lower else max
    for run in sorted(run for run in found if run.data == name):
      points = found[run]
      losses = [point.loss for point in points]
      metrics = [point.metric for point in points]
      shown = (
        ', '.join(f'{value:.3g}' for value in (values[0], middle, values[-1]))
        for values, middle in ((losses, min(losses)), (metrics, best(metrics)))
      )
      rows.append(
        [name, run.entry, str(run.seed), str(points[-1].step), *shown]
      )
  return [f'| {" | ".join(row)} |' for row in rows]


def text() -> str:
  """README.md with the tables of the logs."""
  found, page = logs.read(), logs.README.read_text()
  apart = {*REAL, *THESIS, *LARGER, *FURTHER}
  others = [name for name in CASES if name not in apart]
  page = logs.written(page, tables_of(found, others))
  real = tables_of(found, REAL)
  if results := results_of(found, REAL):
    real += ['', *results]
  page = logs.written(page, real, logs.REAL_MARKS)
  page = logs.written(page, courses_of(found, LARGER), logs.LARGER_MARKS)
  page = logs.written(page, thesis_of(found), logs.THESIS_MARKS)
  return logs.written(page, courses_of(found, FURTHER), logs.FURTHER_MARKS)


def write_tables() -> None:
  """Writes the tables of all logs into README.md."""
  files.write_whole(logs.README, text())
