"""Evaluations: what decisions need of them, read from the runner's results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_LOSS_KEYS = ('validation/loss', 'validation/ctc_loss')

# (step, results); see `decode` for what a restore turns it into.
EvalResults = Sequence[tuple[Any, Any]]


class Target(NamedTuple):
  """A workload's validation target."""

  key: str  # of the metric among the evaluation results
  value: float
  rising: bool  # whether a larger metric is better


class Evaluation(NamedTuple):
  """What decisions need from one evaluation."""

  step: int  # steps taken when the model was evaluated
  loss: float  # validation loss
  metric: float  # validation target metric
  seconds: float = math.nan  # accumulated submission time, if known


def decode(entry: tuple[Any, Any]) -> tuple[int, Mapping[str, Any]]:
  """(step, results) of an entry of eval_results, even of a mangled one.

  The benchmark's own restore turns (step, results) into
  ({'0': step, '1': results}, '3'), and does so again at every preemption.
  """
  step, results = entry
  if type(step) is int:  # as a runner writes it; a run has hundreds of them
    return step, results
  while isinstance(step, Mapping):
    step, results = step['0'], step['1']
  return int(step), results


def read_evaluation(
  step: int, results: Mapping[str, Any], target: Target
) -> Evaluation:
  """The evaluation's loss, target metric and time.

  Where results have no loss (early versions of criteo1tb), the metric is it.

  Raises:
    ValueError: if the target metric is not among the results.
  """
  if target.key not in results:
    raise ValueError(
      f'The target metric {target.key!r} is not among the evaluation results; '
      f'these are {", ".join(sorted(results))}.'
    )
  loss_key = next((k for k in _LOSS_KEYS if k in results), target.key)
  seconds = results.get('accumulated_submission_time', math.nan)
  numbers = results[loss_key], results[target.key], seconds
  return Evaluation(step, *map(float, numbers))


def new_evaluations(
  eval_results: EvalResults | None, last_step: int, target: Target
) -> list[Evaluation]:
  """The evaluations after last_step, -1 for all, in order."""
  found = dict(decode(entry) for entry in eval_results or ())
  steps = sorted(step for step in found if step > last_step)
  return [read_evaluation(step, found[step], target) for step in steps]
