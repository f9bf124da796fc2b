"""`soft-reset score`: AlgoPerf's scores, computed from logs."""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import TYPE_CHECKING

from . import arguments, errors, signals

if TYPE_CHECKING:
  from collections.abc import Sequence

  from ..studies.scores.times import TrialTimes

SUMMARY = 'score submissions as AlgoPerf does'
USAGE = '[DIR] [flags]'
DESCRIPTION = (
  "Scores submissions by AlgoPerf's definition: times to the targets, medians "
  'over studies, and the area under the performance profile up to four times '
  'the fastest. Scores are relative to the submissions that are compared.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which logs, and where the picture goes."""
  group = parser.add_argument_group('score')
  group.add_argument(
    'folder',
    metavar='DIR',
    nargs='?',
    type=os.path.expanduser,
    help="Folder of the benchmark's logs, <submission>/study_<i>/"
    '<workload>_<framework>/trial_<j>, or one of recorded runs, with runs.csv. '
    'Default: the recorded runs that come with the project.',
  )
  group.add_argument(
    '--board',
    metavar='NAME',
    help='Which of the recorded runs are compared: v05 (2024), v06 (2025) or '
    'a100 (2026). Default: v05.',
  )
  group.add_argument(
    '--ruleset',
    choices=('self', 'external'),
    help='Ruleset of the recorded runs that are compared. Default: self.',
  )
  group.add_argument(
    '--out',
    metavar='PNG',
    type=os.path.expanduser,
    help='Picture of the performance profiles; an existing file is replaced.',
  )


def run(options: argparse.Namespace) -> int:
  """Scores, prints and draws; returns the exit status.

  Raises:
    SetupError: for bad input.
  """
  with errors.setup_phase():
    out = arguments.picture_path(options.out)
  with signals.ending_at_once():
    from ..studies.scores import text
  with errors.setup_phase():
    trials = _read(options)
  print('\n'.join(text.score_lines(trials)))
  if out is not None:
    from ..studies.scores import picture

    with errors.setup_phase():
      picture.save_profiles(out, text.entries(trials))
  return 0


def _read(options: argparse.Namespace) -> Sequence[TrialTimes]:
  from ..studies.real_runs import reading, scored
  from ..studies.scores import times

  folder = pathlib.Path(options.folder or reading.SHIPPED)
  if not folder.is_dir():
    raise ValueError(f'{folder}: there is no such folder.')
  if (folder / 'runs.csv').exists():
    board, ruleset = options.board or 'v05', options.ruleset or 'self'
    return scored.trial_times(reading.read_runs(folder), board, ruleset)
  if options.board or options.ruleset:
    raise ValueError(
      '--board and --ruleset choose among recorded runs, but '
      f'{folder} has no runs.csv.'
    )
  return times.read_trials(folder)
