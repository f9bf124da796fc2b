"""`soft-reset run`: trains a workload with a submission."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from typing import TYPE_CHECKING, Any

import click

from ..mini_algoperf import RunOptions, user_code
from ..studies.errors import RunFailed
from . import errors, flags, signals

if TYPE_CHECKING:
  from ..mini_algoperf.experiment import Experiment
  from ..mini_algoperf.interrupts import Interrupts
  from ..mini_algoperf.trial import Trial

WORKLOADS = 'digits, molecules, translation or text'
_DEFAULTS = {
  field.name: field.default for field in dataclasses.fields(RunOptions)
}
workload = flags.option(
  'workload',
  metavar='NAME',
  required=True,
  help=f'The workload: {WORKLOADS}; or your own, as file.py:ClassName (see '
  'examples/own_workload.py).',
)
data_dir = flags.option(
  'data_dir',
  flags.FILE,
  help="Folder for data. Default: the workload's own cache folder.",
)


def _option(name: str, kind: Any = str, **settings: Any) -> Any:
  """A flag with the default that RunOptions has."""
  return flags.option(name, kind, default=_DEFAULTS[name], **settings)


def _switch(name: str, text: str) -> Any:
  return flags.switch(name, text, bool(_DEFAULTS[name]))


@click.command(cls=flags.Command, short_help='train a workload')
@workload
@_option(
  'submission_path',
  flags.FILE,
  help="Python file with the submission's functions; its folder must have an "
  "__init__.py. Default: this project's own submission.",
)
@_option('framework', ['jax'], help='Framework of the submission.')
@_option(
  'generation',
  ['jit', 'pmap'],
  help='Which generation of the benchmark to stand in for: jit is the current '
  'one (sharded arrays), pmap that of 2024 (a leading device axis).',
)
@data_dir
@_option(
  'rng_seed',
  click.IntRange(0, 2**32 - 1),
  help='Seed of the run. Default: drawn at random and recorded in '
  'meta_data_0.json; a resumed run takes it from there.',
)
@_option(
  'tuning_ruleset',
  ['self', 'external'],
  help='self: one run without outside tuning, with a larger time budget, as '
  'this submission is meant to be run. external: one trial for each point of '
  '--tuning_search_space. The benchmark itself defaults to external.',
)
@_option(
  'tuning_search_space',
  flags.FILE,
  help='JSON file with points; for --tuning_ruleset=external only.',
)
@_option(
  'num_tuning_trials',
  flags.COUNT,
  help='Number of trials under the external ruleset.',
)
@_option(
  'max_global_steps',
  flags.COUNT,
  help='End the run after this many steps. Default: no limit.',
)
@_option(
  'eval_by',
  ['steps', 'time'],
  help='steps: evaluate after step 1, then every --eval_every steps, which is '
  'exactly reproducible. time: evaluate every eval_period_time_sec of the '
  "workload's, as the benchmark does.",
)
@_option(
  'eval_every',
  flags.COUNT,
  help="Steps between evaluations. Default: the workload's own number. As in "
  'the benchmark, --generation=jit checks the time budget only then.',
)
@_option(
  'eval_splits',
  ['all', 'validation'],
  help='all: evaluate on the training, validation and test splits, as the '
  'benchmark does. validation: only on that one, which is faster; the test '
  'target is then never reached.',
)
@_switch(
  'stop_at_targets',
  'End the run once the validation and test targets are reached, as the '
  'benchmark does; else go on to the end of the budget.',
)
@_option('experiment_dir', flags.FILE, help='Folder for all experiments.')
@_option(
  'experiment_name',
  help="Name of this experiment's folder. Default: the workload's name, or the "
  'name of your class.',
)
@_switch('overwrite', 'Replace an experiment of the same name.')
@_switch(
  'resume_last_run',
  'Resume an experiment of the same name from its last checkpoint.',
)
@_switch(
  'save_checkpoints', 'Save a checkpoint after every evaluation and at the end.'
)
@_switch(
  'save_intermediate_checkpoints',
  'Keep all checkpoints, not just the last, as the benchmark does by default.',
)
def run(**options: Any) -> int:
  """Trains a workload with a submission by the benchmark's rules.

  The benchmark's log files, the submission's own and metric.png go to
  <experiment_dir>/<experiment_name>/<workload>_jax/trial_<n>/. Flags of the
  benchmark's submission_runner.py mean the same here.
  """
  wanted = RunOptions(**options)
  with signals.ending_at_once():
    from ..mini_algoperf import experiment, interrupts
  with contextlib.ExitStack() as stack:
    # Before anything is loaded: callbacks of jax or of a submission during
    # their import could swallow a KeyboardInterrupt.
    interrupted = stack.enter_context(interrupts.deferred())
    with (
      errors.setup_phase(wanted.submission_path, wanted.workload),
      user_code.reported(
        wanted.submission_path, wanted.workload, before_first_step=True
      ),
    ):
      checked = experiment.check(wanted)
      _check_points(checked)
      stack.enter_context(experiment.entered(checked))
    interrupted.check()
    for number in checked.trial_numbers:
      status = _run_trial(checked, number, interrupted)
      if status:
        return status
  return 0


def _check_points(checked: Experiment) -> None:
  """Makes sure that this project's submission accepts every point.

  Other people's submissions see a point only when its trial begins.

  Raises:
    ValueError: for the first point that it would not accept.
  """
  import numpy as np

  from ..core.schedules import check_rates
  from ..mini_algoperf import workloads
  from ..schedule_params import ScheduleParams

  made = checked.submission.init_optimizer_state
  given = made.args if isinstance(made, functools.partial) else ()
  if not given or not isinstance(given[0], ScheduleParams):
    return
  options = checked.options
  steps = workloads.get_workload(options.workload, options.generation).step_hint
  for number, point in zip(checked.trial_numbers, checked.points):
    try:
      # The check reports overflows itself.
      with np.errstate(over='ignore', invalid='ignore'):
        check_rates(given[0].override(point).chain(steps).cycles)
    except ValueError as e:
      space = options.tuning_search_space
      if space is None:
        raise
      raise ValueError(
        f'--tuning_search_space={space}: trial {number}: {e}'
      ) from e


def _run_trial(
  checked: Experiment, number: int, interrupted: Interrupts
) -> int:
  import numpy as np

  from ..mini_algoperf import experiment, runner
  from ..mini_algoperf.trial import DataEndedError
  from ..studies import run_plot
  from . import watch

  log_dir = checked.log_dir(number)
  files = checked.options.submission_path, checked.options.workload
  with (
    errors.setup_phase(*files),
    user_code.reported(*files, before_first_step=True),
    np.errstate(over='ignore', invalid='ignore'),  # the checks report these
  ):
    trial = experiment.set_up(checked, number, interrupted)
  if trial is None:
    run_plot.save_metric_plot(log_dir)  # it may have been killed before
    print(f'{log_dir}: this run is complete, there is nothing to resume.')
    return 0
  try:
    with (
      user_code.reported(*files, before_first_step=False),
      watch.watching(trial) as observer,
    ):
      runner.train(trial, observer, interrupted)
  except DataEndedError as e:
    raise RunFailed(str(e)) from e
  except KeyboardInterrupt:
    run_plot.save_metric_plot(log_dir)
    print(_describe_interruption(trial), file=sys.stderr)
    return signals.INTERRUPTED
  run_plot.save_metric_plot(log_dir)
  print(watch.summarise(trial))
  return 0


def _describe_interruption(trial: Trial) -> str:
  from ..mini_algoperf import checkpoints
  from . import watch

  said = f'soft-reset: interrupted at step {trial.global_step}'
  if checkpoints.checkpoint_paths(watch.folder_of(trial)):
    return f'{said}; --resume_last_run resumes from the last checkpoint.'
  return f'{said}; there is no checkpoint to resume from.'
