"""Tables of how runs end on recorded clocks."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...control.horizons import HORIZONS, Horizon
from ...settings.named import Setting
from ..real_runs.reading import RecordedRun
from ..text_table import table_lines
from .laid_over import (
  LaidOver,
  counts_steps,
  is_long_enough,
  lasts_for,
  lay_over,
  own_budgets,
)

FACTORS = (1.0, 1.5, 3.0)  # the rulesets' budgets over the maximum runtime
_HEADER = (
  'budget',
  'horizon',
  'runs',
  'in time',
  'unused: median',
  '95 %',
  'after evaluation: median',
)
_MOST_FAILURES = 12


class Row(NamedTuple):
  """The ends of runs with one kind of budget, under a horizon."""

  budget: str
  horizon: str
  laid: Sequence[LaidOver]

  @property
  def in_time(self) -> float:
    """Share of the runs whose annealed model is evaluated in time."""
    return float(np.mean([one.is_in_time for one in self.laid]))

  def unused(self, quantile: float) -> float:
    """Quantile of the share of the budget left after annealing, if in time."""
    found = [one.unused for one in self.laid if one.is_in_time]
    return float(np.quantile(found, quantile)) if found else np.nan

  @property
  def unseen(self) -> float:
    """Median share of the budget left after that evaluation, if in time."""
    found = [one.unseen for one in self.laid if one.is_in_time]
    return float(np.median(found)) if found else np.nan


def judge(runs: Sequence[RecordedRun], setting: Setting) -> list[Row]:
  """Replays runs on all clocks, with their own ends and rulesets' budgets.

  Args:
    runs: recorded runs; those that are too short, and rulesets' budgets that no
      run lasted for, are left out.
    setting: one of `HORIZONS`.

  Raises:
    ValueError: if no run is long enough.
  """
  found = [run for run in runs if is_long_enough(run)]
  if not found:
    raise ValueError(
      'no run can be used as a clock: a run needs at least four evaluations '
      'with their times.'
    )
  steps = [run for run in found if counts_steps(run)]
  horizon, name = HORIZONS.make(setting), str(setting)
  calls = [run for run in found if not counts_steps(run)]
  rows = [
    _row('own end', name, steps, own_budgets(steps), horizon),
    *_rows_of_rulesets(steps, name, horizon),
    _row('own end, lawa_*', name, calls, own_budgets(calls), horizon),
  ]
  return [row for row in rows if row.laid]


def _rows_of_rulesets(
  runs: Sequence[RecordedRun], name: str, horizon: Horizon
) -> list[Row]:
  rows = []
  for factor in FACTORS:
    long = [run for run in runs if lasts_for(run, factor)]
    budgets = [factor * run.workload.max_runtime for run in long]
    for label, one in ((name, horizon), ('steps', HORIZONS.make('steps'))):
      rows.append(_row(f'{factor:g}×', label, long, budgets, one, factor))
  return rows


def _row(
  label: str,
  name: str,
  runs: Sequence[RecordedRun],
  budgets: Sequence[float],
  horizon: Horizon,
  factor: float = 1.5,
) -> Row:
  laid = [
    lay_over(run, budget, horizon, int(factor * run.workload.step_hint))
    for run, budget in zip(runs, budgets)
  ]
  return Row(label, name, laid)


def lines(runs: Sequence[RecordedRun], rows: Sequence[Row]) -> list[str]:
  """The table, what it leaves out, and where the first row fails."""
  cells = [_HEADER, *map(_cells, rows)]
  short = sum(not is_long_enough(run) for run in runs)
  said = [*table_lines(cells), '']
  said.append(
    f'{len(runs):,} runs; {short:,} with fewer than four evaluations are left '
    'out.'
  )
  failed = _failures(rows[0])
  if failed:
    said.append(f'Not in time, by {rows[0].budget}: {"; ".join(failed)}.')
  return said


def _cells(row: Row) -> tuple[str, ...]:
  return (
    row.budget,
    row.horizon,
    f'{len(row.laid):,}',
    f'{row.in_time:.2%}',
    f'{row.unused(0.5):.2%}',
    f'{row.unused(0.95):.2%}',
    f'{row.unseen:.2%}',
  )


def _failures(row: Row) -> list[str]:
  """The groups with the most failures, as `board workload: n of N`."""

  def key(one: LaidOver) -> str:
    return f'{one.run.board} {one.run.workload.name}'

  total = collections.Counter(map(key, row.laid))
  failed = collections.Counter(
    key(one) for one in row.laid if not one.is_in_time
  )
  return [
    f'{name}: {count} of {total[name]}'
    for name, count in failed.most_common(_MOST_FAILURES)
  ]
