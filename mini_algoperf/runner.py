"""One training run by the benchmark's rules: steps, evaluations, budget.

Follows `train_once` of the benchmark's submission runner, in the version of the
workload's generation:

              keys per step  budget             checked         prepare_for_eval
  pmap, 2024  3              3 x max runtime    every step      never called
  jit, now    4              1.5 x max runtime  at evaluations  called, timed

Beyond the benchmark's evaluations by wall clock there are evaluations by step,
which repeat exactly, and a run may go on after its targets are reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax

from . import spec
from .trial import Trial, goes_on


class Observer(Protocol):
  """Follows a run; a subclass need not have both methods."""

  def on_step(self, trial: Any) -> None:
    """Follows every step, outside the submission's time."""

  def on_evaluation(self, trial: Any) -> None:
    """Follows every evaluation, before its checkpoint is written.

    An observer's files are written before a run can resume from this
    evaluation. The time counts as logging, not as the submission's.
    """


def train(trial: Trial, *observers: Observer) -> None:
  """Trains until the run is complete; afterwards `trial` holds the results.

  DataEndedError if there is no further batch, WriteError if a file cannot be
  written.
  """
  state, is_jit = trial.train_state, trial.workload.generation == 'jit'
  names = ['data', 'update', *(['prepare'] if is_jit else []), 'eval']
  trial.start_time = state['last_step_end_time'] = trial.clock()
  while goes_on(state, trial.global_step, trial.options):
    key = jax.random.fold_in(trial.rng, trial.global_step)
    keys = dict(zip(names, jax.random.split(key, len(names))))
    _take_step(trial, keys)
    if _book_step(trial):
      if is_jit:
        _prepare_for_eval(trial, keys['prepare'])
      if state['is_time_remaining'] or not is_jit:
        _evaluate(trial, keys['eval'], observers)
    for observer in observers:
      observer.on_step(trial)
    state['last_step_end_time'] = trial.clock()
  trial.log({'score': state['accumulated_submission_time']}, is_eval=False)
  trial.save_checkpoint()


def _take_step(trial: Trial, keys: dict[str, spec.RandomState]) -> None:
  batch = trial.submission.data_selection(
    trial.workload,
    trial.input_queue,
    trial.optimizer_state,
    trial.model_params,
    trial.model_state,
    trial.hyperparameters,
    trial.global_step,
    keys['data'],
  )
  try:
    result = trial.submission.update_params(
      **trial.update_arguments(), batch=batch, rng=keys['update']
    )
    _set_state(trial, 'update_params', result)
  except Exception as e:
    # Of this package's spec, or of the benchmark's that a submission imports.
    if type(e).__name__ != spec.TrainingCompleteError.__name__:
      raise
    trial.train_state['training_complete'] = True
  trial.global_step += 1


def _set_state(trial: Trial, function: str, result: Any) -> None:
  try:
    trial.optimizer_state, trial.model_params, trial.model_state = result
  except (TypeError, ValueError) as e:
    raise TypeError(
      f'{function} must return optimizer state, parameters and model state.'
    ) from e


def _book_step(trial: Trial) -> bool:
  """Adds the step to the submission's time; returns if an evaluation is due.

  The benchmark does not wait for the devices here, and counts steps that are
  still under way as evaluation. On a CPU, where all steps between two
  evaluations may be under way at once, little of the training would be counted.
  """
  now = trial.clock()
  due = _is_evaluation_due(trial, now)
  if due:
    jax.block_until_ready((trial.model_params, trial.optimizer_state[0]))
    now = trial.clock()
  state = trial.train_state
  state['accumulated_submission_time'] += now - state['last_step_end_time']
  if trial.workload.generation == 'pmap':
    _check_budget(trial)
  return due


def _check_budget(trial: Trial) -> None:
  used = trial.train_state['accumulated_submission_time']
  trial.train_state['is_time_remaining'] = used < trial.budget_sec


def _is_evaluation_due(trial: Trial, now: float) -> bool:
  """After step 1, then every so many steps or seconds, and at the end."""
  state, options, step = trial.train_state, trial.options, trial.global_step
  if state['training_complete'] or options.is_limit(step):
    return True
  if options.eval_by == 'time':
    since: float = now - state['last_eval_time']
    return since >= trial.workload.eval_period_time_sec
  every = options.eval_every or trial.workload.eval_every_steps
  return step == 1 or step % every == 0


def _prepare_for_eval(trial: Trial, key: spec.RandomState) -> None:
  """The submission's turn, timed; then the budget."""
  if trial.submission.prepare_for_eval is not None:
    start = trial.clock()
    result = trial.submission.prepare_for_eval(
      **trial.common_arguments(), rng=key
    )
    _set_state(trial, 'prepare_for_eval', result)
    trial.train_state['accumulated_submission_time'] += trial.clock() - start
  _check_budget(trial)


def _evaluate(
  trial: Trial, key: spec.RandomState, observers: Sequence[Observer]
) -> None:
  """Evaluates, untimed, logs the result and saves a checkpoint."""
  workload, state = trial.workload, trial.train_state
  start = trial.clock()
  model = (trial.model_params, trial.model_state)
  data_dir, step = trial.data_dir, trial.global_step
  result = workload.eval_model(
    trial.sizes.evaluation, *model, key, data_dir, None, step
  )
  if workload.has_reached_validation_target(result):
    state['validation_goal_reached'] = True
  if 'test' not in workload.eval_splits:
    state['test_goal_reached'] = state['validation_goal_reached']
  elif workload.has_reached_test_target(result):
    state['test_goal_reached'] = True
  end = trial.clock()
  state['last_eval_time'] = end
  state['accumulated_eval_time'] += end - start
  result['score'] = state['accumulated_submission_time']
  result['total_duration'] = end - trial.start_time
  for part in ('submission', 'eval', 'logging'):
    result[f'accumulated_{part}_time'] = state[f'accumulated_{part}_time']
  trial.eval_results.append((trial.global_step, result))
  trial.log(result, is_eval=True)
  for observer in observers:
    observer.on_evaluation(trial)
  trial.save_checkpoint()
  state['accumulated_logging_time'] += trial.clock() - end
