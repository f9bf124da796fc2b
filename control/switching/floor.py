"""A lower bound on the metric's progress, by share of the cycle."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from ...settings.kinds import ListOf, Number, Shares
from ..state import Evaluation
from ..way import log_share
from .rule import SWITCHING_RULES, Context, Verdict


class BestShare(NamedTuple):
  """The best share of the way so far."""

  best: float  # -inf before the first finite metric


def _wrong(parameters: Mapping[str, Any]) -> str:
  num_shares, num_least = len(parameters['shares']), len(parameters['least'])
  if num_shares == num_least:
    return ''
  return (
    f'shares has {num_shares} numbers and least {num_least}; they must have '
    'the same length'
  )


@SWITCHING_RULES.register(name='floor', check=_wrong)
@dataclasses.dataclass(frozen=True)
class Floor:
  """Leaves a cycle whose metric has come less far than its share demands.

    leave if the loss is not finite, or
             max p < least[i],  i = max {i : shares[i] <= f}

  p is the share of the way to the target (`way.log_share`), the maximum over the
  cycle's evaluations, f the share of the cycle. Below shares[0] no cycle is
  left.

  Of the cases that the README in studies/real_runs defines, 62.4 % reach their
  target within 1.5 times the maximum runtime and 82.5 % within 3 times (without
  switching 58.7 and 80.5 %). It leaves 31 of the 1,326 runs that go on to reach
  their target. The numbers were chosen on these very runs.

  Attributes:
    shares: shares of the cycle, rising; from each on, its number in `least`
      counts.
    least: share of the way to the target that must have been covered by then.
  """

  shares: Shares = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
  least: ListOf(Number, 'a list of numbers') = (
    0.1,
    0.4,
    0.55,
    0.65,
    0.75,
    0.82,
    0.88,
    0.93,
    0.965,
  )

  initial: ClassVar[BestShare] = BestShare(-math.inf)
  columns: ClassVar[tuple[str, ...]] = ('progress', 'best_progress', 'floor')

  def observe(
    self, state: BestShare, evaluation: Evaluation, context: Context
  ) -> tuple[BestShare, Verdict]:
    """See `SwitchingRule`."""
    share = log_share(evaluation.metric, context.target, context.first_metric)
    best = state.best if math.isnan(share) else max(state.best, share)
    floor = self.at(context.share_of_cycle)
    terms = {'progress': share, 'best_progress': best, 'floor': floor}
    reason = 'behind the floor' if best < floor else ''
    if not math.isfinite(evaluation.loss):
      reason = 'loss is not finite'
    return BestShare(best), Verdict(reason, terms)

  def at(self, share_of_cycle: float) -> float:
    """The floor at a share of the cycle; -inf before the first."""
    asked = [
      least
      for share, least in zip(self.shares, self.least)
      if share <= share_of_cycle
    ]
    return asked[-1] if asked else -math.inf
