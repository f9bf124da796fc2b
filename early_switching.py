"""When to abandon a cycle: the smoothed loss with S(t), and progress.

Plain arithmetic on host numbers, a few dozen times in a run. Source: thesis,
section 3.3.1; `Progress` is ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from .core.checks import Checked, Count, Finite, NonNegative, Share
from .core.evaluation import Evaluation, Target


class Context(NamedTuple):
  """Where the run stands at an evaluation."""

  share: float  # steps taken, as a share of those that are judged
  target: Target
  first: Evaluation  # of the run; its metric is NaN if it came late


class Verdict(NamedTuple):
  """What a rule says about an evaluation."""

  reason: str  # why to abandon the cycle; empty if there is no reason
  terms: Mapping[str, float]  # the numbers behind it, a column each


class SwitchingRule(Protocol):
  """Judges a cycle by its evaluations, one after the other.

  A rule inherits from this class. A rule that measures the way to the target
  says so by `needs_target`. Whatever a rule says, a cycle whose loss is not
  finite is abandoned.
  """

  needs_target: ClassVar[bool] = False
  # Whether all cycles since the last full reset are judged, or each by itself.
  judges_chain: ClassVar[bool]
  # The state before the first evaluation: a number, or a NamedTuple.
  initial: ClassVar[Any]
  columns: ClassVar[tuple[str, ...]]  # of cycles.csv: its verdicts' terms

  def observe(
    self, state: Any, evaluation: Evaluation, context: Context
  ) -> tuple[Any, Verdict]:
    """The state after an evaluation, and whether to abandon the cycle."""


class SmoothedLoss(NamedTuple):
  """The smoothed validation loss of the current cycle."""

  t: int = 0  # evaluations in this cycle
  value: float = 0.0  # l(t)
  derivative: float = 0.0  # l'(t), 0 at t = 1
  minimum: float = math.inf  # min of l(1..t)
  argmin: int = 0  # the first t at which it was reached

  def after(self, loss: float, lam: float) -> SmoothedLoss:
    """Takes in one validation loss, L(t).

      l(1) = L(1),  l(t) = lam * L(t) + (1 - lam) * l(t - 1)
      l'(t) = l(t) - l(t - 1)

    A loss that is not finite makes the value not finite; the minimum stays.
    """
    t, value, derivative = self.t + 1, float(loss), 0.0
    if t > 1:
      value = lam * value + (1.0 - lam) * self.value
      derivative = value - self.value
    if value < self.minimum:
      return SmoothedLoss(t, value, derivative, value, t)
    return self._replace(t=t, value=value, derivative=derivative)


@dataclasses.dataclass(frozen=True)
class SmoothedLossRule(Checked, SwitchingRule):
  """The thesis' rule: S(t) = 1 abandons the cycle.

    S(t) = 1  if l'(t) >= eps1                                      (case 1)
              or t - argmin l >= k and
                 m * l'(t) + l(t) >= min l + eps2                   (case 2)
    S(t) = 0  otherwise, and S(1) = 0.

  After a loss that is not finite S is 1, also at t = 1. In the thesis every
  comparison with such a loss is false, and a diverged cycle runs to its end.

  Source: thesis, section 3.3.1; the defaults are figure 3.7's.
  """

  lam: Share = 0.7  # weight of the newest loss: LARGER smooths LESS
  eps1: Finite = 0.01  # rise of the smoothed loss that ends a cycle
  eps2: Finite = 0.01  # how far above its minimum it may be expected to be
  k: Count = 9  # evaluations without a new minimum before eps2 counts
  m: Count = 9  # evaluations to look ahead; the thesis advises m = k > 5

  judges_chain: ClassVar[bool] = False
  initial: ClassVar[SmoothedLoss] = SmoothedLoss()
  columns: ClassVar[tuple[str, ...]] = (
    *('smoothed_loss', 'derivative', 'case1', 'case2', 'stopping'),
  )

  def observe(
    self, state: SmoothedLoss, evaluation: Evaluation, context: Context
  ) -> tuple[SmoothedLoss, Verdict]:
    state = state.after(evaluation.loss, self.lam)
    return state, self.verdict(state)

  def verdict(self, smoothed: SmoothedLoss) -> Verdict:
    """S(t), with its terms."""
    t, value, derivative, minimum, argmin = smoothed
    is_finite = math.isfinite(value)
    case1 = is_finite and t > 1 and derivative >= self.eps1
    is_above = self.m * derivative + value >= minimum + self.eps2
    case2 = is_finite and t > 1 and t - argmin >= self.k and is_above
    reason = 'minimum out of reach' if case2 else ''
    reason = 'loss rises' if case1 else reason
    is_stopping = case1 or case2 or not is_finite
    numbers = value, derivative, *map(int, (case1, case2, is_stopping))
    return Verdict(reason, dict(zip(self.columns, numbers)))


@dataclasses.dataclass(frozen=True)
class NotFinite(SwitchingRule):
  """Abandons a chain only where its loss is not finite, as under every rule."""

  judges_chain: ClassVar[bool] = True
  initial: ClassVar[None] = None
  columns: ClassVar[tuple[str, ...]] = ()

  def observe(
    self, state: None, evaluation: Evaluation, context: Context
  ) -> tuple[None, Verdict]:
    return None, Verdict('', {})


class Best(NamedTuple):
  """The largest progress of a chain."""

  progress: float = -math.inf
  share: float = 0.0  # of the chain, at which it was reached


@dataclasses.dataclass(frozen=True)
class Progress(Checked, SwitchingRule):
  """Abandons a chain of cycles that is not expected to reach the target.

    abandon if f >= min_share and 1 - best > margin + gain max(1 - f, 0)
               and max(f - f(best), 0) >= window

  f is the share of the chain, from the last full reset to the planned end. best
  is the largest progress so far, 1 - `Target.remaining` (linear), first reached
  at f(best); f(best) is 0 before the first evaluation. With a window, a chain
  that begins slowly and still improves, which means a new best within the
  window, goes on. A rise below the best is none. The window bridges what a soft
  reset takes back. Metrics count as shares, so that their units do not matter.
  Without an evaluation of the untrained model the way of a metric that falls,
  or to a target of 0 or less, is not known, and no chain is abandoned.

  Source: ours, developed on the recorded runs in research/replay, whose
  FINDINGS.md has the figures. The window is from small stand-ins:
  research/muon/MUON.md.
  """

  min_share: Share = 0.3  # of the chain, before which it is not judged
  margin: NonNegative = 0.08  # share of the way that may always be missing
  gain: NonNegative = 0.3  # share of the way that a whole chain gains at least
  window: NonNegative = 0.0  # of the chain, that must pass without a new best

  needs_target: ClassVar[bool] = True
  judges_chain: ClassVar[bool] = True
  initial: ClassVar[Best] = Best()
  columns: ClassVar[tuple[str, ...]] = (
    *('progress', 'best_progress', 'missing', 'to_come'),
  )

  def observe(
    self, state: Best, evaluation: Evaluation, context: Context
  ) -> tuple[Best, Verdict]:
    f = context.share
    where = evaluation.metric, context.first.metric
    p = 1.0 - context.target.remaining(*where, scale='linear')
    best = Best(p, f) if p > state.progress else state  # also where p is NaN
    missing = 1.0 - best.progress
    to_come = self.margin + self.gain * max(1.0 - f, 0.0)
    is_known = not context.target.needs_first or math.isfinite(
      context.first.metric
    )
    # A plan that was made anew may have moved f back.
    has_stood = max(f - best.share, 0.0) >= self.window
    is_lost = (
      is_known and f >= self.min_share and missing > to_come and has_stood
    )
    reason = 'target out of reach' if is_lost else ''
    terms = dict(zip(self.columns, (p, best.progress, missing, to_come)))
    return best, Verdict(reason, terms)
