"""A run's state: set up anew, or moved to where a checkpoint was."""

from __future__ import annotations

import inspect
import os
import pathlib
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax

from . import RunOptions, checkpoints, files, logger, metadata, spec
from .submission_loader import LoadedSubmission
from .user_code import DataEndedError

# Share of max_allowed_runtime_sec that a self-tuning submission gets.
SELF_TUNING_BUDGET = {'pmap': 3.0, 'jit': 1.5}
# The runner's books, with the benchmark's keys; times are in seconds.
_BOOKS = {
  'validation_goal_reached': False,
  'test_goal_reached': False,
  'is_time_remaining': True,
  'last_eval_time': 0,
  'training_complete': False,
  'accumulated_submission_time': 0,
  'accumulated_eval_time': 0,
  'accumulated_logging_time': 0,
  'last_step_end_time': None,
}


class BatchSizes(NamedTuple):
  """Examples per step, and per batch of an evaluation, over all devices."""

  training: int
  evaluation: int


def full_data_dir(data_dir: str | None) -> str | None:
  """The folder of data without a ~; ValueError if the path is not a folder."""
  full = data_dir and os.path.expanduser(data_dir)
  if full is not None and not os.path.isdir(full):
    raise ValueError(f'--data_dir={data_dir}: must be a folder.')
  return full


class CountedQueue:
  """An input queue that counts its batches; DataEndedError at its end."""

  def __init__(self, queue: Iterator[spec.Batch]) -> None:
    self._queue, self.drawn = iter(queue), 0

  def __iter__(self) -> CountedQueue:
    return self

  def __next__(self) -> spec.Batch:
    try:
      batch = next(self._queue)
    except StopIteration as e:
      raise DataEndedError(
        f'the training data ended after {self.drawn} batches: a workload must '
        'give them without end.'
      ) from e
    self.drawn += 1
    return batch


def goes_on(
  train_state: Mapping[str, Any], global_step: int, options: RunOptions
) -> bool:
  """Whether a run with these books, after so many steps, takes another one.

  The limit of steps is an option, not an entry in the books as in the
  benchmark: a run that has come to it can go on under a higher one.
  """
  goals_reached = (
    train_state['validation_goal_reached'] and train_state['test_goal_reached']
  )
  return (
    train_state['is_time_remaining']
    and not (options.stop_at_targets and goals_reached)
    and not train_state['training_complete']
    and not options.is_limit(global_step)
  )


