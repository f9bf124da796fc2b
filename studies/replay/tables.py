"""Figures of rules: how many cases reach their target, and how soon."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..real_runs.reading import RecordedRun
from ..text_table import table_lines
from .cases import Case, Group, Replayed
from .rules import Rule

# What figures can be grouped by, and a run's group.
BY: Mapping[str, Callable[[RecordedRun], str]] = {
  'workload': lambda run: run.workload.name,
  'submission': lambda run: run.submission,
}
BUDGETS = (1.5, 3.0)


class Table(NamedTuple):
  """Figures in two forms."""

  lines: list[str]  # for the terminal
  objects: list[dict[str, Any]]  # for JSON


def _by_part(groups: Iterable[Group], by: str | None) -> dict[str, list[Group]]:
  """Groups by workload or submission; under '' if `by` is None."""
  found: dict[str, list[Group]] = collections.defaultdict(list)
  for group in groups:
    found[BY[by](group.trials[0].run) if by else ''].append(group)
  return dict(sorted(found.items()))


def _cases(groups: Iterable[Group], budget: float) -> list[Case]:
  return [case for group in groups for case in group.cases(budget)]


class Means(NamedTuple):
  """How many cases reach their target, and how soon."""

  reached: float  # share of the cases; NaN without any
  time: float  # mean, as a share of the budget; a failing case uses all of it

  def texts(self) -> list[str]:
    """Both for the terminal."""
    return ['–' if math.isnan(mean) else f'{mean:.3f}' for mean in self]


def _means(cases: Sequence[Case]) -> Means:
  if not cases:
    return Means(math.nan, math.nan)
  return Means(*np.mean(cases, axis=0).tolist())


def figures(
  shown: Sequence[Replayed], budgets: Sequence[float], by: str | None = None
) -> Table:
  """The figures of rules: cases, targets reached, time, false alarms.

  False alarms are runs left that would have reached their target; there are
  none to count in a race, where a run that does not go on has not been left.

  Args:
    shown: the rules.
    budgets: as multiples of the maximum runtime.
    by: 'workload' or 'submission', or None for all together.
  """
  titles = ['rule', *([by] if by else []), 'cases']
  for budget in budgets:
    titles += [f'reached, {budget:g}×', 'time']
  rows, objects = [[*titles, 'false alarms']], []
  for one in shown:
    for part, groups in _by_part(one.groups, by).items():
      judged = [j for j in one.judged if not by or BY[by](j.run) == part]
      reaching = sum(j.run.reached is not None for j in judged)
      alarms = None
      if one.rule.race is None:
        alarms = sum(j.is_false_alarm for j in judged)
      count = sum(len(group.trials) for group in groups)
      cells = [str(one.rule), *([part] if by else []), f'{count:,}']
      for budget in budgets:
        means = _means(_cases(groups, budget))
        cells += means.texts()
        objects.append(
          {
            'rule': one.rule.given,
            **({by: part} if by else {}),
            'budget': budget,
            'cases': count,
            **means._asdict(),
            'false_alarms': alarms,
          }
        )
      cells.append('–' if alarms is None else f'{alarms:,} of {reaching:,}')
      rows.append(cells)
  return Table(table_lines(rows), objects)


def _balance(gained: float, lost: float) -> float:
  """The share of good cases at which race and rule do equally well.

  With a smaller share the race does better: always (1) if it is no worse in
  good cases, never (0) if it is no better in the others.
  """
  if math.isnan(gained + lost):
    return math.nan
  if gained <= 0:
    return 0.0
  return gained / (gained + lost) if lost > 0 else 1.0


def costs(
  shown: Sequence[Replayed], budgets: Sequence[float], by: str | None = None
) -> Table:
  """What races cost in cases that did not need one, and bring in others.

  Each is compared with its switching rule on one trial after the other. *Good*
  cases are those whose first trial reaches its target under the rule, however
  long it takes. Times are in maximum runtimes.

  Raises:
    ValueError: if one of the rules is not a race.
  """
  titles = ['rule', *([by] if by else []), 'budget', 'good', 'cases']
  titles += ['race', 'time', 'row', 'time', 'break-even', 'by time']
  rows, objects = [titles], []
  for one in shown:
    if one.rule.race is None:
      raise ValueError(f'--rule={one.rule} is not a race; --costs needs one.')
    in_a_row = _by_part(one.in_a_row, by)
    for part, groups in _by_part(one.groups, by).items():
      firsts = [trial.reaches for group in groups for trial in group.trials]
      for budget in budgets:
        means: list[Means] = []
        for is_good in (True, False):
          for own in (groups, in_a_row[part]):
            cases = zip(firsts, _cases(own, budget))
            mean = _means([case for good, case in cases if good == is_good])
            means.append(Means(mean.reached, budget * mean.time))
        good_race, good_row, others_race, others_row = means
        even = Means(
          _balance(
            others_race.reached - others_row.reached,
            good_row.reached - good_race.reached,
          ),
          _balance(
            others_row.time - others_race.time, good_race.time - good_row.time
          ),
        )
        first = [str(one.rule), *([part] if by else []), f'{budget:g}×']
        good = [*good_race.texts(), *good_row.texts(), *even.texts()]
        rows.append([*first, 'yes', f'{sum(firsts):,}', *good])
        others = [*others_race.texts(), *others_row.texts(), '', '']
        count = f'{len(firsts) - sum(firsts):,}'
        rows.append([*([''] * len(first)), 'no', count, *others])
        names = ('good_race', 'good_row', 'others_race', 'others_row')
        objects.append(
          {
            'rule': one.rule.given,
            **({by: part} if by else {}),
            'budget': budget,
            'cases': len(firsts),
            'good': sum(firsts),
            **{
              f'{name}_{key}': None if math.isnan(value) else value
              for name, mean in zip((*names, 'break_even'), (*means, even))
              for key, value in mean._asdict().items()
            },
          }
        )
  return Table(table_lines(rows), objects)


def left_out(
  shown: Sequence[Replayed], budgets: Sequence[float], by: str
) -> Table:
  """Leaves out each part in turn: rules chosen on some runs, judged on others.

  The rule is chosen that reaches the most targets in the other parts within the
  budget; ties go to the one that reaches them sooner, then to the first. The
  last row of each budget is over all parts. A workload's variants are workloads
  of their own and stay in.

  Raises:
    ValueError: if there are fewer than two rules to choose from.
  """
  if len(shown) < 2:
    raise ValueError(
      f'--left_out={by}: give at least two --rule to choose from.'
    )
  rows = [['budget', f'{by} left out', 'chosen', 'cases', 'reached', 'time']]
  objects = []
  for budget in budgets:
    found = [
      {part: _cases(groups, budget) for part, groups in parts.items()}
      for parts in (_by_part(one.groups, by) for one in shown)
    ]
    results: list[tuple[str, Rule | None, list[Case]]] = []
    for part in found[0]:
      ranks = []
      for index, own in enumerate(found):
        cases = [c for p, others in own.items() if p != part for c in others]
        reached = sum(case.reached for case in cases)
        ranks.append((-reached, sum(case.time for case in cases), index))
      chosen = min(ranks)[-1]
      results.append((part, shown[chosen].rule, found[chosen][part]))
    pooled = [case for _, _, own in results for case in own]
    for part, rule, cases in [*results, ('', None, pooled)]:
      means = _means(cases)
      cells = [
        f'{budget:g}×',
        part or 'all',
        str(rule or ''),
        f'{len(cases):,}',
      ]
      rows.append([*cells, *means.texts()])
      objects.append(
        {
          by: part or None,
          'rule': rule and rule.given,
          'budget': budget,
          'cases': len(cases),
          **means._asdict(),
        }
      )
  return Table(table_lines(rows), objects)
