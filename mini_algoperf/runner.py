"""One training run by the benchmark's rules: steps, evaluations, budget.

Follows `train_once` of the benchmark's submission runner, in the version of the
workload's generation:

              keys per step  budget under self  checked         prepare_for_eval
  pmap, 2024  3              3 x max runtime    every step      never called
  jit, now    4              1.5 x max runtime  at evaluations  called, timed

Beyond the benchmark's evaluations by wall clock there are evaluations by step,
which repeat exactly, and a run may go on after its targets are reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax

from . import checkpoints, spec
from .trial import DataEndedError, Trial, goes_on


class Observer:
  """Is told how a run goes; does nothing by itself."""

  def on_step(self, trial: Trial) -> None:
    """Follows every step, outside the submission's time."""

  def on_evaluation(self, trial: Trial) -> None:
    """Follows every evaluation, before its checkpoint is written.

    What an observer writes is there before a resumed run can go on from this
    evaluation; if the process is killed in between, it is written again. This
    counts as logging, not as the submission's time.
    """


def train(trial: Trial, *observers: Observer) -> None:
  """Trains until the run is complete; afterwards `trial` holds the results.

  Args:
    trial: from `set_up_trial`.
    *observers: are told of every step and evaluation.

  Raises:
    DataEndedError: if there is no batch for a step.
    files.WriteError: if a file of the run cannot be written.
  """
  state = trial.train_state
  trial.start_time = trial.clock()
  state['last_step_end_time'] = trial.start_time
  while goes_on(state, trial.global_step, trial.settings):
    keys = _step_keys(trial)
    _take_step(trial, keys)
    if _book_step(trial):
      _prepare_for_eval(trial, keys)
      if state['is_time_remaining'] or trial.workload.generation == 'pmap':
        _evaluate(trial, keys, observers)
    for observer in observers:
      observer.on_step(trial)
    state['last_step_end_time'] = trial.clock()
  _finish(trial)


def _step_keys(trial: Trial) -> dict[str, spec.RandomState]:
  """Keys of a step; as many as the generation's runner splits off."""
  names = ['data', 'update', 'eval']
  if trial.workload.generation == 'jit':
    names.insert(2, 'prepare')
  key = jax.random.fold_in(trial.rng, trial.global_step)
  return dict(zip(names, jax.random.split(key, len(names))))


def _take_step(trial: Trial, keys: dict[str, spec.RandomState]) -> None:
  batch = _select_batch(trial, keys['data'])
  try:
    _keep(
      trial,
      trial.submission.update_params(
        **trial.update_arguments(), batch=batch, rng=keys['update']
      ),
    )
  except Exception as e:
    # Of this package's spec, or of the benchmark's that a submission imports.
    if type(e).__name__ != spec.TrainingCompleteError.__name__:
      raise
    trial.train_state['training_complete'] = True
  trial.global_step += 1


def _select_batch(trial: Trial, key: spec.RandomState) -> spec.Batch:
  try:
    return trial.submission.data_selection(
      trial.workload,
      trial.input_queue,
      trial.optimizer_state,
      trial.model_params,
      trial.model_state,
      trial.hyperparameters,
      trial.global_step,
      key,
    )
  except StopIteration as e:  # of an iterator of the submission's own
    raise DataEndedError(
      f'data_selection has no batch for step {trial.global_step}: a '
      "submission's data must have no end."
    ) from e


def _book_step(trial: Trial) -> bool:
  """Adds the step to the submission's time; returns if an evaluation is due.

  The benchmark does not wait for the devices here, and so counts the steps that
  are still under way as evaluation; where all steps between two evaluations
  are under way at once, as on a CPU, little of the training would be counted.
  """
  now = trial.clock()
  due = _is_evaluation_due(trial, now)
  if due:
    jax.block_until_ready((trial.model_params, trial.optimizer_state[0]))
    now = trial.clock()
  _count_time(trial, now - trial.train_state['last_step_end_time'])
  return due


