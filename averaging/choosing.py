"""Raw or averaged weights: which of them the next evaluation sees.

With 'alternate', they take turns until one proves better. Three evaluations
x y x decide: y is better if its metric is better than the mean of its two
neighbours, which cancels the progress from one evaluation to the next. From
then on the better one is evaluated; after AGAIN evaluations the other one has
another turn, and the comparison is repeated.

All of this is a function of the numbers in `Choosing`, which are saved.
"""

from __future__ import annotations

import math
from typing import NamedTuple

RAW, AVERAGED, UNKNOWN = 0, 1, -1
AGAIN = 8


class Choosing(NamedTuple):
  """What is known of raw and averaged weights.

  Attributes:
    better: RAW, AVERAGED or UNKNOWN.
    streak: evaluations of `last` in a row.
    before, before_metric: the evaluation before the last: RAW, AVERAGED or
      UNKNOWN, and its metric.
    last, last_metric: the last evaluation, likewise.
  """

  better: int = UNKNOWN
  streak: int = 0
  before: int = UNKNOWN
  before_metric: float = math.nan
  last: int = UNKNOWN
  last_metric: float = math.nan


def observe(
  known: Choosing, kind: int, metric: float, rising: bool
) -> Choosing:
  """What is known after an evaluation.

  Args:
    known: what was known before it.
    kind: what was evaluated, RAW or AVERAGED.
    metric: the target metric.
    rising: whether a larger metric is better.
  """
  better = known.better
  other = 1 - kind
  if (known.before, known.last) == (kind, other):
    beside = (known.before_metric + metric) / 2
    better = other if _is_better(known.last_metric, beside, rising) else kind
  streak = known.streak + 1 if known.last == kind else 1
  return Choosing(better, streak, known.last, known.last_metric, kind, metric)


def _is_better(metric: float, than: float, rising: bool) -> bool:
  """Whether a metric is better; one that is not finite is worse than any."""
  if not math.isfinite(metric) or not math.isfinite(than):
    return math.isfinite(metric)
  return metric > than if rising else metric < than


def begin_cycle(known: Choosing) -> Choosing:
  """Forgets the metrics: those of two cycles cannot be compared."""
  return Choosing(better=known.better)


def wanted(known: Choosing, choice: str) -> int:
  """What the next evaluation should see, RAW or AVERAGED.

  Args:
    known: what is known.
    choice: 'averaged' for always the average, or 'alternate'.
  """
  if choice == 'averaged':
    return AVERAGED
  if known.better == UNKNOWN:
    return RAW if known.last == AVERAGED else AVERAGED
  is_time = known.last == known.better and known.streak >= AGAIN
  return 1 - known.better if is_time else known.better
