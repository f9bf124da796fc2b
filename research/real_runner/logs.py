"""What runs leave: one table of evaluations, and the steps to a target."""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .. import run_logs

FILE = pathlib.Path(__file__).with_name('evaluations.csv')
README = FILE.with_name('README.md')
MARKS = ('<!-- written by logs.py -->\n', '<!-- end -->\n')
REAL_MARKS = ('<!-- real data, written by logs.py -->\n', MARKS[1])
THESIS_MARKS = ("<!-- the thesis' runs, written by logs.py -->\n", MARKS[1])
LARGER_MARKS = ('<!-- larger models, written by logs.py -->\n', MARKS[1])
FURTHER_MARKS = ('<!-- further workloads, written by logs.py -->\n', MARKS[1])


class RunKey(NamedTuple):
  """Which run it is."""

  data: str
  clock: str
  entry: str
  seed: int
  target: float  # of validation; the run ends there


class Point(NamedTuple):
  """An evaluation: steps before it, seconds of submission time, results.

  Loss and metric are of the validation split; `test` is the metric of the test
  split, and not a number where that split was not evaluated.
  """

  step: int
  seconds: float
  loss: float
  metric: float
  test: float = math.nan


COLUMNS = (*RunKey._fields, *Point._fields)
Logs = Mapping[RunKey, Sequence[Point]]


def read(file: pathlib.Path = FILE) -> dict[RunKey, list[Point]]:
  """All runs of a file, each one's evaluations in their order."""
  runs: dict[RunKey, list[Point]] = {}
  for row in run_logs.read(file, COLUMNS):
    data, clock, entry, seed, target, step, *values = row.values()
    run = RunKey(data, clock, entry, int(seed), float(target))
    point = Point(int(step), *map(float, values))
    runs.setdefault(run, []).append(point)
  return runs


def append(file: pathlib.Path, run: RunKey, points: Iterable[Point]) -> None:
  """Adds a run; all but the metric that decides is rounded."""
  rows = [
    (*run, step, f'{seconds:.5g}', f'{loss:.5g}', metric, f'{test:.5g}')
    for step, seconds, loss, metric, test in points
  ]
  run_logs.append(file, COLUMNS, rows)


def steps_to(
  points: Sequence[Point], target: float, lower: bool = False
) -> float:
  """Steps at the first evaluation past a target; infinite if there is none.

  Args:
    lower: whether past is below it.
  """
  past = float.__lt__ if lower else float.__gt__
  return min(
    (p.step for p in points if past(p.metric, target)), default=math.inf
  )


def steps_text(steps: float) -> str:
  """Steps as a table has them; half a step is rounded up."""
  return 'never' if math.isinf(steps) else str(math.floor(steps + 0.5))


def table(logs: Logs, clock: str, targets: Mapping[str, float]) -> list[str]:
  """Markdown: steps to the target, a line for each entry.

  The interval is from the least to the most. Of n seeds it holds the median of
  all seeds with a probability of 1 - 2 (1/2)^n, whatever their distribution.

  Args:
    logs: of all runs.
    clock: which ones are shown.
    targets: of every data set that is shown.
  """
  cells: dict[str, dict[str, list[float]]] = {}
  for run in sorted(logs):
    if run.clock == clock and run.target == targets.get(run.data):
      steps = steps_to(logs[run], run.target)
      cells.setdefault(run.entry, {}).setdefault(run.data, []).append(steps)
  names = [d for d in targets if any(d in found for found in cells.values())]

  def cell(steps: Sequence[float]) -> str:
    if not steps:
      return ''
    middle, least, most = map(
      steps_text, (statistics.median(steps), min(steps), max(steps))
    )
    reached, spread = sum(map(math.isfinite, steps)), f' {least}–{most}'
    spread = spread if least != most else ''
    return f'**{middle}**{spread}, {reached} of {len(steps)}'

  def median(entry: str) -> float:
    return statistics.median(cells[entry].get(names[0], [math.inf]))

  head = [f'{name}, {targets[name]}' for name in names]
  return [
    f'| {" | ".join(row)} |'
    for row in (
      ['entry', *head],
      ['---'] * (1 + len(head)),
      *(
        [entry, *(cell(cells[entry].get(name, [])) for name in names)]
        for entry in sorted(cells, key=median)
      ),
    )
  ]


def written(
  text: str, lines: Iterable[str], marks: tuple[str, str] = MARKS
) -> str:
  """A page's text with other lines between two marks."""
  before, start, rest = text.partition(marks[0])
  _, end, after = rest.partition(marks[1])
  if not end:
    raise ValueError(f'the page lacks the marks {marks[0]!r} and {marks[1]!r}.')
  return before + start + '\n'.join(['', *lines, '', '']) + end + after
