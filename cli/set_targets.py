"""`soft-reset set-targets`: sets a workload's targets."""

from __future__ import annotations

import argparse
import os
import pathlib

from ..studies.errors import RunFailed
from . import arguments, errors, signals
from . import run as run_command

SUMMARY = "set a workload's targets with tuned AdamW"
USAGE = '--workload=NAME [flags]'
DESCRIPTION = (
  "Sets a workload's targets by the benchmark's method: tunes AdamW, trains the "
  'best point with fresh seeds and takes the median of the final metrics.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: how long the search is, and where its result goes."""
  group = parser.add_argument_group('flags')
  run_command.add_workload(group)
  group.add_argument(
    '--num_trials',
    metavar='N',
    type=arguments.whole(1),
    default=20,
    help='Number of points that the search tries.',
  )
  group.add_argument(
    '--num_seeds',
    metavar='N',
    type=arguments.whole(1),
    default=20,
    help='Number of seeds with which the best point is trained again.',
  )
  group.add_argument(
    '--num_steps',
    metavar='N',
    type=arguments.whole(2),
    help="Steps of each run. Default: 0.75 of the workload's step_hint.",
  )
  run_command.add_data_dir(group)
  group.add_argument(
    '--output',
    metavar='FILE',
    type=os.path.expanduser,
    help="JSON file in which the workload's entry is replaced. Default: the "
    'file that the workload reads.',
  )


def run(options: argparse.Namespace) -> int:
  """Searches and writes; returns the exit status.

  Raises:
    SetupError: for bad input, before any training.
    RunFailed: if the data are damaged, or no trial ended with a finite metric.
  """
  run_command.require_workload(options)
  with signals.ending_at_once():
    from ..mini_algoperf import experiment, targets
  with errors.setup_phase(workload=options.workload):
    search = targets.plan_search(
      options.workload,
      num_trials=options.num_trials,
      num_seeds=options.num_seeds,
      num_steps=options.num_steps,
      data_dir=experiment.full_data_dir(options.data_dir),
      output=options.output and pathlib.Path(options.output),
    )
  try:
    entry = targets.set_targets(search)
  except ValueError as e:
    raise RunFailed(str(e)) from e
  print(
    f'{entry["metric"]}: validation target {entry["validation_target"]:.6g}, '
    f'test target {entry["test_target"]:.6g}'
  )
  return 0
