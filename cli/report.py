"""`soft-reset report`: one page about runs."""

from __future__ import annotations

import argparse
import os
import pathlib

from . import arguments, errors, plot, signals

SUMMARY = 'write one HTML page about runs'
USAGE = 'DIR [DIR ...] [flags]'
DESCRIPTION = (
  'Writes one HTML page, with everything in it, about all trials in the folders, '
  "of this runner or the benchmark's, also of a run that is still going: metric "
  'and target, learning rate, events with their reasons, settings; runs on the '
  'same workload are compared.'
)


def add_flags(parser: arguments.Parser) -> None:
  """The folders, and where the page goes."""
  parser.add_argument(
    'folders',
    metavar='DIR',
    nargs='+',
    type=os.path.expanduser,
    help='Folder of a trial, or one with trials somewhere below it.',
  )
  parser.add_argument(
    '--out',
    metavar='HTML',
    type=os.path.expanduser,
    default='report.html',
    help='The page.',
  )
  parser.add_argument(
    '--overwrite', action=arguments.Switch, help='Replace the page.'
  )


def run(options: argparse.Namespace) -> int:
  """Writes the page and prints its name; returns the exit status.

  Raises:
    SetupError: if there is no trial, its logs are damaged, or the page cannot
      be written.
  """
  path = pathlib.Path(options.out)
  with errors.setup_phase():
    if path.exists() and not options.overwrite:
      raise ValueError(
        f'--out={path} exists: give another name or --overwrite.'
      )
    found = [plot.find_trials(pathlib.Path(f)) for f in options.folders]
    trials = list(dict.fromkeys(sum(found, [])))
  with signals.ending_at_once():
    from ..mini_algoperf import files
    from ..studies.report import page
  with errors.setup_phase():
    files.write_whole(path, page.make_page(trials))
  print(path)
  return 0
