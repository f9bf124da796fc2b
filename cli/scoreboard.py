"""`soft-reset scoreboard`: the page that compares submissions."""

from __future__ import annotations

import argparse
import os
import pathlib

from . import arguments, errors, signals

SUMMARY = 'write the scoreboard of a study'
USAGE = '--logs=DIR[,DIR] --out=FILE [flags]'
DESCRIPTION = (
  'Compares submissions by the logs of `soft-reset study`, or archives of '
  'them, and writes a page with its picture, scoreboard.png.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which logs, and where the page goes."""
  group = parser.add_argument_group('scoreboard')
  group.add_argument(
    '--logs',
    metavar='DIR,DIR',
    help='Folders of studies, or of their archives; a run that is in several '
    'counts as the last one has it. Required.',
  )
  group.add_argument(
    '--out',
    metavar='FILE',
    type=os.path.expanduser,
    help='The page, FILE.md; an existing file is replaced. Required.',
  )
  group.add_argument(
    '--reading',
    metavar='FILE',
    type=os.path.expanduser,
    help='Markdown file with an interpretation, put at the top of the page.',
  )
  group.add_argument(
    '--pack',
    metavar='DIR',
    type=os.path.expanduser,
    help='Also write the runs to this folder, one archive per condition.',
  )


def run(options: argparse.Namespace) -> int:
  """Reads, compares and writes; returns the exit status.

  Raises:
    SetupError: for bad input.
  """
  for name in ('logs', 'out'):
    if getattr(options, name) is None:
      options.parser.error(f'--{name} is missing')
  out = pathlib.Path(options.out)
  with signals.ending_at_once():
    from ..mini_algoperf import files
    from ..studies.board import conditions, logs, scoreboard, standings
    from ..studies.scores import picture
  with errors.setup_phase():
    if out.suffix != '.md':
      raise ValueError(f'--out={out} must end in .md.')
    roots = [
      pathlib.Path(os.path.expanduser(d)) for d in options.logs.split(',')
    ]
    runs = logs.read_all(roots)
    reading = ''
    if options.reading:
      reading = pathlib.Path(options.reading).read_text(encoding='utf-8')
    page = scoreboard.page(runs, reading)
    files.write_whole(out, page)
    scored = [
      r for r in logs.comparable(runs) if r.condition in conditions.SCORED
    ]
    overall = standings.as_entries(standings.standings(scored, draws=1))
    picture.save_profiles(out.with_name(scoreboard.PICTURE), overall)
    if options.pack:
      for path in logs.pack(runs, pathlib.Path(options.pack)):
        print(path)
  print(out)
  return 0
