"""Leaving cycles that fail: the smoothed loss with S(t), and progress.

All of it is plain arithmetic on host numbers in float64, a few dozen times in a
run. Source: thesis, section 3.3.1; `Progress` is ours.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from .core.checks import check_count, check_number
from .core.evaluation import Evaluation, Target
from .soft_reset import progress

_NUM_KEPT = 32  # evaluations that `Progress` remembers
_NUM_INCREMENTS = 10  # from which noise is estimated, at most
_FEWEST_INCREMENTS = 3  # and at least
_MAD_TO_SIGMA = 1.4826  # of a normal distribution
NOT_FINITE = 'loss is not finite'


class Context(NamedTuple):
  """Where the run stands at an evaluation."""

  share: float  # steps taken, as a share of those that are judged
  target: Target
  first_metric: float  # target metric of the run's first evaluation


class Verdict(NamedTuple):
  """What a rule says about an evaluation."""

  reason: str  # why the cycle should be left; empty if it should not
  terms: Mapping[str, float]  # the numbers behind it, a column each


class SwitchingRule(Protocol):
  """Judges a cycle by its evaluations, one after the other.

  Attributes:
    judges_chain: whether it judges all cycles since the last full reset, which
      is what a soft reset carries over, or each cycle by itself.
    initial: state before the first evaluation, a NamedTuple of numbers.
    columns: names of the terms of its verdicts, as columns of cycles.csv.
  """

  judges_chain: ClassVar[bool]
  initial: ClassVar[Any]
  columns: ClassVar[tuple[str, ...]]

  def observe(
    self, state: Any, evaluation: Evaluation, context: Context
  ) -> tuple[Any, Verdict]:
    """Takes in an evaluation: the new state, and whether to leave."""


class SmoothedLoss(NamedTuple):
  """The smoothed validation loss of the current cycle."""

  t: int  # evaluations in this cycle, 0 before the first
  value: float  # l(t)
  derivative: float  # l'(t), 0 at t = 1
  minimum: float  # min of l(1..t)
  argmin: int  # the first t at which it was reached


NO_LOSS_YET = SmoothedLoss(0, 0.0, 0.0, math.inf, 0)


def smooth_loss(
  previous: SmoothedLoss, loss: float, lam: float
) -> SmoothedLoss:
  """Takes in one validation loss.

    l(1) = L(1),  l(t) = lam * L(t) + (1 - lam) * l(t - 1)
    l'(t) = l(t) - l(t - 1)

  Args:
    previous: state after the cycle's evaluation t - 1; NO_LOSS_YET at first.
    loss: L(t), the validation loss of evaluation t.
    lam: lambda in (0, 1], the weight of the newest loss. A larger lambda
      smooths LESS; the thesis calls it momentum and uses 0.5 to 0.7.

  Returns:
    The state after evaluation t. A non-finite loss makes the value non-finite
    for the rest of the cycle and leaves the minimum as it was.
  """
  t, value, derivative = previous.t + 1, float(loss), 0.0
  if t > 1:
    value = lam * value + (1.0 - lam) * previous.value
    derivative = value - previous.value
  if value < previous.minimum:
    return SmoothedLoss(t, value, derivative, value, t)
  return SmoothedLoss(t, value, derivative, previous.minimum, previous.argmin)


class Stopping(NamedTuple):
  """S(t) and its terms."""

  stopping: bool  # S(t) = 1
  case1: bool  # l'(t) >= eps1
  case2: bool  # no new minimum for k, and none in sight
  non_finite: bool  # the loss is NaN or infinite

  @property
  def reason(self) -> str:
    """Why the cycle should be left; empty if it should not."""
    if self.non_finite:
      return NOT_FINITE
    if self.case1:
      return 'loss rises'
    return 'minimum out of reach' if self.case2 else ''


def is_stopping_early(
  smoothed: SmoothedLoss, eps1: float, eps2: float, k: int, m: int
) -> Stopping:
  """The thesis' rule for leaving a cycle.

    S(t) = 1  if l'(t) >= eps1                                      (case 1)
              or t - argmin l >= k and
                 m * l'(t) + l(t) >= min l + eps2                   (case 2)
    S(t) = 0  otherwise, and S(1) = 0.

  A loss that is not finite stops at once, also at t = 1; in the thesis every
  comparison with it is false and a diverged cycle runs to its end.

  Args:
    smoothed: state after evaluation t.
    eps1: rise of the smoothed loss from one evaluation to the next.
    eps2: how far above its minimum the smoothed loss may be expected to be.
    k: evaluations without a new minimum before eps2 counts.
    m: evaluations to look ahead.

  Returns:
    S(t) with its terms.

  Source: thesis, section 3.3.1.
  """
  t, value, derivative, minimum, argmin = smoothed
  if not math.isfinite(value):
    return Stopping(True, False, False, True)
  if t < 2:
    return Stopping(False, False, False, False)
  case1 = derivative >= eps1
  case2 = t - argmin >= k and m * derivative + value >= minimum + eps2
  return Stopping(case1 or case2, case1, case2, False)


@dataclasses.dataclass(frozen=True)
class SmoothedLossRule:
  """The thesis' rule: S(t) = 1 leaves the cycle; see `is_stopping_early`.

  Attributes:
    lam: lambda, weight of the newest loss in the smoothed loss, in (0, 1].
      LARGER smooths LESS (the thesis calls it momentum).
    eps1: epsilon_1, the rise of the smoothed loss that ends a cycle.
    eps2: epsilon_2, how far above its minimum the smoothed loss, extrapolated m
      evaluations ahead, may be.
    k: evaluations without a new minimum before epsilon_2 counts.
    m: evaluations to look ahead. The thesis advises m = k > 5.

  Source: thesis, section 3.3.1; the defaults are figure 3.7's.
  """

  lam: float = 0.7
  eps1: float = 0.01
  eps2: float = 0.01
  k: int = 9
  m: int = 9

  judges_chain: ClassVar[bool] = False
  initial: ClassVar[SmoothedLoss] = NO_LOSS_YET
  columns: ClassVar[tuple[str, ...]] = (
    'smoothed_loss',
    'derivative',
    'case1',
    'case2',
    'stopping',
  )

  def __post_init__(self) -> None:
    check_number('lam', self.lam, '(0, 1]')
    check_number('eps1', self.eps1, '(-inf, inf)')
    check_number('eps2', self.eps2, '(-inf, inf)')
    check_count('k', self.k)
    check_count('m', self.m)

  def observe(
    self, state: SmoothedLoss, evaluation: Evaluation, context: Context
  ) -> tuple[SmoothedLoss, Verdict]:
    """See `SwitchingRule`."""
    del context
    state = smooth_loss(state, evaluation.loss, self.lam)
    stopping = is_stopping_early(state, self.eps1, self.eps2, self.k, self.m)
    terms = {
      'smoothed_loss': state.value,
      'derivative': state.derivative,
      'case1': int(stopping.case1),
      'case2': int(stopping.case2),
      'stopping': int(stopping.stopping),
    }
    return state, Verdict(stopping.reason, terms)


class Past(NamedTuple):
  """The chain's last 32 evaluations, the newest last; NaN before the first."""

  f: tuple[float, ...]  # share of the chain
  p: tuple[float, ...]  # progress
  best: tuple[float, ...]  # max p up to there; -inf while none is finite
  lowest: tuple[float, ...]  # the smallest loss above 0 up to there, or inf


