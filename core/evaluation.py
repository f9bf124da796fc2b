"""Evaluations of a run, and the target that they are held against."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .checks import as_float, check

# The share of a run up to which an evaluation shows an untrained model.
_UNTRAINED = 0.01
_LOSS_KEYS = ('validation/loss', 'validation/ctc_loss')

# (step, results); see `decode` for what a restore turns it into.
EvalResults = Sequence[tuple[Any, Any]]


class Target(NamedTuple):
  """A workload's validation target."""

  key: str  # of the metric among the evaluation results
  value: float
  rises: bool  # whether a larger metric is better

  @property
  def needs_first(self) -> bool:
    """Whether the way is measured from the run's first evaluation."""
    return not (self.rises and self.value > 0)

  def is_reached(self, metric: float) -> bool:
    """Whether a metric is at the target or beyond it; a NaN never is."""
    return metric >= self.value if self.rises else metric <= self.value

  def remaining(self, metric: float, first: float, scale: str = 'log') -> float:
    """The remaining share of the way from an untrained model to the target.

      rising:           1 - y / y*, the thesis
      falling, log:     log(y / y*) / log(y0 / y*)
      falling, linear:  (y - y*) / (y0 - y*)
      y* <= 0:          (y - y*) / (y0 - y*), rising or falling

    On a log scale perplexity, word error rate and error rate behave alike; on
    the linear one a classifier is treated alike whether its accuracy or its
    error rate is given. Where the first evaluation does not serve (not finite,
    late, or no worse than the target) a falling metric uses 1 - y* / y.

    Args:
      metric: y, of an evaluation.
      first: y0, of the run's first evaluation; NaN if that came late.
      scale: 'log' or 'linear', of a metric that falls.

    Returns:
      0 at the target, below 0 beyond it; NaN if the metric is not finite, and 0
      where no formula makes sense: at a target y* of 0 or less, if the first
      evaluation does not serve.

    Source: thesis, section 3.3.2; the falling forms are ours.
    """
    goal = self.value
    if not math.isfinite(metric):
      return math.nan
    if not goal > 0:
      is_way = first < goal if self.rises else first > goal
      is_way &= math.isfinite(first)
      return (metric - goal) / (first - goal) if is_way else 0.0
    if self.rises:
      return 1.0 - metric / goal
    if not goal < first < math.inf:
      return 1.0 - goal / metric if metric > 0 else -math.inf
    if scale == 'linear':
      return (metric - goal) / (first - goal)
    if metric <= 0:
      return -math.inf
    return math.log(metric / goal) / math.log(first / goal)


class Evaluation(NamedTuple):
  """What decisions need from one evaluation."""

  step: int = -1  # steps taken when the model was evaluated; -1: there is none
  loss: float = math.nan  # validation loss
  metric: float = math.nan  # validation target metric
  seconds: float = math.nan  # accumulated submission time, if known

  def is_untrained(self, steps: int) -> bool:
    """Whether it shows an untrained model of a run of so many steps.

    After more than one step and more than 1 % of the steps it does not: most of
    the way to the target may be behind by then.
    """
    return self.step <= max(1.0, _UNTRAINED * steps)

  def untrained_metric(self, steps: int) -> float:
    """The metric at which the way to the target begins; NaN if it came late.

    Args:
      steps: of the run; see `is_untrained`.
    """
    return self.metric if self.is_untrained(steps) else math.nan


class Way(NamedTuple):
  """How far a run has come, in its metric and in its steps."""

  last: Evaluation  # of the cycle that has ended
  first: Evaluation  # of the run
  target: Target
  step: int  # about to be taken, counted from where the run begins
  planned_end: int  # first step after the run, as now planned; counted alike

  @property
  def share_passed(self) -> float:
    """The share of the run's steps that is over, at most 1."""
    return min(self.step / self.planned_end, 1.0)

  def remaining(self, scale: str) -> float:
    """The remaining share of the way in the metric; see `Target.remaining`."""
    untrained = self.first.untrained_metric(self.planned_end)
    return self.target.remaining(self.last.metric, untrained, scale)


def decode(entry: tuple[Any, Any]) -> tuple[int, Mapping[str, Any]]:
  """(step, results) of an entry of eval_results, even of a mangled one.

  The benchmark's own restore turns (step, results) into
  ({'0': step, '1': results}, '3'), and does so again at every preemption.
  """
  step, results = entry
  while isinstance(step, Mapping):
    step, results = step['0'], step['1']
  return int(step), results


def read_evaluation(
  step: int, results: Mapping[str, Any], target: Target
) -> Evaluation:
  """The evaluation's loss, target metric and time.

  Where results have no loss (early versions of criteo1tb), the metric is it.

  Raises:
    ValueError: if the target metric is not among the results, or a result that
      is used is no number.
  """
  must_be = f'among the evaluation results, {", ".join(sorted(results))}'
  check(target.key in results, 'target metric', target.key, must_be)
  loss_key = next((k for k in _LOSS_KEYS if k in results), target.key)
  time = 'accumulated_submission_time'
  seconds = as_float(time, results.get(time, math.nan))
  loss, metric = (as_float(k, results[k]) for k in (loss_key, target.key))
  return Evaluation(step, loss, metric, seconds)


def new_evaluations(
  eval_results: EvalResults | None, last_step: int, target: Target
) -> list[Evaluation]:
  """The evaluations after last_step, -1 for all, in order."""
  evaluations = dict(decode(entry) for entry in eval_results or ())
  steps = sorted(step for step in evaluations if step > last_step)
  return [read_evaluation(step, evaluations[step], target) for step in steps]
