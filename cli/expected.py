"""`soft-reset expected`: the progress of runs that reach their target."""

from __future__ import annotations

import argparse
import os
import pathlib

from . import arguments, errors, signals

SUMMARY = 'show how far runs that reach their target have come, and when'
USAGE = '[DIR] [flags]'
DESCRIPTION = (
  'Shows how much of the way to their target runs that reach it have come at '
  'each share of the run: the curves of the goal `expected`, a table by workload, '
  'and the tau that results when runs are split into cycles. '
  'studies/expected/RESULTS.md says more.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which runs, and where the picture goes."""
  group = parser.add_argument_group('expected')
  group.add_argument(
    'folder',
    metavar='DIR',
    nargs='?',
    type=os.path.expanduser,
    help="Folder of recorded runs, with runs.csv, or of the benchmark's logs, "
    '<submission>/study_<i>/<workload>_<framework>/trial_<j>. Default: the '
    'recorded runs that come with the project.',
  )
  group.add_argument(
    '--out',
    metavar='PNG',
    type=os.path.expanduser,
    help='Picture of the curves and of tau; an existing file is replaced.',
  )


def run(options: argparse.Namespace) -> int:
  """Prints and draws; returns the exit status.

  Raises:
    SetupError: for bad input.
  """
  with signals.ending_at_once():
    from ..studies.expected import text
    from ..studies.real_runs import logs, reading
    from ..studies.replay.cases import comparable
  with errors.setup_phase():
    out = arguments.picture_path(options.out)
    folder = pathlib.Path(options.folder or reading.SHIPPED)
    runs = comparable(logs.read_any(folder))
    lines = text.all_lines(runs)
  print('\n'.join(lines))
  if out is not None:
    from ..studies.expected import picture

    with errors.setup_phase():
      picture.save_expected(out, runs)
  return 0
