"""An experiment: what a run is asked to do, checked, and its trials set up."""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import jax
from absl import flags
from absl.testing import flagsaver

from . import (
  experiment_folder,
  interrupts,
  resuming,
  search_space,
  spec,
  workloads,
)
from .run_options import RunOptions
from .submission_loader import LoadedSubmission, load_submission
from .trial import Settings, Trial


class Experiment(NamedTuple):
  """Options that were checked, and what they name; nothing is written yet."""

  options: RunOptions
  submission: LoadedSubmission
  settings: Settings
  points: list[
    spec.Hyperparameters
  ]  # each trial's hyperparameters; [None] under self
  folder: pathlib.Path

  @property
  def trial_numbers(self) -> range:
    """The trials, counted from 1."""
    return range(1, len(self.points) + 1)

  def log_dir(self, number: int) -> pathlib.Path:
    """The folder of a trial."""
    return self.folder / f'trial_{number}'


@contextlib.contextmanager
def entered(experiment: Experiment) -> Iterator[None]:
  """Keeps an experiment to this process, and shows its options to submissions.

  Raises:
    ValueError: if another process has it.
  """
  # Submissions find their folder by the name.
  name = workloads.workload_class(experiment.options.workload).name
  options = dataclasses.replace(experiment.options, workload=name)
  with flags_published(options), experiment_folder.locked(experiment.folder):
    yield


@contextlib.contextmanager
def flags_published(options: RunOptions) -> Iterator[None]:
  """Fills absl's FLAGS, where submissions look them up; as before afterwards.

  Importing this package defines none, so that it can be imported together with
  the benchmark's runner, which defines the same names.
  """
  values = flags.FLAGS
  was_parsed = values.is_parsed()
  saved = flagsaver.save_flag_values(values)
  try:
    for name, value in dataclasses.asdict(options).items():
      if name not in values:
        flags.DEFINE(flags.ArgumentParser(), name, None, '', values)
      values[name].value = value
    values.mark_as_parsed()
    yield
  finally:
    if not was_parsed:
      values.unparse_flags()
    flagsaver.restore_flag_values(saved, values)


def check(options: RunOptions) -> Experiment:
  """Loads what the options name.

  Raises:
    ValueError: if anything is missing or doesn't fit.
  """
  workload = workloads.get_workload(options.workload, options.generation)
  submission = load_submission(options.submission_path)
  return Experiment(
    options=options,
    submission=submission,
    settings=_make_settings(options, workload, submission),
    points=_read_points(options),
    folder=experiment_folder.experiment_path(
      options.experiment_dir,
      options.experiment_name,
      workload.name,
      options.framework,
      options.append_timestamp,
    ),
  )


def _make_settings(
  options: RunOptions,
  workload: workloads.MiniWorkload,
  submission: LoadedSubmission,
) -> Settings:
  if options.eval_by == 'time' and options.eval_every is not None:
    raise ValueError(
      f'--eval_every={options.eval_every} counts steps: leave it out with '
      '--eval_by=time.'
    )
  eval_every = options.eval_every or workload.eval_every_steps
  return Settings(
    global_batch_size=_batch_size(workload, submission),
    eval_batch_size=_eval_batch_size(workload, submission),
    tuning_ruleset=options.tuning_ruleset,
    max_global_steps=options.max_global_steps,
    eval_every=None if options.eval_by == 'time' else eval_every,
    stop_at_targets=options.stop_at_targets,
    save_checkpoints=options.save_checkpoints,
    save_intermediate_checkpoints=options.save_intermediate_checkpoints,
    data_dir=full_data_dir(options.data_dir),
  )


def full_data_dir(data_dir: str | None) -> str | None:
  """The folder of data, which need not exist, without a ~.

  Raises:
    ValueError: if something else is there.
  """
  full = data_dir and os.path.expanduser(data_dir)
  if full and os.path.exists(full) and not os.path.isdir(full):
    raise ValueError(f'--data_dir={data_dir}: must be a folder.')
  return full


def _batch_size(
  workload: workloads.MiniWorkload, submission: LoadedSubmission
) -> int:
  try:
    size = submission.get_batch_size(workload.name)
  except ValueError:  # the API's way to say that it doesn't know the name
    size = workload.default_batch_size
  return _check_divides('get_batch_size', size)


def _eval_batch_size(
  workload: workloads.MiniWorkload, submission: LoadedSubmission
) -> int:
  size = workload.eval_batch_size
  if submission.get_eval_batch_size is not None:
    with contextlib.suppress(ValueError):  # as above
      size = submission.get_eval_batch_size(workload.name)
  return _check_divides('get_eval_batch_size', size)


def _check_divides(name: str, size: int) -> int:
  num_devices = jax.local_device_count()
  is_whole = isinstance(size, numbers.Integral)
  if not is_whole or size < 1 or size % num_devices:
    raise ValueError(
      f'{name}={size} must be a positive multiple of the number of devices, '
      f'{num_devices}.'
    )
  return int(size)


def _read_points(options: RunOptions) -> list[spec.Hyperparameters]:
  path = options.tuning_search_space
  if options.tuning_ruleset == 'self':
    if path is not None:
      raise ValueError(
        f'--tuning_search_space={path} needs --tuning_ruleset=external: under '
        'self there is nothing to search.'
      )
    if options.num_tuning_trials != 1:
      raise ValueError(
        f'--num_tuning_trials={options.num_tuning_trials} needs '
        '--tuning_ruleset=external: under self there is one run.'
      )
    return [None]
  if path is None:
    raise ValueError(
      '--tuning_ruleset=external needs a JSON file as --tuning_search_space.'
    )
  return search_space.read_points(path, options.num_tuning_trials)


def set_up(
  experiment: Experiment,
  number: int,
  interrupted: interrupts.Interrupts,
  check_settings: resuming.SettingsCheck | None = None,
) -> Trial | None:
  """A trial before its next step; None if it was complete already.

  Args:
    experiment: from `check`, and `entered`.
    number: of the trial, from 1.
    interrupted: knows whether Ctrl-C was pressed.
    check_settings: refuses to go on with other settings of a submission; None
      refuses none.

  Raises:
    ValueError: if it cannot be set up.
    KeyboardInterrupt: if Ctrl-C was pressed. Folders are then as before, too.
  """
  log_dir = experiment.log_dir(number)
  with _claimed(experiment, number):
    log_dir.mkdir(exist_ok=True)
    trial = resuming.start_or_resume(
      _fresh_workload(experiment.options),
      experiment.submission,
      experiment.settings,
      experiment.points[number - 1],
      log_dir,
      experiment.options,
      check_settings,
    )
    interrupted.check()
    return trial


def _claimed(
  experiment: Experiment, number: int
) -> contextlib.AbstractContextManager[None]:
  """The first trial makes the experiment's folder; the others their own."""
  options = experiment.options
  if number > 1:
    log_dir = experiment.log_dir(number)
    return experiment_folder.claim(log_dir, False, options.resume_last_run)
  return experiment_folder.claim(
    experiment.folder, options.overwrite, options.resume_last_run
  )


def _fresh_workload(options: RunOptions) -> workloads.MiniWorkload:
  workload = workloads.get_workload(options.workload, options.generation)
  if options.eval_splits == 'validation':
    workload.eval_splits = ('validation',)
  return workload
