"""An experiment: the options of a run, checked, and its trials, set up.

A run resumes with its own seed, which its folder has. Flags that would change a
resumed run are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
from absl import flags
from absl.testing import flagsaver

from . import (
  RunOptions,
  checkpoints,
  experiment_folder,
  files,
  interrupts,
  logger,
  metadata,
  tuning,
  workloads,
)
from .submission_loader import LoadedSubmission, load_submission
from .trial import BatchSizes, Trial, full_data_dir, goes_on
from .workloads import from_file


class Experiment(NamedTuple):
  """Options that were checked, and what they name; nothing is written yet."""

  options: RunOptions
  submission: LoadedSubmission
  sizes: BatchSizes
  folder: pathlib.Path
  points: list[Any]  # hyperparameters of each trial; [None] under self-tuning

  @property
  def log_dirs(self) -> list[pathlib.Path]:
    """The folder of each trial; self-tuning has one."""
    return [self.folder / f'trial_{i + 1}' for i in range(len(self.points))]


@contextlib.contextmanager
def entered(experiment: Experiment) -> Iterator[None]:
  """Shows an experiment's options to submissions; ValueError if in use."""
  # Submissions find their folder by the name.
  name = workloads.workload_class(experiment.options.workload).name
  options = dataclasses.replace(experiment.options, workload=name)
  with flags_published(options), experiment_folder.locked(experiment.folder):
    yield


@contextlib.contextmanager
def flags_published(options: RunOptions) -> Iterator[None]:
  """Fills absl's FLAGS, where submissions look them up; as before afterwards.

  Importing this package defines no flags. So it can be imported together with
  the benchmark's runner, which defines flags of the same names.
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


def experiment_of(options: RunOptions) -> Experiment:
  """Loads what the options name; ValueError if anything is missing or wrong."""
  workload = workloads.get_workload(options.workload, options.generation)
  submission = load_submission(options.submission_path)
  if options.eval_by == 'time' and options.eval_every is not None:
    raise ValueError(
      f'--eval_every={options.eval_every} counts steps: leave it out with '
      '--eval_by=time.'
    )
  name = workload.name
  wanted = {
    'get_batch_size': workload.default_batch_size,
    'get_eval_batch_size': workload.eval_batch_size,
  }
  sizes = BatchSizes(
    *(_batch_size(submission, ask, name, size) for ask, size in wanted.items())
  )
  most = workload.num_train_examples
  if sizes.training > most:
    raise ValueError(
      f'get_batch_size={sizes.training} must be at most {most}, the number of '
      'training examples.'
    )
  full_data_dir(options.data_dir)
  if from_file.is_file(options.workload):
    from_file.check_targets(workload)  # now, not at the first evaluation
  folder = experiment_folder.experiment_path(options, name)
  points = tuning.read_points(options)
  return Experiment(options, submission, sizes, folder, points)


def _batch_size(
  submission: LoadedSubmission, name: str, workload_name: str, default: int
) -> int:
  """What the submission wants, or the workload's own batch size."""
  size, ask = default, getattr(submission, name)
  if ask is not None:
    # The API's way to say that a submission doesn't know the name.
    with contextlib.suppress(ValueError):
      size = ask(workload_name)
  num_devices = jax.local_device_count()
  is_whole = isinstance(size, numbers.Integral)
  if not is_whole or size < 1 or size % num_devices:
    raise ValueError(
      f'{name}={size} must be a positive multiple of the number of devices, '
      f'{num_devices}.'
    )
  return int(size)


def set_up(
  experiment: Experiment, interrupted: interrupts.Interrupts
) -> list[Trial | None]:
  """The trials of an entered experiment, each before its next step.

  All are set up before the first one trains, so that a point which the
  submission refuses costs no training. A trial that is complete is None.

  Raises:
    ValueError: if a trial cannot be set up, or cannot be resumed in this way.
    KeyboardInterrupt: after Ctrl-C. Either leaves all folders as they were.
  """
  options = experiment.options
  with experiment_folder.claim(
    experiment.folder, options.overwrite, options.resume_last_run
  ):
    trials = []
    for log_dir, point in zip(experiment.log_dirs, experiment.points):
      log_dir.mkdir(exist_ok=True)
      workload = workloads.get_workload(options.workload, options.generation)
      if options.eval_splits == 'validation':
        workload.eval_splits = ('validation',)
      trials.append(_start_or_resume(experiment, workload, log_dir, point))
      interrupted.raise_pending()
    return trials


def _start_or_resume(
  experiment: Experiment,
  workload: workloads.MiniWorkload,
  log_dir: pathlib.Path,
  point: Any,
) -> Trial | None:
  options, sizes = experiment.options, experiment.sizes
  raw = _read_checkpoint(log_dir, options) if options.resume_last_run else None
  seed = _choose_seed(options.rng_seed, log_dir, raw)
  first = metadata.meta_data_path(log_dir)
  if raw and not first.exists():  # lost; who reads the folder looks for it
    files.write_json(first, metadata.make_meta_data(workload, seed))
  if raw and not goes_on(raw['train_state'], raw['global_step'], options):
    return None
  if from_file.is_file(options.workload):
    data_dir = full_data_dir(options.data_dir)
    from_file.rehearse(workload, sizes.training, data_dir)
  submission, point = experiment.submission, tuning.write_point(log_dir, point)
  trial = Trial(
    workload, submission, options, sizes, seed, log_dir, hyperparameters=point
  )
  if raw:
    trial.restore(raw)
  trial.open_log(dataclasses.asdict(options))
  return trial


def _read_checkpoint(
  log_dir: pathlib.Path, options: RunOptions
) -> dict[str, Any] | None:
  """The checkpoint to resume from; None if the run has not written any."""
  recorded = log_dir / 'flags_0.json'
  before = files.read_json(recorded) if recorded.exists() else {}
  for name in (
    'generation',
    'tuning_ruleset',
    'eval_by',
    'eval_every',
    'eval_splits',
  ):
    value = getattr(options, name)
    if (began := before.get(name, value)) != value:
      flag = f'--{name}={value}' if value else f'--{name}'
      how = f'with {began}; give that' if began else 'without; leave it out'
      raise ValueError(f'{flag}: the run to resume was started {how}.')
  anew = '--overwrite instead of --resume_last_run starts anew.'
  try:
    raw = checkpoints.read_latest(log_dir)
  except ValueError as e:
    raise ValueError(f'{e}; {anew}') from e
  # The first evaluation is logged just before the first checkpoint is written.
  num_evaluations = len(files.read_rows(log_dir / logger.EVAL_MEASUREMENTS))
  if raw is None and num_evaluations > 1:
    raise ValueError(f'{log_dir} has no checkpoint; {anew}')
  return raw


def _choose_seed(
  flag: int | None, log_dir: pathlib.Path, raw: Mapping[str, Any] | None
) -> int:
  """The seed with which the run was started, is to start, or a random one."""
  seeds = {raw['rng_seed']} if raw else set()
  path = metadata.meta_data_path(log_dir)
  if path.exists():
    seed = files.read_json(path).get('rng_seed')
    if not isinstance(seed, int):
      raise ValueError(f'{path}: rng_seed={seed!r} must be a whole number.')
    seeds.add(seed)
  if seeds and flag not in (None, *seeds):
    raise ValueError(
      f'--rng_seed={flag}: the run to resume was started with {min(seeds)}; '
      'leave the flag out.'
    )
  if seeds:
    return min(seeds)
  return int.from_bytes(os.urandom(4), 'little') if flag is None else flag
