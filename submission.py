"""AlgoPerf self-tuning submission: learning-rate cycles with soft resets.

The functions that the benchmark calls, in both of its generations (v0.5.0 and
main). They only translate: unpack, call `run`, repack. An experiment is a
module like this one with other settings; it takes two lines:

  (init_optimizer_state, update_params, prepare_for_eval, data_selection,
   get_batch_size) = make_submission(ScheduleParams(reset_mode='full'))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
from absl import logging

from .schedule_params import SCHEDULE_PARAMS, ScheduleParams
from .settings.checks import check
from .training import evaluated
from .training import run as run_lib
from .training import workload as workload_facts
from .training.configuration import differences
from .training.records import Records
from .training.resetting import Model
from .training.run_state import Run
from .training.set_up import SavedState, set_up
from .training.workload import EvalResults, WorkloadApi

# Global batch sizes, those of the benchmark's baselines: the one setting that
# its rules allow to depend on the workload.
_WORKLOADS_OF_BATCH_SIZE = {
  16: 'mnist',
  32: 'fastmri fastmri_layernorm fastmri_model_size fastmri_tanh',
  64: 'finewebedu_lm',
  128: 'cifar wmt wmt_attention_temp wmt_glu_tanh wmt_post_ln',
  256: (
    'librispeech_conformer librispeech_conformer_attention_temperature '
    'librispeech_conformer_gelu librispeech_conformer_layernorm '
    'librispeech_deepspeech librispeech_deepspeech_no_resnet '
    'librispeech_deepspeech_norm_and_spec_aug librispeech_deepspeech_tanh'
  ),
  512: (
    'imagenet_resnet_gelu imagenet_resnet_silu '
    'ogbg ogbg_gelu ogbg_model_size ogbg_silu'
  ),
  1024: (
    'imagenet_resnet imagenet_resnet_large_bn_init '
    'imagenet_vit imagenet_vit_glu imagenet_vit_map imagenet_vit_post_ln'
  ),
  262_144: (
    'criteo1tb criteo1tb_embed_init criteo1tb_layernorm criteo1tb_resnet '
    'criteo1tb_test'
  ),
}
_BATCH_SIZES = {
  name: size
  for size, names in _WORKLOADS_OF_BATCH_SIZE.items()
  for name in names.split()
}


class Submission(NamedTuple):
  """The functions that the benchmark takes from a submission module."""

  init_optimizer_state: Callable
  update_params: Callable
  prepare_for_eval: Callable
  data_selection: Callable
  get_batch_size: Callable


def _init_optimizer_state(
  schedule_params: ScheduleParams,
  workload: WorkloadApi,
  model_params: Any,
  model_state: Any,
  hyperparameters: Any,
  rng: jax.Array,
) -> tuple[SavedState, Run]:
  """Builds the chain, initialises the optimizer and records the settings.

  Args:
    schedule_params: the configuration; the benchmark passes the rest.
    workload: the workload.
    model_params, model_state: its parameters and batch statistics.
    hyperparameters: None under self-tuning; under the external ruleset its
      values replace those of schedule_params.
    rng: key for the fresh models of resets.

  Returns:
    The 2-tuple that the benchmark's checkpoints demand.

  Raises:
    ValueError: for an unknown or unusable setting, or a workload whose target
      cannot be used.
  """
  params = schedule_params.override(hyperparameters)
  records = Records.of_trial(hyperparameters)
  params = _settings_of_run(records, workload.step_hint, params)
  budget = workload_facts.budget_seconds(workload, hyperparameters is None)
  saved, setup = set_up(
    workload, model_params, model_state, params, records, rng, budget
  )
  not_in_force = _not_in_force(workload, hyperparameters)
  if not_in_force:
    logging.warning('The runner, not the submission, sets %s.', not_in_force)
  records.write_settings(workload.step_hint, params, not_in_force)
  return saved, Run(setup)


def _settings_of_run(
  records: Records, step_hint: int, params: ScheduleParams
) -> ScheduleParams:
  """The settings that a resumed run was started with, else `params`.

  Raises:
    ValueError: if the run was started with another step_hint.
  """
  begun = records.begun_with()
  if begun is None:
    return params
  step_hint_then, own = begun
  check(
    step_hint == step_hint_then,
    'step_hint',
    step_hint,
    f'{step_hint_then}, that of the run in {records.folder}',
  )
  differing = differences(own, params)
  if differing:
    logging.warning(
      'The run goes on with the settings that it was started with: %s.',
      '; '.join(differing),
    )
  return own


def _not_in_force(workload: WorkloadApi, hyperparameters: Any) -> list[str]:
  """Names of settings that the benchmark, not the submission, decides."""
  given = getattr(hyperparameters, '_asdict', lambda: hyperparameters or {})()
  by_us = workload_facts.takes_dropout_rate(workload) or 'dropout_rate' in given
  return [] if by_us else ['dropout_rate']


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
    TrainingCompleteError: (the benchmark's) when the cycles have run out and
      the policy is to finish; raised before any buffer is donated.
    ValueError: if an evaluation lacks the workload's target metric, or, at the
      first step, if init_model_fn's parameters do not fit the trained ones.
  """
  del current_params_types, hyperparameters, loss_type, train_state
  saved, run = optimizer_state
  params = current_param_container
  if run.averaged is not None:
    saved, run, params = evaluated.take_back(saved, run, params, global_step)
  model = Model(params, model_state, saved.inner)
  if run_lib.is_due(run, eval_results, global_step):
    saved, run, model = run_lib.act(
      saved, run, model, workload, eval_results, global_step
    )
  step = run.setup.train_steps[run.control.cycle]
  params, model_state, inner, metrics = step(*model, batch, rng)
  if run.step_metrics is None:
    run_lib.after_first_step(run, params, model_state)
  saved, run = saved._replace(inner=inner), run._replace(step_metrics=metrics)
  if run.forecast is not None:
    saved, run, params = evaluated.hand_out_if_foreseen(
      saved, run, params, workload.eval_period_time_sec, global_step + 1
    )
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
  """Hands over the parameters to be evaluated; see `training.evaluated`.

  Called by the current generation only, before every evaluation.

  Returns:
    (optimizer_state, params, model_state). If params are not the trained ones,
    the state holds these, and update_params takes them back.
  """
  del workload, current_params_types, hyperparameters, loss_type
  del eval_results, global_step, rng
  saved, run = optimizer_state
  if run.averaged is None:
    return optimizer_state, current_param_container, model_state
  saved, run, params = evaluated.hand_out(saved, run, current_param_container)
  return (saved, run), params, model_state


