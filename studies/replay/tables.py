"""Figures of rules: how many cases reach their target, and how soon."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..real_runs.reading import RecordedRun
from ..text_table import table_lines
from .cases import Group, Replayed
from .rules import in_words

# What figures can be grouped by, and a run's group.
BY: Mapping[str, Callable[[RecordedRun], str]] = {
  'workload': lambda run: run.workload.name,
  'submission': lambda run: run.submission,
}
BUDGETS = (1.5, 3.0)


def figures(
  shown: Sequence[Replayed], budgets: Sequence[float], by: str | None = None
) -> list[dict[str, Any]]:
  """The figures of rules: cases, targets reached, time, false alarms.

  False alarms are runs that were abandoned and would have reached their target.

  Args:
    shown: the rules.
    budgets: as multiples of the maximum runtime.
    by: a key of `BY`, or None for all together.

  Returns:
    One object per rule, part and budget. `reached` is a share of the cases, `time`
    the mean share of the budget, `reaching` the number of runs that reach their
    target when none is abandoned.
  """
  found = []
  for one in shown:
    parts: dict[str, list[Group]] = collections.defaultdict(list)
    for group in one.groups:
      parts[BY[by](group.trials[0].run) if by else ''].append(group)
    for part, groups in sorted(parts.items()):
      judged = [j for j in one.judged if not by or BY[by](j.run) == part]
      for budget in budgets:
        cases = [case for group in groups for case in group.cases(budget)]
        reached, time = np.mean(cases, axis=0).tolist()
        found.append(
          {
            'rule': one.rule.given,
            **({by: part} if by else {}),
            'budget': budget,
            'cases': len(cases),
            'reached': reached,
            'time': time,
            'false_alarms': sum(j.is_false_alarm for j in judged),
            'reaching': sum(j.run.reached is not None for j in judged),
          }
        )
  return found


def lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
  """The same for the terminal, a row per object."""

  def cell(name: str, value: Any) -> str:
    if name in ('reached', 'time'):
      return f'{value:.3f}'
    return in_words(value) if name == 'rule' else f'{value}'

  rows = [[name.replace('_', ' ') for name in found[0]]]
  rows += [[cell(*item) for item in each.items()] for each in found]
  return table_lines(rows)
