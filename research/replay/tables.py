"""Figures of rules: how many cases reach their target, and how soon."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...views.text_table import table_lines
from .. import run_logs
from .cases import Replayed
from .rules import in_words

BUDGETS = (1.5, 3.0)


def figures(
  shown: Sequence[Replayed], budgets: Sequence[float]
) -> list[dict[str, Any]]:
  """The figures of rules: cases, targets reached, time, false alarms.

  False alarms are runs that were abandoned and would have reached their target.
  Budgets are multiples of the maximum runtime.

  Returns:
    One object per rule and budget. `reached` is a share of the cases, `time`
    the mean share of the budget, `reaching` the number of runs that reach their
    target when none is abandoned, and `spoke` who abandoned how many runs.
  """
  found = []
  for one, budget in itertools.product(shown, budgets):
    cases = [case for group in one.groups for case in group.cases(budget)]
    reasons = [j.end.reason for j in one.judged if j.end.reason]
    speakers = map(run_logs.speakers, reasons)
    reached, time = np.mean(cases, axis=0).tolist()
    found.append(
      {
        'rule': one.rule.given,
        'budget': budget,
        'cases': len(cases),
        'reached': reached,
        'time': time,
        'false_alarms': sum(j.is_false_alarm for j in one.judged),
        'reaching': sum(j.run.reached is not None for j in one.judged),
        'spoke': dict(collections.Counter(sorted(speakers))),
      }
    )
  return found


def lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
  """The same for the terminal, a row per object."""

  def cell(name: str, value: Any) -> str:
    if name in ('reached', 'time'):
      return f'{value:.3f}'
    if name == 'spoke':
      return ', '.join(f'{who} {count}' for who, count in value.items())
    return in_words(value) if name == 'rule' else f'{value}'

  rows = [[name.replace('_', ' ') for name in found[0]]]
  rows += [[cell(*item) for item in each.items()] for each in found]
  return table_lines(rows)
