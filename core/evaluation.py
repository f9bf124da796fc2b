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
  """The evaluation's validation loss, target metric and time.

  If there is no loss among the results (as in early versions of criteo1tb), the
  metric is the loss.

  Raises:
    ValueError: if the target metric is not among the results; lists their keys.
  """
  if target.key not in results:
    raise ValueError(
      f'The target metric {target.key!r} is not among the evaluation results; '
      f'these are {", ".join(sorted(results))}.'
    )
  loss_key = next((k for k in _LOSS_KEYS if k in results), target.key)
  return Evaluation(
    step,
    float(results[loss_key]),
    float(results[target.key]),
    float(results.get('accumulated_submission_time', math.nan)),
  )


def new_evaluations(
  eval_results: EvalResults | None, last_step: int, target: Target
) -> list[Evaluation]:
  """The evaluations after last_step, -1 for all, in order; see `decode`.

  Raises:
    ValueError: if the target metric is not among the results.
  """
  found: dict[int, Mapping[str, Any]] = {}
  for entry in eval_results or ():
    step, results = decode(entry)
    if step > last_step:
      found[step] = results
  return [read_evaluation(s, found[s], target) for s in sorted(found)]