def data_selection(
  workload: WorkloadApi,
  input_queue: Iterator[dict[str, Any]],
  optimizer_state: Any,
  current_param_container: Any,
  model_state: Any,
  hyperparameters: Any,
  global_step: int,
  rng: jax.Array,
) -> dict[str, Any]:
  """The next batch of the benchmark's shuffled, endless queue."""
  del workload, optimizer_state, current_param_container, model_state
  del hyperparameters, global_step, rng
  return next(input_queue)


def get_batch_size(workload_name: str) -> int:
  """The global batch size of a workload.

  Raises:
    ValueError: if the benchmark has no workload of this name.
  """
  if workload_name not in _BATCH_SIZES:
    raise ValueError(
      f'workload_name={workload_name!r}: workload_name must be one of '
      f'{", ".join(sorted(_BATCH_SIZES))}.'
    )
  return _BATCH_SIZES[workload_name]


def make_submission(schedule_params: ScheduleParams) -> Submission:
  """The benchmark's functions for a configuration.

  Raises:
    ValueError: if schedule_params is not a ScheduleParams.
  """
  check(
    isinstance(schedule_params, ScheduleParams),
    'schedule_params',
    schedule_params,
    'a ScheduleParams, as in make_submission(ScheduleParams(alpha=0.5))',
  )
  return Submission(
    init_optimizer_state=functools.partial(
      _init_optimizer_state, schedule_params
    ),
    update_params=update_params,
    prepare_for_eval=prepare_for_eval,
    data_selection=data_selection,
    get_batch_size=get_batch_size,
  )


init_optimizer_state = make_submission(SCHEDULE_PARAMS).init_optimizer_state
