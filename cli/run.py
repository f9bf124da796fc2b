"""`soft-reset run`: trains one workload with one submission."""

from __future__ import annotations

import contextlib
import numbers
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from absl import flags

from ..mini_algoperf import (
  checkpoints,
  experiment_folder,
  interrupts,
  resuming,
  runner,
  search_space,
  spec,
  submission_loader,
  workloads,
)
from ..mini_algoperf.trial import (
  Settings,
  Trial,
  open_log,
  restore_trial,
  set_up_trial,
)
from ..studies.runs import metric_plot as plots
from . import errors, flag_definitions, flag_parsing, progress

INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class Plan(NamedTuple):
  """A command line that was checked; nothing is written yet."""

  submission: submission_loader.Submission
  settings: Settings
  points: list[Any]  # each trial's hyperparameters; [None] under self
  folder: pathlib.Path


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset run`.

  Raises:
    errors.SetupError: for bad input, before the first step.
  """
  with contextlib.ExitStack() as stack:
    with errors.setup_phase():
      values = stack.enter_context(
        flag_parsing.parsed_flags(
          'soft-reset run', arguments, flag_definitions.RUN_FLAGS
        )
      )
      plan = make_plan(values)
      stack.enter_context(experiment_folder.locked(plan.folder))
    interrupted = stack.enter_context(interrupts.deferred())
    for number in range(1, len(plan.points) + 1):
      status = _run_trial(plan, number, values, interrupted)
      if status:
        return status
  return 0


def make_plan(values: flags.FlagValues) -> Plan:
  """Checks the flags and loads what they name.

  Args:
    values: parsed flags; a missing experiment_name is filled in, since
      submissions look it up there.

  Raises:
    ValueError: if anything is missing or doesn't fit.
  """
  require_workload(values)
  workload = workloads.get_workload(values.workload, values.generation)
  submission = submission_loader.load_submission(values.submission_path)
  if values.experiment_name is None:
    values.experiment_name = values.workload
  return Plan(
    submission=submission,
    settings=_make_settings(values, workload, submission),
    points=_read_points(values),
    folder=experiment_folder.experiment_path(
      values.experiment_dir,
      values.experiment_name,
      values.workload,
      values.framework,
      values.append_timestamp,
    ),
  )


def require_workload(values: flags.FlagValues) -> None:
  """Raises a ValueError that lists the workloads if none is named."""
  if values.workload is None:
    raise ValueError(
      f'--workload is missing: give one of {", ".join(workloads.WORKLOADS)}.'
    )


def _make_settings(
  values: flags.FlagValues,
  workload: spec.Workload,
  submission: submission_loader.Submission,
) -> Settings:
  if values.eval_by == 'time' and values.eval_every is not None:
    raise ValueError(
      f'--eval_every={values.eval_every} counts steps: leave it out with '
      '--eval_by=time.'
    )
  eval_every = values.eval_every or workload.eval_every_steps
  data_dir = values.data_dir and os.path.expanduser(values.data_dir)
  return Settings(
    global_batch_size=_batch_size(values.workload, workload, submission),
    eval_batch_size=_eval_batch_size(values.workload, workload, submission),
    tuning_ruleset=values.tuning_ruleset,
    max_global_steps=values.max_global_steps,
    eval_every=None if values.eval_by == 'time' else eval_every,
    stop_at_targets=values.stop_at_targets,
    save_checkpoints=values.save_checkpoints,
    save_intermediate_checkpoints=values.save_intermediate_checkpoints,
    data_dir=data_dir,
  )


def _batch_size(
  name: str,
  workload: spec.Workload,
  submission: submission_loader.Submission,
) -> int:
  try:
    size = submission.get_batch_size(name)
  except ValueError:  # the API's way to say that it doesn't know the name
    size = workload.default_batch_size
  return _check_divides('get_batch_size', size)


def _eval_batch_size(
  name: str,
  workload: spec.Workload,
  submission: submission_loader.Submission,
) -> int:
  size = workload.eval_batch_size
  if submission.get_eval_batch_size is not None:
    with contextlib.suppress(ValueError):  # as above
      size = submission.get_eval_batch_size(name)
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


def _read_points(values: flags.FlagValues) -> list[Any]:
  path = values.tuning_search_space
  if values.tuning_ruleset == 'self':
    if path is not None:
      raise ValueError(
        f'--tuning_search_space={path} needs --tuning_ruleset=external: under '
        'self there is nothing to search.'
      )
    if values.num_tuning_trials != 1:
      raise ValueError(
        f'--num_tuning_trials={values.num_tuning_trials} needs '
        '--tuning_ruleset=external: under self there is one run.'
      )
    return [None]
  if path is None:
    raise ValueError(
      '--tuning_ruleset=external needs a JSON file as --tuning_search_space.'
    )
  return search_space.read_points(path, values.num_tuning_trials)


def _run_trial(
  plan: Plan,
  number: int,
  values: flags.FlagValues,
  interrupted: interrupts.Interrupts,
) -> int:
  log_dir = plan.folder / f'trial_{number}'
  with errors.setup_phase(), _claimed(plan.folder, number, values):
    trial = _set_up(plan, plan.points[number - 1], log_dir, values)
    interrupted.check()
  if trial is None:
    plots.save_metric_plot(log_dir)  # it may have been killed before
    print(f'{log_dir}: this run is complete, there is nothing to resume.')
    return 0
  try:
    with progress.progress(trial, values.workload) as observer:
      runner.train(trial, observer, interrupted)
  except KeyboardInterrupt:
    plots.save_metric_plot(log_dir)
    print(_describe_interruption(trial), file=sys.stderr)
    return INTERRUPTED
  plots.save_metric_plot(log_dir)
  print(progress.summarise(trial))
  return 0


def _describe_interruption(trial: Trial) -> str:
  said = f'soft-reset: interrupted at step {trial.global_step}'
  if checkpoints.checkpoint_paths(trial.log_dir):
    return f'{said}; --resume_last_run goes on from the last checkpoint.'
  return f'{said}; there is no checkpoint to go on from.'


def _claimed(folder: pathlib.Path, number: int, values: flags.FlagValues):
  """The first trial makes the experiment's folder; the others their own."""
  if number > 1:
    log_dir = folder / f'trial_{number}'
    return experiment_folder.claim(log_dir, False, values.resume_last_run)
  return experiment_folder.claim(
    folder, values.overwrite, values.resume_last_run
  )


def _set_up(
  plan: Plan, point: Any, log_dir: pathlib.Path, values: flags.FlagValues
) -> Trial | None:
  """The trial before its first step; None if it was complete already."""
  log_dir.mkdir(exist_ok=True)
  raw = (
    resuming.read_checkpoint(log_dir, values)
    if values.resume_last_run
    else None
  )
  if raw and resuming.is_complete(raw, plan.settings):
    return None
  seed = resuming.choose_seed(values.rng_seed, log_dir)
  workload = workloads.get_workload(values.workload, values.generation)
  if values.eval_splits == 'validation':
    workload.eval_splits = ('validation',)
  trial = set_up_trial(
    workload,
    plan.submission,
    plan.settings,
    resuming.kept_point(point, log_dir),
    _first_key(seed, values.tuning_ruleset),
    log_dir,
  )
  if raw:
    restore_trial(trial, raw)
  flag_values = values.flag_values_dict()
  open_log(trial, seed, flag_values, raw and raw['rows_logged'])
  return trial


def _first_key(seed: int, tuning_ruleset: str) -> spec.RandomState:
  """The key of the run; under external the benchmark splits it once more."""
  key = jax.random.PRNGKey(seed)
  return key if tuning_ruleset == 'self' else jax.random.split(key)[0]