def _keep(
  trial: Trial,
  result: tuple[
    spec.OptimizerState, spec.ParameterContainer, spec.ModelAuxiliaryState
  ],
) -> None:
  trial.optimizer_state, trial.model_params, trial.model_state = result


def _count_time(trial: Trial, seconds: float) -> None:
  """Adds to the submission's time; in the 2024 generation checks the budget."""
  trial.train_state['accumulated_submission_time'] += seconds
  if trial.workload.generation == 'pmap':
    _check_budget(trial)


def _check_budget(trial: Trial) -> None:
  state = trial.train_state
  state['is_time_remaining'] = (
    state['accumulated_submission_time'] < trial.budget_sec
  )


def _is_evaluation_due(trial: Trial, now: float) -> bool:
  """After step 1, then every so many steps or seconds, and at the end."""
  settings = trial.settings
  if trial.train_state['training_complete']:
    return True
  if settings.is_limit(trial.global_step):
    return True
  every = settings.eval_every
  if every is not None:
    return trial.global_step == 1 or trial.global_step % every == 0
  since = now - trial.train_state['last_eval_time']
  return since >= trial.workload.eval_period_time_sec


def _prepare_for_eval(trial: Trial, keys: dict[str, spec.RandomState]) -> None:
  """In the current generation: the submission's turn, then the budget."""
  if trial.workload.generation == 'pmap':
    return
  if trial.submission.prepare_for_eval is not None:
    start = trial.clock()
    _keep(
      trial,
      trial.submission.prepare_for_eval(
        **trial.common_arguments(), rng=keys['prepare']
      ),
    )
    _count_time(trial, trial.clock() - start)
  _check_budget(trial)


def _evaluate(
  trial: Trial, keys: dict[str, spec.RandomState], observers: Sequence[Observer]
) -> None:
  """Evaluates, untimed, logs the result and saves a checkpoint."""
  state = trial.train_state
  start = trial.clock()
  result = trial.workload.eval_model(
    trial.settings.eval_batch_size,
    trial.model_params,
    trial.model_state,
    keys['eval'],
    trial.settings.data_dir,
    None,
    trial.global_step,
  )
  _note_targets(trial, result)
  end = trial.clock()
  state['last_eval_time'] = end
  state['accumulated_eval_time'] += end - start
  result['score'] = state['accumulated_submission_time']
  result['total_duration'] = end - trial.start_time
  for part in ('submission', 'eval', 'logging'):
    result[f'accumulated_{part}_time'] = state[f'accumulated_{part}_time']
  trial.eval_results.append((trial.global_step, result))
  _log(trial, result, is_eval=True)
  for observer in observers:
    observer.on_evaluation(trial)
  _save(trial)
  state['accumulated_logging_time'] += trial.clock() - end


def _note_targets(trial: Trial, result: spec.EvalResult) -> None:
  workload, state = trial.workload, trial.train_state
  if workload.has_reached_validation_target(result):
    state['validation_goal_reached'] = True
  has_test = 'test' in workload.eval_splits
  if has_test and workload.has_reached_test_target(result):
    state['test_goal_reached'] = True


def _log(trial: Trial, metrics: Mapping[str, float], is_eval: bool) -> None:
  if trial.metrics_logger is not None:
    trial.metrics_logger.append_scalar_metrics(
      metrics, trial.global_step, trial.preemption_count, is_eval
    )


def _save(trial: Trial) -> None:
  if trial.log_dir is not None and trial.settings.save_checkpoints:
    checkpoints.save(
      trial.log_dir,
      trial.checkpoint_state(),
      trial.workload.generation,
      trial.settings.save_intermediate_checkpoints,
    )


def _finish(trial: Trial) -> None:
  score = trial.train_state['accumulated_submission_time']
  _log(trial, {'score': score}, is_eval=False)
  _save(trial)
