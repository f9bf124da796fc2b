"""Figures of policies: how many cases reach their target, how soon."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...settings.named import Setting, as_plain
from ..real_runs.reading import RecordedRun
from ..text_table import table_lines
from .cases import Judged, cases, comparable, groups
from .policies import POLICIES, left_at

# What figures can be shown by, and how a run says it.
BY = {
  'workload': lambda run: run.workload.name,
  'submission': lambda run: run.submission,
}
BUDGETS = (1.5, 3.0)


class PolicyRuns(NamedTuple):
  """A policy, and where it leaves each of the runs."""

  policy: Setting
  judged: Sequence[Judged]


class Figures(NamedTuple):
  """A policy in a budget; `part` is a workload or submission, '' for all."""

  policy: Setting
  part: str
  budget: float  # as a multiple of the maximum runtime
  cases: int
  reached: float  # share of the cases
  time: float  # mean over the cases, as a share of the budget
  false_alarms: int  # runs left that go on to reach their target
  reaching: int  # runs that reach it when they are let


def judge(
  runs: Sequence[RecordedRun], policies: Sequence[Setting]
) -> list[PolicyRuns]:
  """Shows every run to every policy.

  Raises:
    ValueError: if there is nothing to replay; see `comparable`.
  """
  found = comparable(runs)
  made = [(setting, POLICIES.make(setting)) for setting in policies]
  return [
    PolicyRuns(setting, [Judged(run, left_at(policy, run)) for run in found])
    for setting, policy in made
  ]


def figures(
  shown: PolicyRuns, budgets: Sequence[float], by: str | None = None
) -> list[Figures]:
  """The figures of a policy, a row per budget and part.

  Args:
    shown: of `judge`.
    budgets: as multiples of the maximum runtime.
    by: 'workload' or 'submission', or None for all in one.
  """
  parts: dict[str, list[Judged]] = collections.defaultdict(list)
  for one in shown.judged:
    parts[BY[by](one.run) if by else ''].append(one)
  return [
    row
    for part, judged in sorted(parts.items())
    for row in _rows(shown.policy, part, judged, budgets)
  ]


def _rows(
  policy: Setting,
  part: str,
  judged: Sequence[Judged],
  budgets: Sequence[float],
) -> Iterator[Figures]:
  """A row per budget; none if the part has no group of trials."""
  found = groups(judged)
  false_alarms = sum(one.is_false_alarm for one in judged)
  reaching = sum(one.run.reached is not None for one in judged)
  for budget in budgets if found else ():
    outcomes = [case for group in found for case in cases(group, budget)]
    yield Figures(
      policy,
      part,
      budget,
      len(outcomes),
      float(np.mean([case.reached for case in outcomes])),
      float(np.mean([case.time for case in outcomes])),
      false_alarms,
      reaching,
    )


def text_lines(rows: Sequence[Figures], by: str | None = None) -> list[str]:
  """The figures for the terminal, a line for each policy and part.

  Args:
    rows: of `figures`, with the same budgets for each.
    by: as in `figures`.
  """
  budgets = sorted({row.budget for row in rows})
  found = {(row.policy, row.part, row.budget): row for row in rows}
  titles = ['policy', *([by] if by else []), 'cases']
  for budget in budgets:
    titles += [f'reached, {budget:g}×', 'time']
  table = [[*titles, 'false alarms']]
  for policy, part in dict.fromkeys((row.policy, row.part) for row in rows):
    own = [found[policy, part, budget] for budget in budgets]
    cells = [str(policy), *([part] if by else []), f'{own[0].cases:,}']
    for row in own:
      cells += [f'{row.reached:.3f}', f'{row.time:.3f}']
    table.append([*cells, f'{own[0].false_alarms:,} of {own[0].reaching:,}'])
  return table_lines(table)


def as_objects(
  rows: Sequence[Figures], by: str | None = None
) -> list[dict[str, Any]]:
  """The figures for programs.

  Args:
    rows: of `figures`.
    by: as in `figures`; the part's key.
  """
  return [
    {
      'policy': as_plain(row.policy),
      **({by: row.part} if by else {}),
      'budget': row.budget,
      'cases': row.cases,
      'reached': row.reached,
      'time': row.time,
      'false_alarms': row.false_alarms,
    }
    for row in rows
  ]
