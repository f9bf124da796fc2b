"""When to abandon a cycle: S(t) on the smoothed loss, progress, or either.

Plain arithmetic on host numbers, a few dozen times in a run. Source: thesis,
section 3.3.1; `Progress` is ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

from .core.checks import (
  Checked,
  Count,
  Finite,
  NonNegative,
  Share,
  check,
  check_part,
)
from .core.evaluation import Evaluation, Target

# The columns of cycles.csv in every run. The rule adds its own, or S(t) beside
# it; they must have other names.
COLUMNS = (
  *('global_step', 'event', 'cycle', 'setting', 'reason', 'cycle_end', 'pace'),
  *('anchor_nominal', 'rate_factor', 'peak_value', 'decay_factor'),
  *(
    'evaluation',
    'loss',
    'learning_rate',
    'reset',
    'tau',
    'alpha',
    'metric',
    'metric_step',
  ),
  *('param_change', 'moment_norm_before', 'moment_norm_after'),
  *('num_early_stops', 'note'),
)


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
  # Of cycles.csv: its verdicts' terms. No name is one of COLUMNS.
  columns: ClassVar[tuple[str, ...]]

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
    return _stopping(smoothed, self.eps1, self.eps2, self.k, self.m)


def _stopping(
  smoothed: SmoothedLoss, eps1: float, eps2: float, k: float, m: float
) -> Verdict:
  """S(t), with its terms; k and m in evaluations."""
  t, value, derivative, minimum, argmin = smoothed
  is_finite = math.isfinite(value)
  case1 = is_finite and t > 1 and derivative >= eps1
  is_above = m * derivative + value >= minimum + eps2
  case2 = is_finite and t > 1 and t - argmin >= k and is_above
  reason = 'minimum out of reach' if case2 else ''
  reason = 'loss rises' if case1 else reason
  is_stopping = case1 or case2 or not is_finite
  numbers = value, derivative, *map(int, (case1, case2, is_stopping))
  return Verdict(reason, dict(zip(SmoothedLossRule.columns, numbers)))


def logged_beside(rule: SwitchingRule) -> SmoothedLossRule | None:
  """The thesis' rule, logged beside a rule without S(t); else None.

  It judges each cycle by itself, and is never heard.
  """
  thesis = SmoothedLossRule()
  return None if {*thesis.columns} & {*rule.columns} else thesis


@dataclasses.dataclass(frozen=True)
class ChainLossRule(Checked, SwitchingRule):
  """The thesis' S(t) over a chain of cycles, without a scale of its own.

    S(t) = 1  if t - argmin l >= k n and k n l'(t) + l(t) >= min l,  n = t / f
    S(t) = 0  otherwise, and S(1) = 0.

  It is the thesis' case 2 with eps2 = 0 and, as the thesis advises, m = k; both
  are k n evaluations here. eps1 is infinite, so that case 1 never holds. The
  loss times a factor, or plus a constant, gives the same S(t). t counts the
  evaluations since the last full reset, and f is the share of the chain that is
  over: n is how many evaluations the whole chain will have. A soft reset
  changes nothing: the minimum is that of the chain.

  In settings without a horizon the chain goes on after a cycle that was
  abandoned, and the next cycle is judged by that minimum, too: SmoothedLossRule
  suits them better.

  Source: thesis, section 3.3.1; the chain and the shares are ours, chosen on
  the recorded runs in research/replay, whose FINDINGS.md has the figures.
  """

  lam: Share = 0.7  # weight of the newest loss: LARGER smooths LESS
  k: Share = 0.2  # of the chain, without a new minimum, and to look ahead

  judges_chain: ClassVar[bool] = True
  initial: ClassVar[SmoothedLoss] = SmoothedLoss()
  columns: ClassVar[tuple[str, ...]] = SmoothedLossRule.columns

  def observe(
    self, state: SmoothedLoss, evaluation: Evaluation, context: Context
  ) -> tuple[SmoothedLoss, Verdict]:
    state, f = state.after(evaluation.loss, self.lam), context.share
    span = self.k * state.t / f if f > 0 else math.inf
    return state, _stopping(state, math.inf, 0.0, span, span)


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


def _check_rules(name: str, value: Any) -> None:
  is_list = isinstance(value, (tuple, list)) and len(value) > 1
  must_be = 'a tuple of two or more rules: (ChainLossRule(), Progress())'
  check(is_list, name, value, must_be)
  for i, rule in enumerate(value):
    must_be = 'an object such as Progress()'
    check_part(f'{name}[{i}]', rule, SwitchingRule, must_be)
  is_alike = len({rule.judges_chain for rule in value}) == 1
  must_be = 'rules that all judge the chain, or all each cycle by itself'
  check(is_alike, name, value, must_be)
  columns = [column for rule in value for column in rule.columns]
  must_be = 'rules that share no column of cycles.csv'
  check(len({*columns}) == len(columns), name, value, must_be)


@dataclasses.dataclass(frozen=True)
class AnyOf(Checked, SwitchingRule):
  """Abandons where one of several rules does; its reason names which.

  The rules see every evaluation, each with its own state, and log their own
  columns. They judge alike: all of them the chain, or all of them the cycle.
  """

  rules: Annotated[tuple[SwitchingRule, ...], _check_rules]

  # What other rules have in their class depends on the rules here.
  judges_chain: ClassVar[bool]
  initial: ClassVar[tuple[Any, ...]]
  columns: ClassVar[tuple[str, ...]]

  def __post_init__(self) -> None:
    super().__post_init__()
    for name, value in {
      'needs_target': any(rule.needs_target for rule in self.rules),
      'judges_chain': self.rules[0].judges_chain,
      'initial': tuple(rule.initial for rule in self.rules),
      'columns': tuple(c for rule in self.rules for c in rule.columns),
    }.items():
      object.__setattr__(self, name, value)

  def observe(
    self, state: Any, evaluation: Evaluation, context: Context
  ) -> tuple[Any, Verdict]:
    states, reasons, terms = [], [], dict[str, float]()
    for rule, before in zip(self.rules, state):
      after, verdict = rule.observe(before, evaluation, context)
      states.append(after)
      terms |= verdict.terms
      if verdict.reason:
        reasons.append(f'{type(rule).__name__}: {verdict.reason}')
    return tuple(states), Verdict('; '.join(reasons), terms)
