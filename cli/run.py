"""`soft-reset run`: trains a workload with a submission."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from ..mini_algoperf.run_options import RunOptions
from ..studies.errors import RunFailed
from . import arguments, errors, schedule, signals

if TYPE_CHECKING:
  import pathlib

  from ..mini_algoperf.experiment import Experiment
  from ..mini_algoperf.interrupts import Interrupts
  from ..mini_algoperf.spec import Hyperparameters
  from ..mini_algoperf.submission_loader import LoadedSubmission
  from ..mini_algoperf.trial import Trial

SUMMARY = 'train a workload with a submission'
USAGE = '--workload=NAME [flags]'
DESCRIPTION = (
  "Trains a workload with a submission by the benchmark's rules. The benchmark's "
  "log files, the submission's own and metric.png go to "
  '<experiment_dir>/<experiment_name>/<workload>_jax/trial_<n>/. Flags of the '
  "benchmark's submission_runner.py mean the same here."
)
WORKLOADS = 'digits, molecules, translation or text'
_Switch = arguments.Switch


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: the fields of RunOptions, which has their defaults."""
  _add_what(parser.add_argument_group('what is trained'))
  _add_hyperparameters(parser.add_argument_group('hyperparameters'))
  _add_length(parser.add_argument_group('length and evaluations'))
  _add_files(parser.add_argument_group('files'))
  parser.set_defaults(
    **{
      field.name: field.default
      for field in dataclasses.fields(RunOptions)
      if field.default is not dataclasses.MISSING
    }
  )


def add_workload(group: argparse._ActionsContainer) -> None:
  """Adds --workload: one of the small workloads, or the user's own."""
  group.add_argument(
    '--workload',
    metavar='NAME',
    help=f'Name of the workload: {WORKLOADS}; or your own, as '
    'file.py:ClassName (see examples/own_workload.py). Required.',
  )


def add_data_dir(group: argparse._ActionsContainer) -> None:
  """Adds --data_dir, for the small workloads."""
  group.add_argument(
    '--data_dir',
    metavar='DIR',
    type=os.path.expanduser,
    help="Folder for data. Default: the workload's own cache folder.",
  )


def _add_what(group: argparse._ActionsContainer) -> None:
  add_workload(group)
  group.add_argument(
    '--submission_path',
    metavar='FILE',
    help="Python file with the submission's functions; its folder must have an "
    "__init__.py. Default: this project's own submission.",
  )
  group.add_argument(
    '--framework',
    choices=('jax',),
    help='Framework of the submission; only jax is supported.',
  )
  group.add_argument(
    '--generation',
    choices=('jit', 'pmap'),
    help='Which generation of the benchmark to stand in for: jit is the '
    'current one (sharded arrays), pmap that of 2024 (a leading device axis).',
  )
  add_data_dir(group)
  group.add_argument(
    '--rng_seed',
    metavar='N',
    type=arguments.whole(0, 2**32 - 1),
    help='Seed of the run. Default: drawn at random and recorded in '
    'meta_data_0.json; a resumed run takes it from there.',
  )


def _add_hyperparameters(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--tuning_ruleset',
    choices=('self', 'external'),
    help='self: one run without outside tuning, with a larger time budget, as '
    'this submission is meant to be run. external: one trial for each point of '
    '--tuning_search_space. The benchmark itself defaults to external.',
  )
  group.add_argument(
    '--tuning_search_space',
    metavar='FILE',
    help='JSON file with ranges or points; for --tuning_ruleset=external only.',
  )
  group.add_argument(
    '--num_tuning_trials',
    metavar='N',
    type=arguments.whole(1),
    help='Number of trials under the external ruleset.',
  )


def _add_length(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--max_global_steps',
    metavar='N',
    type=arguments.whole(1),
    help='End the run after this many steps. Default: no limit.',
  )
  group.add_argument(
    '--eval_by',
    choices=('steps', 'time'),
    help='steps: evaluate after step 1, then every --eval_every steps, which '
    'is exactly reproducible. time: evaluate every eval_period_time_sec of the '
    "workload's, as the benchmark does.",
  )
  group.add_argument(
    '--eval_every',
    metavar='N',
    type=arguments.whole(1),
    help="Steps between evaluations. Default: the workload's own number. As in "
    'the benchmark, --generation=jit checks the time budget only then.',
  )
  group.add_argument(
    '--eval_splits',
    choices=('all', 'validation'),
    help='all: evaluate on the training, validation and test splits, as the '
    'benchmark does. validation: only on that one, which is faster; the test '
    'target is then never reached.',
  )
  group.add_argument(
    '--stop_at_targets',
    action=_Switch,
    help='End the run once the validation and test targets are reached, as the '
    'benchmark does. --nostop_at_targets goes on to the end of the budget.',
  )