@dataclasses.dataclass(frozen=True)
class Progress:
  """Leaves a chain of cycles that is not expected to gain what it still lacks.

    leave if the loss is not finite, or all of
      f >= min_share
      log(lowest(f / 2) / lowest(f)) <= max_loss_drop
      1 - best(f) > margin + noise * sigma
                    + max(0, 1 - f) (decay + trend (best(f) - best(f / 2)))

  f is the share of the chain, from the last full reset to the horizon, best the
  largest progress p so far (`soft_reset.progress`, linear), lowest the smallest
  loss so far, sigma 1.4826 times the median absolute deviation of the last 10
  increments of p, and 0 if fewer than three are finite. best(f / 2) is 0 while
  no metric is finite. The rule uses metrics as shares and losses as ratios:
  their units do not matter.

  The values at f / 2 are those of the last evaluation up to there, or else of
  the first. An evaluation more than 31 back is forgotten, and the oldest
  remembered one takes its place: with more than 62 evaluations f / 2 is later.

  Source: ours, developed on the recorded runs in studies/real_runs, whose
  FINDINGS.md has the figures.

  Attributes:
    min_share: share of the chain before which it is not judged.
    margin: share of the way to the target that may always be missing.
    noise: how many standard deviations of an increment may be missing as well.
    decay: share of the way that a whole chain is still expected to gain.
    trend: share of the gain since f / 2 that a whole chain is expected to
      repeat.
    max_loss_drop: fall of the loss since f / 2, as a log ratio, above which the
      model is still learning and is not judged.
  """

  min_share: float = 0.15
  margin: float = 0.04
  noise: float = 2.0
  decay: float = 0.3
  trend: float = 0.1
  max_loss_drop: float = 0.5

  judges_chain: ClassVar[bool] = True
  initial: ClassVar[Past] = Past(*4 * ((math.nan,) * _NUM_KEPT,))
  columns: ClassVar[tuple[str, ...]] = (
    'progress',
    'best_progress',
    'missing',
    'to_come',
    'loss_drop',
  )

  def __post_init__(self) -> None:
    check_number('min_share', self.min_share, '[0, 1]')
    for name in ('margin', 'noise', 'decay', 'trend', 'max_loss_drop'):
      check_number(name, getattr(self, name), '[0, inf)')

  def observe(
    self, state: Past, evaluation: Evaluation, context: Context
  ) -> tuple[Past, Verdict]:
    """See `SwitchingRule`."""
    p = progress(evaluation.metric, context.target, context.first_metric)
    f = context.share
    past = _append(state, p, evaluation.loss, f)
    half = _half_way(past)
    best, before = past.best[-1], past.best[half]
    gain = best - before if math.isfinite(before) else max(best, 0.0)
    rest = max(0.0, 1.0 - f) * (self.decay + self.trend * gain)
    to_come = self.margin + self.noise * _sigma(past.p) + rest
    missing = 1.0 - best
    lowest = past.lowest[half]
    drop = math.log(lowest / past.lowest[-1]) if lowest < math.inf else 0.0
    terms = {
      'progress': p,
      'best_progress': best,
      'missing': missing,
      'to_come': to_come,
      'loss_drop': drop,
    }
    is_lost = (
      f >= self.min_share and drop <= self.max_loss_drop and missing > to_come
    )
    reason = 'target out of reach' if is_lost else ''
    if not math.isfinite(evaluation.loss):
      reason = NOT_FINITE
    return past, Verdict(reason, terms)


