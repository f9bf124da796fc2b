"""Policies chosen on some runs and judged on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...settings.named import Setting, as_plain
from ..text_table import table_lines
from .cases import Case
from .table import PolicyRuns, Spent, part_of, spent


class LeftOut(NamedTuple):
  """A part, and how the policy chosen on all others does there."""

  part: str  # a workload or submission; '' for all parts together
  policy: Setting  # the one that was chosen; '' for all parts
  budget: float  # as a multiple of the maximum runtime
  cases: int
  reached: float  # share of the cases
  time: float  # mean over the cases, as a share of the budget


def judge_left_out(
  shown: Sequence[PolicyRuns], budgets: Sequence[float], by: str
) -> list[LeftOut]:
  """Leaves out each part in turn.

  The policy is chosen that reaches the most targets in the other parts within
  the budget; ties go to the one that reaches them sooner, then to the first.

  Args:
    shown: as returned by `table.judge`, at least two.
    budgets: as multiples of the maximum runtime.
    by: 'workload' or 'submission': what is left out. A workload's variants are
      workloads of their own and stay in.

  Returns:
    A row per budget and part, and one over all parts, with part ''.

  Raises:
    ValueError: if there are fewer than two policies to choose from.
  """
  if len(shown) < 2:
    raise ValueError(
      f'--left_out={by}: give at least two --policy to choose from.'
    )
  groups = [spent(one) for one in shown]
  rows = []
  for budget in budgets:
    found = [_cases_of_parts(own, budget, by) for own in groups]
    rows += _leave_out([one.policy for one in shown], found, budget)
  return rows


def _cases_of_parts(
  groups: Sequence[Spent], budget: float, by: str
) -> dict[str, list[Case]]:
  parts: dict[str, list[Case]] = {}
  for group in groups:
    part = part_of(group.trials[0].run, by)
    parts.setdefault(part, []).extend(group.cases(budget))
  return parts


def _leave_out(
  policies: Sequence[Setting],
  found: Sequence[Mapping[str, Sequence[Case]]],
  budget: float,
) -> list[LeftOut]:
  rows, pooled = [], []
  for part in sorted(found[0]):

    def elsewhere(i: int, left_out: str = part) -> tuple[float, float]:
      cases = [c for p, own in found[i].items() if p != left_out for c in own]
      reached = sum(case.reached for case in cases)
      return -reached, sum(case.time for case in cases)

    chosen = min(range(len(policies)), key=elsewhere)
    pooled += found[chosen][part]
    rows.append(_row(part, policies[chosen], budget, found[chosen][part]))
  return [*rows, _row('', '', budget, pooled)]


def _row(
  part: str, policy: Setting, budget: float, cases: Sequence[Case]
) -> LeftOut:
  reached = float(np.mean([case.reached for case in cases]))
  time = float(np.mean([case.time for case in cases]))
  return LeftOut(part, policy, budget, len(cases), reached, time)


def text_lines(rows: Sequence[LeftOut], by: str) -> list[str]:
  """The rows for the terminal."""
  table = [['budget', f'{by} left out', 'chosen', 'cases', 'reached', 'time']]
  for row in rows:
    cells = [f'{row.budget:g}×', row.part or 'all', str(row.policy)]
    cells += [f'{row.cases:,}', f'{row.reached:.3f}', f'{row.time:.3f}']
    table.append(cells)
  return table_lines(table)


def as_objects(rows: Sequence[LeftOut], by: str) -> list[dict[str, Any]]:
  """The rows as objects for JSON; the one over all parts has None as part."""
  return [
    {
      by: row.part or None,
      'policy': as_plain(row.policy) or None,
      'budget': row.budget,
      'cases': row.cases,
      'reached': row.reached,
      'time': row.time,
    }
    for row in rows
  ]
