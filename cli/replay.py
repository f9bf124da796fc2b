"""`soft-reset replay`: judges switching rules and races on recorded runs."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from typing import TYPE_CHECKING

from . import arguments, chains, errors, signals

if TYPE_CHECKING:
  from collections.abc import Sequence
  from typing import Any

  from ..studies.real_runs.reading import RecordedRun
  from ..studies.replay.table import PolicyRuns

SUMMARY = 'judge switching rules and races on runs of the real benchmark'
USAGE = '[flags]'
DESCRIPTION = (
  'Judges policies on recorded runs of the real benchmark: the trials of a '
  'study follow one another, each until a switching rule ends it, or compete '
  'in a race. What counts is how many targets are reached within a budget, how '
  'soon, and how many runs are ended that would have reached theirs. '
  'studies/real_runs/README.md has the details.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which policies, on which runs, and what to show."""
  group = parser.add_argument_group('replay')
  group.add_argument(
    '--policy',
    metavar='NAME_OR_JSON',
    action='append',
    help='A switching rule such as progress or \'{"name": "progress", '
    '"fair": 0.2}\', a race such as \'{"name": "race", "rounds": [0.04, 0.08], '
    '"keep": [3], "switching": "progress"}\', or never (ends no run) or '
    'oracle (knows the future); may be given several times. Default: never, '
    'thesis, floor, progress, race and oracle.',
  )
  _add_output_flags(group)
  chains.add_flags(parser)
  _add_run_flags(parser)


def _add_output_flags(group: argparse._ArgumentGroup) -> None:
  group.add_argument(
    '--budget',
    metavar='FACTOR',
    type=arguments.factor,
    action='append',
    help='Budget as a multiple of the maximum runtime; may be given several '
    'times. Default: 1.5 and 3.',
  )
  group.add_argument(
    '--by',
    choices=('workload', 'submission'),
    help='Shows the figures of each workload or submission.',
  )
  group.add_argument(
    '--json',
    action=arguments.Switch,
    default=False,
    help='Prints a list of JSON objects instead of the table.',
  )
  group.add_argument(
    '--out',
    metavar='PNG',
    type=os.path.expanduser,
    help='Picture of what the policies reach within each budget, and of the '
    'progress of all runs; an existing file is replaced.',
  )
  _add_other_tables(group)


def _add_other_tables(group: argparse._ArgumentGroup) -> None:
  in_place = group.add_mutually_exclusive_group()
  in_place.add_argument(
    '--costs',
    action=arguments.Switch,
    default=False,
    help='Instead of the table: how races change the cases whose first trial '
    'reaches its target under their switching rule (good cases), and the '
    'others, compared with that rule on one trial after the other; and the '
    'share of good cases below which the race reaches more targets, or is '
    'faster.',
  )
  in_place.add_argument(
    '--left_out',
    choices=('workload', 'submission'),
    help='Instead of the table: the results on each workload or submission of '
    'the policy that reaches most on all others, and of all together.',
  )


def _add_run_flags(parser: arguments.Parser) -> None:
  group = parser.add_argument_group('runs')
  group.add_argument(
    '--runs',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder with runs.csv, evaluations.npz and workloads.csv. Default: '
    'the runs that come with the project.',
  )
  group.add_argument(
    '--logs',
    metavar='DIR',
    type=os.path.expanduser,
    help="Folder of the benchmark's logs instead of --runs, with "
    '<submission>/study_<i>/<workload>_<framework>/trial_<j> somewhere below.',
  )


def run(options: argparse.Namespace) -> int:
  """Judges, prints and draws; returns the exit status.

  Raises:
    SetupError: for bad input.
  """
  with signals.ending_at_once():
    from ..studies.replay import policies, table
  with errors.setup_phase():
    chains.refuse_without(options)
    runs = _read_runs(options)
  if chains.wanted(options):
    return chains.run(options, runs)
  with errors.setup_phase():
    texts = options.policy or policies.BUILT_IN
    wanted = [policies.read_policy(text) for text in dict.fromkeys(texts)]
    out = arguments.picture_path(options.out)
    shown = table.judge(runs, wanted)
    objects, lines = _figures(options, shown)
  print(json.dumps(objects, indent=2) if options.json else '\n'.join(lines))
  if out is not None:
    from ..studies.replay import picture

    with errors.setup_phase():
      picture.save_replay(out, shown)
  return 0


def _figures(
  options: argparse.Namespace, shown: Sequence[PolicyRuns]
) -> tuple[list[dict[str, Any]], list[str]]:
  """The requested figures, as objects and as lines."""
  from ..studies.replay import costs, left_out, table

  budgets, by = sorted(set(options.budget or table.BUDGETS)), options.by
  if options.left_out:
    found = left_out.judge_left_out(shown, budgets, options.left_out)
    kind, by = left_out, options.left_out
  elif options.costs:
    found = [row for one in shown for row in costs.costs(one, budgets, by)]
    kind = costs
  else:
    found = [row for one in shown for row in table.figures(one, budgets, by)]
    kind = table
  return kind.as_objects(found, by), kind.text_lines(found, by)


def _read_runs(options: argparse.Namespace) -> Sequence[RecordedRun]:
  from ..studies.real_runs import logs, reading

  if options.runs and options.logs:
    raise ValueError('give either --runs or --logs, not both.')
  folder = pathlib.Path(options.runs or options.logs or reading.SHIPPED)
  if not folder.is_dir():
    flag = 'runs' if options.runs else 'logs'
    raise ValueError(f'--{flag}={folder}: there is no such folder.')
  return (logs.read_logs if options.logs else reading.read_runs)(folder)