def _append(past: Past, p: float, loss: float, f: float) -> Past:
  """The state after an evaluation."""
  # Python's max and min keep their first argument where the other is NaN.
  best = max(-math.inf, past.best[-1], p)
  is_loss = math.isfinite(loss) and loss > 0.0
  lowest = min(math.inf, past.lowest[-1], loss if is_loss else math.inf)
  new = (f, p, best, lowest)
  return Past(*((*kept[1:], value) for kept, value in zip(past, new)))


def _half_way(past: Past) -> int:
  """Index of the last evaluation up to f / 2, or else of the oldest one."""
  half = past.f[-1] / 2
  before = [i for i in range(_NUM_KEPT) if past.f[i] <= half]
  known = [i for i in range(_NUM_KEPT) if not math.isnan(past.f[i])]
  return before[-1] if before else known[0]


def _sigma(shares: Sequence[float]) -> float:
  """Robust standard deviation of the finite increments; 0 if too few."""
  recent = shares[-1 - _NUM_INCREMENTS :]
  steps = [b - a for a, b in zip(recent, recent[1:])]
  steps = [step for step in steps if math.isfinite(step)]
  if len(steps) < _FEWEST_INCREMENTS:
    return 0.0
  middle = statistics.median(steps)
  return _MAD_TO_SIGMA * statistics.median([abs(s - middle) for s in steps])
