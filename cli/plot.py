"""`soft-reset plot`: the standard picture of a run."""

from __future__ import annotations

import argparse
import os
import pathlib

from . import arguments, errors, signals

SUMMARY = 'draw the standard picture of any run'
USAGE = 'DIR'
DESCRIPTION = (
  'Draws metric.png of every trial in a folder, of this runner or the '
  "benchmark's: validation metric and target, resets with tau, early switches, "
  'learning rate.'
)
# A file that every trial has, whichever runner wrote it.
_MARK = 'meta_data_0.json'


def add_flags(parser: arguments.Parser) -> None:
  """Adds the argument: the folder."""
  parser.add_argument(
    'folder',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder of a trial, or one with trials somewhere below it.',
  )


def run(options: argparse.Namespace) -> int:
  """Draws and prints the pictures' names; returns the exit status.

  Raises:
    SetupError: if there is no trial, or its logs are damaged.
  """
  with errors.setup_phase():
    trials = find_trials(pathlib.Path(options.folder))
  with signals.ending_at_once():
    from ..studies.runs import metric_plot
  with errors.setup_phase():
    for trial in trials:
      print(metric_plot.save_metric_plot(trial))
  return 0


def find_trials(folder: pathlib.Path) -> list[pathlib.Path]:
  """The trials in a folder: the folder itself, or those below it.

  Raises:
    ValueError: if there is none.
  """
  trials = sorted(path.parent for path in folder.rglob(_MARK))
  if not trials:
    raise ValueError(
      f"{folder} has no trial: give an experiment's folder, such as "
      'experiment_runs/digits, or a trial_<n> in it.'
    )
  return trials
