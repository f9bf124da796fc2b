"""AlgoPerf self-tuning submission: learning-rate cycles with soft resets.

The functions that the benchmark calls, in both of its generations. They only
translate: unpack, call `run`, repack. An experiment is such a module, too:

  (init_optimizer_state, update_params, prepare_for_eval, data_selection,
   get_batch_size) = make_submission(THESIS)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from .core.checks import check
from .core.evaluation import EvalResults
from .core.run import Run, SavedState, set_up
from .core.workload import WorkloadApi
from .schedule_params import SCHEDULE_PARAMS, ScheduleParams

# Global batch sizes, those of the benchmark's baselines: the one setting that
# its rules allow to depend on the workload. A variant has its base's.
_BATCH_SIZES = {
  'cifar': 128,
  'criteo1tb': 262_144,
  'fastmri': 32,
  'finewebedu_lm': 64,
  'imagenet_resnet': 1024,
  'imagenet_resnet_gelu': 512,
  'imagenet_resnet_silu': 512,
  'imagenet_vit': 1024,
  'librispeech_conformer': 256,
  'librispeech_deepspeech': 256,
  'mnist': 16,
  'ogbg': 512,
  'wmt': 128,
}


class Submission(NamedTuple):
  """The functions that the benchmark takes from a submission module."""

  init_optimizer_state: Callable[..., Any]
  update_params: Callable[..., Any]
  prepare_for_eval: Callable[..., Any]
  data_selection: Callable[..., Any]
  get_batch_size: Callable[[str], int]


def update_params(
  workload: WorkloadApi,
  current_param_container: Any,
  current_params_types: Any,
  model_state: Any,
  hyperparameters: Any,
  batch: dict[str, Any],
  loss_type: Any,
  optimizer_state: tuple[SavedState, Run],
  eval_results: EvalResults,
  global_step: int,
  rng: jax.Array,
  train_state: Any = None,
) -> tuple[tuple[SavedState, Run], Any, Any]:
  """Ends the cycle if it is time, then takes one train step.

  Decisions come first, so that the evaluation after a cycle's last step has
  seen the annealed model before it is reset. The arguments are the benchmark's;
  train_state is passed by the current generation only.

  Returns:
    (optimizer_state, params, model_state); the arguments' buffers are donated.

  Raises:
    TrainingCompleteError, ValueError: see `Run.act`.
  """
  (saved, run), params = optimizer_state, current_param_container
  # On an ordinary step, control costs two integer comparisons.
  is_due = global_step >= run.due
  if is_due or len(eval_results or ()) != run.evaluations_seen:
    saved, params, model_state = run.act(
      saved, params, model_state, workload, eval_results, global_step
    )
  inner, control, _ = saved
  params, model_state, inner, metrics = run.train_step(
    params, model_state, inner, batch, rng
  )
  saved = SavedState(inner, control, metrics)
  return (saved, run), params, model_state


def prepare_for_eval(
  workload: WorkloadApi,
  current_param_container: Any,
  current_params_types: Any,
  model_state: Any,
  hyperparameters: Any,
  loss_type: Any,
  optimizer_state: tuple[SavedState, Run],
  eval_results: EvalResults,
  global_step: int,
  rng: jax.Array,
) -> tuple[tuple[SavedState, Run], Any, Any]:
  """Nothing remains to do: update_params returns what is to be evaluated."""
  return optimizer_state, current_param_container, model_state


def data_selection(
  workload: WorkloadApi,
  input_queue: Iterator[dict[str, Any]],
  optimizer_state: tuple[SavedState, Run],
  current_param_container: Any,
  model_state: Any,
  hyperparameters: Any,
  global_step: int,
  rng: jax.Array,
) -> Any:
  """The next batch of the benchmark's queue."""
  return next(input_queue)


def get_batch_size(workload_name: str) -> int:
  """The global batch size of a workload, or of a variant such as ogbg_gelu.

  Raises:
    ValueError: if the name begins with that of no workload of the benchmark.
  """
  known = [n for n in _BATCH_SIZES if f'{workload_name}_'.startswith(f'{n}_')]
  names = f'one of {", ".join(_BATCH_SIZES)}, or a variant of it'
  check(bool(known), 'workload_name', workload_name, names)
  return _BATCH_SIZES[max(known, key=len)]


def make_submission(schedule_params: ScheduleParams) -> Submission:
  """The benchmark's functions for a configuration.

  Raises:
    ValueError: if schedule_params is not a ScheduleParams.
  """
  right = 'a ScheduleParams, as in make_submission(THESIS)'
  is_right = isinstance(schedule_params, ScheduleParams)
  check(is_right, 'schedule_params', schedule_params, right)
  return Submission(
    functools.partial(set_up, schedule_params),
    update_params,
    prepare_for_eval,
    data_selection,
    get_batch_size,
  )


init_optimizer_state = make_submission(SCHEDULE_PARAMS).init_optimizer_state
