"""`soft-reset study`: many submissions, workloads, conditions and seeds."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
from typing import TYPE_CHECKING

from . import arguments, errors, signals

if TYPE_CHECKING:
  from collections.abc import Sequence

  from ..studies.board.run import Task

SUMMARY = 'compare submissions under many conditions'
USAGE = '--out=DIR [flags]'
DESCRIPTION = (
  'Trains submissions on shortened small workloads under conditions that real '
  'logs show. Logs go to DIR/<condition>/<submission>/study_<seed>/ in the '
  "benchmark's layout. Runs that are there are not trained again: the same "
  'command goes on where it was interrupted. A run that breaks is recorded.'
)
_WORKLOADS = 'digits,molecules,text,translation'
_FACTORS = 'tuned@8,tuned@16,tuned@4'


def add_flags(parser: arguments.Parser) -> None:
  """What is compared, and where it runs."""
  group = parser.add_argument_group('what is compared')
  group.add_argument(
    '--submissions',
    metavar='A,B',
    help='Names of rivals, thesis, submission (the one in force), or NAME=FILE. '
    'Default: all that have a name.',
  )
  group.add_argument(
    '--workloads', metavar='A,B', default=_WORKLOADS, help='Small workloads.'
  )
  group.add_argument(
    '--conditions',
    metavar='A,B',
    default='tuned,near,slow,hot,cold',
    help='tuned, near, slow, hot, cold or budget3; with @2 behind it, learning '
    'rates act doubled.',
  )
  group.add_argument(
    '--seeds', metavar='A-B', default='1-10', help='Seeds: 1-10, or 3,5,8.'
  )
  group.add_argument(
    '--full',
    action=arguments.Switch,
    default=False,
    help="Keep the workloads' own lengths.",
  )
  group.add_argument(
    '--published',
    action=arguments.Switch,
    default=False,
    help='Published learning rates, without the factor of each submission.',
  )
  _add_how(parser.add_argument_group('how'))


def _add_how(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--out',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder of the logs. Required, but for --measure_targets.',
  )
  group.add_argument(
    '--jobs',
    metavar='N',
    type=arguments.whole(1),
    default=1,
    help='Runs at a time, a core each; with --slurm, array tasks.',
  )
  group.add_argument(
    '--slurm',
    metavar='PARTITION',
    help='Hand the runs to Slurm; "local" takes processes on this machine.',
  )
  group.add_argument(
    '--retry',
    action=arguments.Switch,
    default=False,
    help='Train runs that broke again.',
  )
  group.add_argument(
    '--choose_factors',
    action=arguments.Switch,
    default=False,
    help=f'Train under {_FACTORS} with published rates in place of '
    '--conditions, and write down the best factor of each submission.',
  )
  group.add_argument(
    '--measure_targets',
    action=arguments.Switch,
    default=False,
    help='Find the targets of --workloads in place of all that.',
  )


def run(options: argparse.Namespace) -> int:
  """Trains what is missing; returns the exit status.

  Raises:
    SetupError: for bad input, before the first run.
    RunFailed: if a Slurm task fails.
  """
  with signals.ending_at_once():
    from ..studies.board import factors, study
  if options.measure_targets:
    return _measure_targets(options)
  if options.out is None:
    options.parser.error('--out is missing: give a folder')
  root = pathlib.Path(options.out)
  with errors.setup_phase():
    jobs = _jobs(options)
    root.mkdir(parents=True, exist_ok=True)
  left = study.missing(jobs, root, options.retry)
  print(f'{len(jobs)} runs, {len(left)} to train.', file=sys.stderr)
  _train(options, jobs, root)
  failed = study.failures(jobs, root)
  if failed:
    print(f'{len(failed)} runs broke: {failed[0]}', file=sys.stderr)
  if options.choose_factors:
    with errors.setup_phase():
      for name, factor in factors.write(root).items():
        print(f'{name}: {factor:g}')
  return 0


def _train(
  options: argparse.Namespace, jobs: Sequence[Task], root: pathlib.Path
) -> None:
  from ..studies import slurm
  from ..studies.board import run as board_run
  from ..studies.board import study

  if options.slurm is None:
    study.train_all(jobs, root, options.jobs, options.retry)
    return
  is_local = options.slurm == 'local'
  more = {} if is_local else {'slurm_partition': options.slurm}
  with errors.setup_phase():
    slurm.train_all(
      study.missing(jobs, root, options.retry),
      root,
      options.jobs,
      board_run.train,
      cluster='local' if is_local else None,
      **more,
    )


def _jobs(options: argparse.Namespace) -> list[Task]:
  """All runs that the options name.

  Raises:
    ValueError: for a name or a seed that there isn't, or a missing target.
  """
  from ..studies.board import entries, stand_in
  from ..studies.board.conditions import get_condition
  from ..studies.board.run import order

  published = options.published or options.choose_factors
  names = options.submissions or ','.join(entries.known_paths())
  chosen = [entries.get_entry(name, published) for name in names.split(',')]
  conditions = _FACTORS if options.choose_factors else options.conditions
  conditions, workloads = conditions.split(','), options.workloads.split(',')
  for condition in conditions:
    for workload in workloads:
      stand_in.make_workload(workload, get_condition(condition), options.full)
  seeds = read_seeds(options.seeds)
  return order(chosen, workloads, conditions, seeds, options.full)


def read_seeds(text: str) -> list[int]:
  """Seeds as the command line gives them: '1-3,7'.

  Raises:
    ValueError: for anything else.
  """
  seeds: list[int] = []
  for part in text.split(','):
    found = re.fullmatch(r'(\d+)(?:-(\d+))?', part)
    if found is None:
      raise ValueError(f'--seeds={text}: must be like 1-10 or 3,5,8.')
    first, last = int(found[1]), int(found[2] or found[1])
    seeds.extend(range(first, last + 1))
  if not seeds:
    raise ValueError(f'--seeds={text}: there is no seed from high to low.')
  return seeds


def _measure_targets(options: argparse.Namespace) -> int:
  from ..studies.board import measure_targets

  for name in options.workloads.split(','):
    with errors.setup_phase():
      found = measure_targets.measure(name, options.full)
      measure_targets.write(name, options.full, found)
  return 0
