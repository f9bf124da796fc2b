"""What a race costs in cases that did not need one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...settings.named import Setting, as_plain
from ..text_table import table_lines
from .cases import Case
from .table import PolicyRuns, Spent, part_of, spent

_MEANS = (
  'good_race',
  'good_row',
  'others_race',
  'others_row',
  'break_even',
)


class Means(NamedTuple):
  """How many cases reach their target, and how soon."""

  reached: float  # share of the cases; NaN without any
  time: float  # mean, in maximum runtimes; a failing case uses the whole budget


class Costs(NamedTuple):
  """A race compared with its switching rule on one trial after the other.

  *Good* cases are those whose first trial reaches its target under the rule,
  however long it takes.
  """

  policy: Setting
  part: str  # a workload or submission, '' for all
  budget: float  # as a multiple of the maximum runtime
  cases: int
  good: int
  good_race: Means
  good_row: Means
  others_race: Means
  others_row: Means

  @property
  def break_even(self) -> Means:
    """The share of good cases at which race and rule do equally well.

    By targets reached, and by mean time. With a smaller share the race does
    better: always (1) if it is no worse in good cases, never (0) if it is no
    better in the others.
    """
    gained = self.others_race.reached - self.others_row.reached
    lost = self.good_row.reached - self.good_race.reached
    sooner = self.others_row.time - self.others_race.time
    later = self.good_race.time - self.good_row.time
    return Means(_balance(gained, lost), _balance(sooner, later))


def _balance(gained: float, lost: float) -> float:
  if math.isnan(gained + lost):
    return math.nan
  if gained <= 0:
    return 0.0
  return gained / (gained + lost) if lost > 0 else 1.0


def costs(
  shown: PolicyRuns, budgets: Sequence[float], by: str | None = None
) -> list[Costs]:
  """What a race costs, one row per budget and part.

  Args:
    shown: one of those that `table.judge` returns.
    budgets: as multiples of the maximum runtime.
    by: 'workload' or 'submission', or None for all together.

  Raises:
    ValueError: if the policy is not a race.
  """
  if shown.race is None:
    raise ValueError(
      f'--policy={shown.policy} is not a race; --costs needs one.'
    )
  pairs: dict[str, list[tuple[Spent, Spent]]] = {}
  for pair in zip(spent(shown), spent(shown._replace(race=None))):
    part = part_of(pair[0].trials[0].run, by)
    pairs.setdefault(part, []).append(pair)
  return [
    _costs(shown.policy, part, budget, pairs[part])
    for part in sorted(pairs)
    for budget in budgets
  ]


def _costs(
  policy: Setting,
  part: str,
  budget: float,
  pairs: Sequence[tuple[Spent, Spent]],
) -> Costs:
  outcomes = list(_outcomes(budget, pairs))
  good = [pair for is_good, *pair in outcomes if is_good]
  others = [pair for is_good, *pair in outcomes if not is_good]
  means = [
    _means([pair[i] for pair in group], budget)
    for group in (good, others)
    for i in (0, 1)
  ]
  return Costs(policy, part, budget, len(outcomes), len(good), *means)


def _outcomes(
  budget: float, pairs: Sequence[tuple[Spent, Spent]]
) -> Iterator[tuple[bool, Case, Case]]:
  """(whether the first trial reaches its target, race's case, rule's case)."""
  for race, row in pairs:
    firsts = (trial.reaches for trial in race.trials)
    yield from zip(firsts, race.cases(budget), row.cases(budget))


def _means(cases: Sequence[Case], budget: float) -> Means:
  if not cases:
    return Means(math.nan, math.nan)
  reached = float(np.mean([case.reached for case in cases]))
  return Means(reached, budget * float(np.mean([case.time for case in cases])))


def text_lines(rows: Sequence[Costs], by: str | None = None) -> list[str]:
  """The costs for the terminal, two lines for each policy, part and budget.

  One line is for good cases, one for the others: the share of targets that the
  race reaches and its time in maximum runtimes, then the rule's.
  """
  titles = ['policy', *([by] if by else []), 'budget', 'good', 'cases']
  titles += ['race', 'time', 'rule', 'time', 'break-even', 'by time']
  table = [titles]
  for row in rows:
    first = [str(row.policy), *([row.part] if by else []), f'{row.budget:g}×']
    even = [_text(share) for share in row.break_even]
    good = [*row.good_race, *row.good_row]
    table.append([*first, 'yes', f'{row.good:,}', *map(_text, good), *even])
    others = [*row.others_race, *row.others_row]
    count = f'{row.cases - row.good:,}'
    cells = [*[''] * len(first), 'no', count, *map(_text, others)]
    table.append([*cells, '', ''])
  return table_lines(table)


def _text(number: float) -> str:
  return '–' if math.isnan(number) else f'{number:.3f}'


def as_objects(
  rows: Sequence[Costs], by: str | None = None
) -> list[dict[str, Any]]:
  """The costs as objects for JSON; a mean over no cases is None."""
  return [
    {
      'policy': as_plain(row.policy),
      **({by: row.part} if by else {}),
      'budget': row.budget,
      'cases': row.cases,
      'good': row.good,
      **{
        f'{what}_{key}': None if math.isnan(value) else value
        for what in _MEANS
        for key, value in getattr(row, what)._asdict().items()
      },
    }
    for row in rows
  ]