class Trial:
  """A run in progress: everything that `train` moves forward."""

  def __init__(
    self,
    workload: spec.Workload,
    submission: LoadedSubmission,
    options: RunOptions,
    sizes: BatchSizes,
    rng_seed: int,
    log_dir: pathlib.Path | None = None,
    clock: Callable[[], float] = time.time,
    hyperparameters: Any = None,
  ) -> None:
    """Builds the data queue, the model and the optimizer, before a first step.

    Args:
      workload: fresh; the model's initialisation changes it.
      submission, options, sizes: what is run, how, and on which batches.
      rng_seed: all keys are made from it.
      log_dir: the trial's folder, which exists; None writes nothing.
      clock: seconds; a test may bring its own.
      hyperparameters: a namedtuple under the external ruleset, else None.
    """
    self.workload, self.submission = workload, submission
    self.options, self.sizes = options, sizes
    self.data_dir = full_data_dir(options.data_dir)
    self.rng_seed, self.log_dir, self.clock = rng_seed, log_dir, clock
    self.hyperparameters = hyperparameters
    data_rng, opt_init_rng, model_init_rng, self.rng = jax.random.split(
      jax.random.PRNGKey(rng_seed), 4
    )
    self.input_queue = CountedQueue(
      workload._build_input_queue(
        data_rng, 'train', self.data_dir, sizes.training
      )
    )
    dropout: dict[str, float | None] = {}
    if workload.generation == 'pmap':  # the runner of 2024 hands it over
      names = ('dropout_rate', 'aux_dropout_rate')
      dropout = {name: getattr(hyperparameters, name, None) for name in names}
    model = workload.init_model_fn(model_init_rng, **dropout)
    self.model_params, self.model_state = model
    self.optimizer_state: spec.OptimizerState = submission.init_optimizer_state(
      workload, *model, hyperparameters, opt_init_rng
    )
    self.train_state: dict[str, Any] = dict(_BOOKS)
    self.eval_results: list[tuple[int, spec.EvalResult]] = []
    self.global_step = self.preemption_count = 0
    self.metrics_logger: logger.MetricLogger | None = None
    self.start_time = 0.0
    self._rows_logged: Mapping[str, int] | None = None  # at the checkpoint
    parameters = inspect.signature(submission.update_params).parameters
    self._reads_train_state = 'train_state' in parameters

  @property
  def budget_sec(self) -> float:
    """Seconds that the submission may use."""
    factor = SELF_TUNING_BUDGET[self.workload.generation]
    if self.options.tuning_ruleset == 'external':
      factor = 1.0
    return factor * self.workload.max_allowed_runtime_sec

  def common_arguments(self) -> dict[str, Any]:
    """Keyword arguments that update_params and prepare_for_eval share."""
    return {
      'workload': self.workload,
      'current_param_container': self.model_params,
      'current_params_types': self.workload.model_params_types,
      'model_state': self.model_state,
      'hyperparameters': self.hyperparameters,
      'loss_type': self.workload.loss_type,
      'optimizer_state': self.optimizer_state,
      'eval_results': self.eval_results,
      'global_step': self.global_step,
    }

  def update_arguments(self) -> dict[str, Any]:
    """Keyword arguments of update_params but for the batch and the key.

    The books are among them, for reading, if its signature names them.
    """
    arguments = self.common_arguments()
    if self._reads_train_state:
      arguments['train_state'] = types.MappingProxyType(self.train_state)
    return arguments

  def _device_trees(self) -> dict[str, Any]:
    return {
      'model_params': self.model_params,
      'optimizer_state': self.optimizer_state[0],
      'model_state': self.model_state,
    }

  def save_checkpoint(self) -> None:
    """Writes what a run needs to resume as if nothing had happened."""
    if self.log_dir is None or not self.options.save_checkpoints:
      return
    state = {
      **self._device_trees(),
      'train_state': self.train_state,
      'eval_results': self.eval_results,
      'global_step': self.global_step,
      'preemption_count': self.preemption_count,
      'rng_seed': self.rng_seed,
      'batches_drawn': self.input_queue.drawn,
      'rows_logged': self.metrics_logger and self.metrics_logger.num_rows,
    }
    checkpoints.save(self.log_dir, state, self.workload.generation)

  def restore(self, raw: dict[str, Any]) -> None:
    """Moves a run that was set up anew to where its checkpoint was.

    ValueError if the checkpoint, from `read_latest`, does not fit.
    """
    state = checkpoints.restore(
      raw, self._device_trees(), self.workload.generation
    )
    for name in ('model_params', 'model_state', 'eval_results', 'global_step'):
      setattr(self, name, state[name])
    self.optimizer_state = (state['optimizer_state'], self.optimizer_state[1])
    self.train_state = dict(state['train_state'])
    self.preemption_count = state['preemption_count'] + 1
    self._rows_logged = state['rows_logged']
    for _ in range(state['batches_drawn']):  # a resumed run sees the same data
      next(self.input_queue)

  def open_log(self, flag_values: Mapping[str, Any]) -> None:
    """Writes meta_data_<n>.json and flags_<n>.json, and attaches the logger.

    For a run with a log_dir, before its first step in this process.
    """
    assert self.log_dir is not None
    count = self.preemption_count
    files.write_json(
      metadata.meta_data_path(self.log_dir, count),
      metadata.make_meta_data(self.workload, self.rng_seed),
    )
    files.write_json(self.log_dir / f'flags_{count}.json', dict(flag_values))
    log = logger.MetricLogger(self.log_dir, self._rows_logged)
    self.metrics_logger = self.workload.metrics_logger = log

  def log(self, metrics: Mapping[str, float], is_eval: bool) -> None:
    """Adds a row to the run's tables, if it has any."""
    if self.metrics_logger is not None:
      self.metrics_logger.append_scalar_metrics(
        metrics, self.global_step, self.preemption_count, is_eval
      )
