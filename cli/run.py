"""`reset-cycles run` and `set-targets`: training on the stand-in benchmark."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from ..console import errors
from ..console.errors import RunFailed
from ..console.flags import (
  COUNT,
  Command,
  WholeNumber,
  completes,
  option,
  overwrite,
  switch,
  workloads,
)
from ..mini_algoperf import RunOptions, user_code
from ..research.board.commands import set_board_targets
from .named_settings import read_settings, settings_option

if TYPE_CHECKING:
  from ..mini_algoperf.experiment import Experiment

_PATH = click.Path()  # as typed: the runner checks it, and writes it down
_workload = option(
  'workload',
  "A workload's name, such as digits, or your own, as file.py:ClassName.",
  required=True,
  shell_complete=completes(workloads),
)
_data_dir = option('data_dir', "Default: the workload's own.", _PATH)


@click.command(cls=Command, context_settings={'default_map': vars(RunOptions)})
@_workload
@option('submission_path', "A file. Default: this project's own.", _PATH)
@settings_option
@option('framework', 'Of the submission.', ['jax'])
@option('generation', "jit: today's benchmark; pmap: 2024's.", ['jit', 'pmap'])
@_data_dir
@option('rng_seed', 'Default: at random.', WholeNumber(0, 2**32 - 1))
@option(
  'tuning_ruleset', 'external: with a search space.', ['self', 'external']
)
@option('tuning_search_space', 'JSON file, under the external ruleset.', _PATH)
@option('num_tuning_trials', 'Points of the search space to train.', COUNT)
@option('max_global_steps', 'End the run after so many steps.', COUNT)
@option('eval_by', 'steps repeats exactly.', ['steps', 'time'])
@option('eval_every', "Steps. Default: the workload's own.", COUNT)
@option(
  'eval_splits',
  'validation: its target alone ends a run.',
  ['all', 'validation'],
)
@switch('stop_at_targets', 'End the run once its targets are reached.')
@option('experiment_dir', 'Folder for all experiments.', _PATH)
@option('experiment_name', "Its folder there. Default: the workload's name.")
@switch('overwrite', 'Replace an experiment of the same name.')
@switch('resume_last_run', 'Resume from the last checkpoint of that name.')
@switch('save_checkpoints', 'Save one after every evaluation and at the end.')
def run(settings: str | None, **options: Any) -> int:
  """Trains a workload with a submission.

  With --settings it is this project's own, with other settings.

  The run follows the benchmark's rules. The flags of the benchmark's
  submission_runner.py mean the same here. Log files and metric.png go to
  <experiment_dir>/<experiment_name>/<workload>_jax/trial_1/. Further trials
  under the external ruleset write to trial_2/ and so on, each with
  hparams.json.
  """
  run_options = RunOptions(**options)
  with errors.ended_by_signals():
    from ..engine.tuned import tuned
    from ..mini_algoperf import experiment, interrupts
    from . import own_parts, training
  # Before a submission is loaded: callbacks of jax or of its own during the
  # import could swallow a KeyboardInterrupt.
  with interrupts.deferred() as interrupted, contextlib.ExitStack() as stack:
    with errors.setup_phase(run_options.submission_path, run_options.workload):
      checked = experiment.experiment_of(run_options)
      if settings is not None:
        checked = _with_settings(checked, settings)
      in_force = own_parts.settings_of(checked.submission)
      own_parts.rehearse(in_force)
      if in_force:
        # At once; the set-ups, which check points of any submission, take long.
        for point in checked.points:
          tuned(in_force, point)
      stack.enter_context(experiment.entered(checked))
      if in_force and run_options.resume_last_run:
        training.check_settings(checked, in_force)
    interrupted.raise_pending()
    return training.run_trials(checked, interrupted)


def _with_settings(checked: Experiment, text: str) -> Experiment:
  """The experiment with this project's submission, of the settings of a text.

  ValueError for a text that is none of settings, or beside a submission.
  """
  from ..mini_algoperf.submission_loader import as_submission
  from ..submission import make_submission

  if checked.options.submission_path is not None:
    raise ValueError('--submission_path has settings: give no --settings.')
  _, _, chosen = read_settings(text)
  submission = as_submission(make_submission(chosen), 'make_submission')
  return checked._replace(submission=submission)


@click.command('set-targets', cls=Command)
@_workload
@_data_dir
@switch('board', 'Set those of `reset-cycles study`, of shorter workloads.')
@switch('full', "With --board: keep the workload's own length.")
@overwrite
def set_targets(
  workload: str, data_dir: str | None, board: bool, full: bool, overwrite: bool
) -> None:
  """Sets a workload's targets by the benchmark's method.

  It tunes AdamW, trains the best point with fresh seeds and takes the median of
  the final metrics.
  """
  if full and not board:
    raise click.UsageError('--full has no effect without --board.')
  if board and data_dir is not None:
    raise click.UsageError('--data_dir has no effect with --board.')
  if board:
    set_board_targets(workload, full, overwrite)
    return
  with errors.ended_by_signals():
    from ..mini_algoperf import targets, trial
    from ..mini_algoperf.workloads.base import read_targets
  with errors.setup_phase(workload=workload):
    folder = trial.full_data_dir(data_dir)
    search = targets.plan_search(workload, data_dir=folder)
    key, path = search.workload.name, search.workload.targets_file
    if key in read_targets(path) and not overwrite:
      raise ValueError(
        f'{path} has targets of {key} already: --overwrite replaces them.'
      )
  try:
    with user_code.reported(None, workload, before_first_step=False):
      entry = targets.set_targets(search)
  except ValueError as e:
    raise RunFailed(str(e)) from e
  print(
    f'{entry["metric"]}: validation target {entry["validation_target"]:.6g}, '
    f'test target {entry["test_target"]:.6g}'
  )