def _add_files(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--experiment_dir', metavar='DIR', help='Folder for all experiments.'
  )
  group.add_argument(
    '--experiment_name',
    metavar='NAME',
    help="Name of this experiment's folder. Default: the workload's name, or the "
    'name of your class.',
  )
  for name, text in (
    ('append_timestamp', 'Append date and time to --experiment_name.'),
    ('overwrite', 'Replace an experiment of the same name.'),
    (
      'resume_last_run',
      'Resume an experiment of the same name from its last checkpoint.',
    ),
    (
      'save_checkpoints',
      'Save a checkpoint after every evaluation and at the end.',
    ),
    (
      'save_intermediate_checkpoints',
      'Keep all checkpoints, not just the last, as the benchmark does by '
      'default.',
    ),
  ):
    group.add_argument(f'--{name}', action=_Switch, help=text)


def require_workload(options: argparse.Namespace) -> None:
  """Refuses a missing --workload.

  Raises:
    SetupError: if it is missing; lists the workloads.
  """
  if options.workload is None:
    options.parser.error(f'--workload is missing: give {WORKLOADS}')


def run(options: argparse.Namespace) -> int:
  """Trains all trials; returns the exit status.

  Raises:
    SetupError: for bad input, before the first step.
    RunFailed: if the data end before the run does.
  """
  require_workload(options)
  names = [field.name for field in dataclasses.fields(RunOptions)]
  wanted = RunOptions(**{name: getattr(options, name) for name in names})
  with signals.ending_at_once():
    from ..mini_algoperf import experiment, interrupts
  with contextlib.ExitStack() as stack:
    # Before anything is loaded: callbacks of jax or of a submission during
    # their import could swallow a KeyboardInterrupt.
    interrupted = stack.enter_context(interrupts.deferred())
    with errors.setup_phase(wanted.submission_path, wanted.workload):
      checked = experiment.check(wanted)
      check_points(checked)
      stack.enter_context(experiment.entered(checked))
    interrupted.check()
    for number in checked.trial_numbers:
      status = _run_trial(checked, number, interrupted)
      if status:
        return status
  return 0


def check_points(checked: Experiment) -> None:
  """Makes sure that this project's submission accepts every point.

  Other people's submissions see a point only when its trial begins.

  Raises:
    ValueError: for the first point that it would not accept.
  """
  import numpy as np

  from ..mini_algoperf import workloads
  from ..schedule_params import check_plan

  params, options = schedule.params_of(checked.submission), checked.options
  if params is None:
    return
  workload = workloads.get_workload(options.workload, options.generation)
  for number, point in zip(checked.trial_numbers, checked.points):
    try:
      # The check reports overflows itself.
      with np.errstate(over='ignore', invalid='ignore'):
        check_plan(workload.step_hint, params.override(point))
    except ValueError as e:
      space = options.tuning_search_space
      if space is None:
        raise
      raise ValueError(
        f'--tuning_search_space={space}: trial {number}: {e}'
      ) from e


def check_settings(
  log_dir: pathlib.Path, submission: LoadedSubmission, point: Hyperparameters
) -> None:
  """Makes sure that a run is resumed with the settings that it was started with.

  Not checked are other people's submissions, and settings with Python
  functions: their settings are not recorded.

  Args:
    log_dir: the trial's folder.
    submission: the submission with which it is resumed.
    point: the trial's hyperparameters.

  Raises:
    ValueError: if settings differ; names them.
  """
  from ..training import configuration

  params = schedule.params_of(submission)
  if params is None or not (log_dir / configuration.CONFIGURATION).exists():
    return
  _, own = configuration.read_configuration(log_dir)
  differing = configuration.differences(own, params.override(point))
  if differing:
    raise ValueError(
      f'{log_dir} was started with other settings: {"; ".join(differing)}. '
      'Resume with those, or give another --experiment_name.'
    )


def _run_trial(
  checked: Experiment, number: int, interrupted: Interrupts
) -> int:
  import numpy as np

  from ..mini_algoperf import experiment, runner
  from ..mini_algoperf.trial import DataEndedError
  from ..studies.runs import metric_plot
  from . import progress
  from .last_evaluation import LastEvaluation

  log_dir = checked.log_dir(number)
  with (
    errors.setup_phase(
      checked.options.submission_path, checked.options.workload
    ),
    np.errstate(over='ignore', invalid='ignore'),  # the checks report these
  ):
    trial = experiment.set_up(checked, number, interrupted, check_settings)
  if trial is None:
    metric_plot.save_metric_plot(log_dir)  # it may have been killed before
    print(f'{log_dir}: this run is complete, there is nothing to resume.')
    return 0
  try:
    with progress.progress(trial, trial.workload.name) as observer:
      runner.train(trial, LastEvaluation(), observer, interrupted)
  except DataEndedError as e:
    raise RunFailed(str(e)) from e
  except KeyboardInterrupt:
    metric_plot.save_metric_plot(log_dir)
    print(_describe_interruption(trial), file=sys.stderr)
    return signals.INTERRUPTED
  metric_plot.save_metric_plot(log_dir)
  print(progress.summarise(trial))
  return 0


def _describe_interruption(trial: Trial) -> str:
  from ..mini_algoperf import checkpoints

  said = f'soft-reset: interrupted at step {trial.global_step}'
  if checkpoints.checkpoint_paths(trial.log_dir):
    return f'{said}; --resume_last_run resumes from the last checkpoint.'
  return f'{said}; there is no checkpoint to resume from.'
