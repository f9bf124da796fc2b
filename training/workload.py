"""What the benchmark hands to a submission, read and checked.

Both generations of AlgoPerf (package algorithmic_efficiency, v0.5.0, and
package algoperf, main) and anything with their API are read from the workload
that is given: no benchmark package is imported, no workload's name looked at.
"""

from __future__ import annotations

import csv
import inspect
import math
import pathlib
import sys
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

import jax

from ..control.state import Evaluation, Target
from .devices import Devices

_LOSS_KEYS = ('validation/loss', 'validation/ctc_loss')


Workload = Any


def read_target(workload: Any) -> Target:
  """Asks a workload for its target metric and the metric's direction.

  The direction is no property of a workload; it shows in whether an infinitely
  large or an infinitely small metric would have reached the target.

  Raises:
    ValueError: if neither or both would.
  """
  key = f'validation/{workload.target_metric_name}'
  reached = workload.has_reached_validation_target
  rising = bool(reached({key: math.inf}))
  if rising == bool(reached({key: -math.inf})):
    raise ValueError(
      f'target_metric_name={workload.target_metric_name!r}: neither the '
      'largest nor the smallest value alone reaches the validation target, so '
      'the metric has no direction.'
    )
  value = float(workload.validation_target_value)
  return Target(key, value, rising)


def spec_of(workload: Any) -> Any:
  """The benchmark's spec module, that of the workload's base class.

  Raises:
    ValueError: if no base class looks like the benchmark's Workload.
  """
  for cls in type(workload).__mro__:
    module = sys.modules[cls.__module__]
    if cls.__name__ == 'Workload' and hasattr(module, 'TrainingCompleteError'):
      return module
  raise ValueError(
    f'workload={type(workload).__name__}: no base class is the Workload of a '
    'benchmark spec module.'
  )


def has_device_axis(workload: Any, params: Any) -> bool:
  """Whether the parameters have a leading device axis (jax.pmap).

  Raises:
    ValueError: if they have neither the shapes of workload.param_shapes nor
      those with one axis more.
  """
  shapes = jax.tree_util.tree_leaves(workload.param_shapes)
  ranks = [len(getattr(shape, 'shape_tuple', shape)) for shape in shapes]
  extra = [
    leaf.ndim - rank
    for leaf, rank in zip(jax.tree_util.tree_leaves(params), ranks)
  ]
  if len(set(extra)) != 1 or extra[0] not in (0, 1):
    raise ValueError(
      'The parameters have neither the shapes of workload.param_shapes nor '
      'those with a leading device axis.'
    )
  return extra[0] == 1


def takes_dropout_rate(workload: Any) -> bool:
  """Whether the dropout rate is ours to give, as an argument of model_fn.

  It is in main. In v0.5.0 the runner has built the model with a rate: that of
  the hyperparameters under the external ruleset, the model's own default under
  self-tuning.
  """
  return 'dropout_rate' in inspect.signature(workload.model_fn).parameters


def model_fn_in_training(workload: Any, dropout_rate: float) -> Callable:
  """workload.model_fn in training mode: (params, batch, model_state, rng).

  Args:
    workload: the workload.
    dropout_rate: probability; in force if `takes_dropout_rate`.
  """
  mode = spec_of(workload).ForwardPassMode.TRAIN
  extra = {'dropout_rate': dropout_rate} if takes_dropout_rate(workload) else {}

  def model_fn(params, batch, model_state, rng):
    return workload.model_fn(
      params, batch, model_state, mode, rng, update_batch_norm=True, **extra
    )

  return model_fn


def loss_fn_of_batch(workload: Any, label_smoothing: float) -> Callable:
  """workload.loss_fn: (logits, batch) -> (summed loss, valid examples)."""

  def loss_fn(logits, batch):
    loss = workload.loss_fn(
      label_batch=batch['targets'],
      logits_batch=logits,
      mask_batch=batch.get('weights'),
      label_smoothing=label_smoothing,
    )
    return loss['summed'], loss['n_valid_examples']

  return loss_fn


def fresh_models(
  workload: Any, rng: Any, count: int, devices: Devices
) -> list[tuple[Any, Any]]:
  """New initialisations of the workload's model, on the host.

  `init_model_fn` compiles anew at every call and replaces attributes of the
  workload, among them the model with the runner's dropout. Both are dealt with
  here: it is called before training, where the cost is not felt, and the
  attributes are put back.

  Args:
    workload: the workload.
    rng: a key; every model gets one of its own from it.
    count: number of models.
    devices: how the arrays lie that init_model_fn returns.

  Returns:
    A list of (params, model_state), host arrays without device axis.

  Source: the rules of both generations allow it, "for example, to reinitialize
  the model after a failed training effort".
  """
  attributes = dict(vars(workload))
  try:
    return [
      devices.get(workload.init_model_fn(key))
      for key in jax.random.split(rng, max(count, 1))[:count]
    ]
  finally:
    vars(workload).update(attributes)


def _decode(entry: Any) -> tuple[int, Mapping[str, Any]]:
  """(step, results) of an entry of eval_results, also of a mangled one.

  The benchmark's own restore turns (step, results) into
  ({'0': step, '1': results}, '3'), and does so anew at every preemption.
  """
  step, results = entry
  while isinstance(step, Mapping):
    step, results = step['0'], step['1']
  return int(step), results


def read_evaluation(
  step: int, results: Mapping[str, Any], target: Target
) -> Evaluation:
  """The evaluation's validation loss and target metric.

  Where there is no loss among the results (criteo1tb before it was named so),
  the metric is the loss.

  Raises:
    ValueError: if the target metric is not among the results; names the keys.
  """
  if target.key not in results:
    raise ValueError(
      f'The target metric {target.key!r} is not among the evaluation results; '
      f'they have {", ".join(sorted(results))}.'
    )
  loss_key = next((k for k in _LOSS_KEYS if k in results), target.key)
  return Evaluation(step, float(results[loss_key]), float(results[target.key]))


def new_evaluations(
  eval_results: Any, last_step: int, target: Target
) -> list[Evaluation]:
  """The evaluations after last_step, in order.

  Args:
    eval_results: the runner's list; None, and entries that a restore has
      mangled, are understood.
    last_step: step of the last evaluation that is known already, -1 if none.
    target: what to read.

  Raises:
    ValueError: if the target metric is not among the results.
  """
  found: dict[int, Mapping[str, Any]] = {}
  for entry in eval_results or ():
    step, results = _decode(entry)
    if step > last_step:
      found[step] = results
  return [read_evaluation(s, found[s], target) for s in sorted(found)]


def logged_evaluations(
  folder: pathlib.Path, last_step: int, global_step: int, target: Target
) -> list[Evaluation]:
  """The evaluations after last_step that the benchmark logged.

  For a resumed run whose eval_results were lost: the last evaluation before a
  checkpoint is in no state that a submission has saved, but the runner writes
  eval_measurements.csv first.

  Args:
    folder: the run's folder.
    last_step: step of the last evaluation that is known already.
    global_step: the step about to be taken; later evaluations belong to what
      was lost with the preemption.
    target: what to read.
  """
  path = folder / 'eval_measurements.csv'
  if not path.exists():
    return []
  with path.open(newline='') as lines:
    rows = {int(float(r['global_step'])): r for r in csv.DictReader(lines)}
  return [
    read_evaluation(step, _given(rows[step]), target)
    for step in sorted(rows)
    if last_step < step <= global_step
  ]


def _given(row: Mapping[str, str]) -> dict[str, str]:
  return {key: value for key, value in row.items() if value != ''}
