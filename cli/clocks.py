"""`soft-reset clocks`: does a run end in time, by the clocks of recorded runs?"""

from __future__ import annotations

import argparse
import json
import os
import pathlib

from . import arguments, errors, signals

SUMMARY = 'compare the horizon `time` with recorded clocks'
USAGE = '[DIR] [flags]'
DESCRIPTION = (
  'Replays runs on the clocks of recorded ones, and shows how often the '
  'annealed model is evaluated within the budget and how much of the budget is '
  "then left. Budgets are each run's own end and those of the rulesets; the "
  'horizon `steps`, which only counts steps, is shown for comparison. '
  'studies/clocks/RESULTS.md has the details.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which runs, and which horizon."""
  group = parser.add_argument_group('clocks')
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
    '--horizon',
    metavar='NAME_OR_JSON',
    default='time',
    help='The horizon, such as \'{"name": "time", "margin": 0.2}\'.',
  )


def run(options: argparse.Namespace) -> int:
  """Judges the runs and prints; returns the exit status.

  Raises:
    SetupError: for bad input.
  """
  with signals.ending_at_once():
    from ..control.horizons import HORIZONS
    from ..studies.clocks import text
    from ..studies.real_runs import logs, reading
  with errors.setup_phase():
    setting = HORIZONS.read('--horizon', _parsed(options.horizon))
    runs = logs.read_any(pathlib.Path(options.folder or reading.SHIPPED))
    rows = text.judge(runs, setting)
  print('\n'.join(text.lines(runs, rows)))
  return 0


def _parsed(value: str) -> object:
  if not value.lstrip().startswith('{'):
    return value
  try:
    return json.loads(value)
  except json.JSONDecodeError as e:
    raise ValueError(f'--horizon={value} is not valid JSON: {e}.') from e
