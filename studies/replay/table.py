"""Figures of policies: how many cases reach their target, and how soon."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...settings.named import Setting, as_plain
from ..real_runs.reading import RecordedRun
from ..text_table import table_lines
from . import cases, races
from .cases import Case, Judged
from .policies import POLICIES, RaceOfTrials, left_at

# What figures can be grouped by, and a run's group.
BY = {
  'workload': lambda run: run.workload.name,
  'submission': lambda run: run.submission,
}
BUDGETS = (1.5, 3.0)


class PolicyRuns(NamedTuple):
  """A policy, and where its rule leaves each of the runs."""

  policy: Setting
  judged: Sequence[Judged]
  race: RaceOfTrials | None = None  # None: the trials follow one another


class Spent(NamedTuple):
  """The cases of a group: all rotations of its trials' order."""

  trials: Sequence[Judged]
  seconds: Sequence[float]  # until the target; infinity if it isn't reached

  def cases(self, factor: float) -> list[Case]:
    """The cases under a budget of `factor` maximum runtimes."""
    max_runtime = self.trials[0].run.workload.max_runtime
    return cases.within(self.seconds, factor * max_runtime)


class Figures(NamedTuple):
  """A policy under a budget; `part` is a workload or submission, '' for all."""

  policy: Setting
  part: str
  budget: float  # as a multiple of the maximum runtime
  cases: int
  reached: float  # share of the cases
  time: float  # mean over the cases, as a share of the budget
  # Runs left that would have reached their target; None in a race, where a run
  # that is not resumed has not been left.
  false_alarms: int | None
  reaching: int  # runs that reach it if they are never left


def judge(
  runs: Sequence[RecordedRun], policies: Sequence[Setting]
) -> list[PolicyRuns]:
  """Finds where every policy leaves every run.

  Raises:
    ValueError: if there is nothing to replay; see `comparable`.
  """
  found = cases.comparable(runs)
  made = [(setting, POLICIES.make(setting)) for setting in policies]
  return [
    PolicyRuns(
      setting,
      [Judged(run, left_at(policy, run)) for run in found],
      policy if isinstance(policy, RaceOfTrials) else None,
    )
    for setting, policy in made
  ]


def spent(shown: PolicyRuns) -> list[Spent]:
  """The seconds that the cases of all groups take.

  Args:
    shown: one of those that `judge` returns.
  """
  return [
    Spent(trials, _seconds(shown.race, trials))
    for trials in cases.trials_of_groups(shown.judged)
  ]


def _seconds(
  race: RaceOfTrials | None, trials: Sequence[Judged]
) -> list[float]:
  if race is None:
    return cases.seconds_to_target(cases.as_group(trials))
  return races.seconds_to_target(race, trials)


def figures(
  shown: PolicyRuns, budgets: Sequence[float], by: str | None = None
) -> list[Figures]:
  """The figures of a policy, one row per budget and part.

  Args:
    shown: one of those that `judge` returns.
    budgets: as multiples of the maximum runtime.
    by: 'workload' or 'submission', or None for all together.
  """
  judged: dict[str, list[Judged]] = collections.defaultdict(list)
  for one in shown.judged:
    judged[part_of(one.run, by)].append(one)
  groups: dict[str, list[Spent]] = collections.defaultdict(list)
  for group in spent(shown):
    groups[part_of(group.trials[0].run, by)].append(group)
  return [
    _row(shown, part, budget, judged[part], groups[part])
    for part in sorted(groups)
    for budget in budgets
  ]


def part_of(run: RecordedRun, by: str | None) -> str:
  """The workload or submission of a run; '' if `by` is None."""
  return BY[by](run) if by else ''


def _row(
  shown: PolicyRuns,
  part: str,
  budget: float,
  judged: Sequence[Judged],
  groups: Sequence[Spent],
) -> Figures:
  outcomes = [case for group in groups for case in group.cases(budget)]
  return Figures(
    shown.policy,
    part,
    budget,
    len(outcomes),
    float(np.mean([case.reached for case in outcomes])),
    float(np.mean([case.time for case in outcomes])),
    None if shown.race else sum(one.is_false_alarm for one in judged),
    sum(one.run.reached is not None for one in judged),
  )


def text_lines(rows: Sequence[Figures], by: str | None = None) -> list[str]:
  """The figures for the terminal, one line for each policy and part.

  Args:
    rows: as returned by `figures`, with the same budgets for each policy.
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
    alarms = own[0].false_alarms
    cells.append(
      '–' if alarms is None else f'{alarms:,} of {own[0].reaching:,}'
    )
    table.append(cells)
  return table_lines(table)


def as_objects(
  rows: Sequence[Figures], by: str | None = None
) -> list[dict[str, Any]]:
  """The figures as objects for JSON.

  Args:
    rows: as returned by `figures`.
    by: as in `figures`; the key of the part.
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
