"""AlgoPerf self-tuning submission: learning-rate cycles with soft resets.

The functions that the benchmark calls, in both of its generations. They only
translate: unpack, call `engine.run`, repack. A submission with other settings
makes the same functions from them:

  (init_optimizer_state, update_params, prepare_for_eval, data_selection,
   get_batch_size) = make_submission(OTHER_SETTINGS)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from .core.chain import jax_lr_schedule
from .core.checks import check
from .core.evaluation import EvalResults
from .core.workload import WorkloadApi
from .engine.run import Run, SavedState, model_reinit_schedule, set_up
from .engine.tuned import tuned
from .schedule_params import SCHEDULE_PARAMS, ScheduleParams

# Global batch sizes, those of the benchmark's baselines: the one setting that
# its rules allow to depend on the workload. A variant that is not named here
# has the batch size of its base workload.
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


@dataclasses.dataclass(frozen=True)
class InitOptimizerState:
  """The benchmark's init_optimizer_state for a configuration.

  Attributes:
    settings: the configuration.
  """

  settings: ScheduleParams

  def __call__(
    self,
    workload: WorkloadApi,
    model_params: Any,
    model_state: Any,
    hyperparameters: Any,
    rng: jax.Array,
  ) -> tuple[SavedState, Run]:
    """Lays the cycles over the run's steps, and sets the run up.

    Under the external ruleset, hyperparameters replace settings; see `tuned`.

    Raises:
      ValueError: if a hyperparameter is wrong, the cycles do not fit into the
        run, or the workload is not the benchmark's or has no usable target.
    """
    settings = tuned(self.settings, hyperparameters)
    model, is_tuned = (model_params, model_state), bool(hyperparameters)
    chain = jax_lr_schedule(
      workload.step_hint,
      settings.cycles,
      settings.budget_factor,
      peak_factor=settings.peak_factor,
    )
    return set_up(settings, chain, workload, *model, rng, is_tuned)


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
    TrainingCompleteError, ValueError: see `model_reinit_schedule`.
  """
  (saved, run), params = optimizer_state, current_param_container
  # On an ordinary step, control costs two integer comparisons.
  if run.is_due(global_step, eval_results):
    saved, params, model_state = model_reinit_schedule(
      run,
      saved,
      params,
      model_state,
      workload,
      eval_results,
      global_step,
      batch,
    )
  params, model_state, opt_state, metrics = run.train_step(
    params, model_state, saved.opt_state, batch, rng
  )
  return (SavedState(opt_state, metrics), run), params, model_state


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
    ValueError: if the name does not begin with the name of a workload of the
      benchmark.
  """
  known = [n for n in _BATCH_SIZES if f'{workload_name}_'.startswith(f'{n}_')]
  names = f'one of {", ".join(_BATCH_SIZES)}, or a variant of it'
  check(bool(known), 'workload_name', workload_name, names)
  return _BATCH_SIZES[max(known, key=len)]


def make_submission(settings: ScheduleParams) -> Submission:
  """The benchmark's functions for a configuration.

  Raises:
    ValueError: if settings is not a ScheduleParams.
  """
  must_be = 'a ScheduleParams, as in make_submission(SCHEDULE_PARAMS)'
  check(isinstance(settings, ScheduleParams), 'settings', settings, must_be)
  return Submission(
    InitOptimizerState(settings),
    update_params,
    prepare_for_eval,
    data_selection,
    get_batch_size,
  )


init_optimizer_state = make_submission(SCHEDULE_PARAMS).init_optimizer_state
