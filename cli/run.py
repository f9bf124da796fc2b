"""`soft-reset run`: trains one workload with one submission."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Sequence

from absl import flags

from ..mini_algoperf import (
  checkpoints,
  experiment,
  interrupts,
  runner,
  workloads,
)
from ..mini_algoperf.run_options import RunOptions
from ..mini_algoperf.trial import Trial
from ..studies.runs import metric_plot as plots
from . import errors, flag_definitions, flag_parsing, progress

INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset run`.

  Raises:
    SetupError: for bad input, before the first step.
  """
  with contextlib.ExitStack() as stack:
    with errors.setup_phase():
      options = _options(arguments)
      checked = stack.enter_context(experiment.prepared(options))
    interrupted = stack.enter_context(interrupts.deferred())
    for number in checked.trial_numbers:
      status = _run_trial(checked, number, interrupted)
      if status:
        return status
  return 0


def _options(arguments: Sequence[str]) -> RunOptions:
  with flag_parsing.parsed_flags(
    'soft-reset run', arguments, flag_definitions.RUN_FLAGS
  ) as values:
    require_workload(values)
    names = [field.name for field in dataclasses.fields(RunOptions)]
    return RunOptions(**{name: values[name].value for name in names})


def require_workload(values: flags.FlagValues) -> None:
  """Raises a ValueError that lists the workloads if none is named."""
  if values.workload is None:
    raise ValueError(
      f'--workload is missing: give one of {", ".join(workloads.WORKLOADS)}.'
    )


def _run_trial(
  checked: experiment.Experiment,
  number: int,
  interrupted: interrupts.Interrupts,
) -> int:
  log_dir = checked.log_dir(number)
  with errors.setup_phase():
    trial = experiment.set_up(checked, number, interrupted)
  if trial is None:
    plots.save_metric_plot(log_dir)  # it may have been killed before
    print(f'{log_dir}: this run is complete, there is nothing to resume.')
    return 0
  try:
    with progress.progress(trial, checked.options.workload) as observer:
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
