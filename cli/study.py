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
  'Trains submissions on shortened small workloads, under conditions seen in '
  'real logs. The logs go to DIR/<condition>/<submission>/study_<seed>/ in the '
  "benchmark's layout. Runs that are already there are not trained again, so "
  'the same command continues a study that was interrupted. A run that breaks '
  'is recorded, and the others go on.'
)
_WORKLOADS = 'digits,molecules,text,translation'
_FACTORS = 'tuned@8,tuned@16,tuned@4,tuned@2'


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: what is compared, and where it runs."""
  group = parser.add_argument_group('what is compared')
  group.add_argument(
    '--submissions',
    metavar='A,B',
    help='Names of rivals, thesis, submission (this project, with the settings '
    'in force), or NAME=FILE for your own. Default: all but your own.',
  )
  group.add_argument(
    '--workloads',
    metavar='A,B',
    default=_WORKLOADS,
    help='Small workloads, or file.py:ClassName.',
  )
  group.add_argument(
    '--conditions',
    metavar='A,B',
    default='tuned,near,slow,hot,cold',
    help='tuned, near, slow, hot, cold or budget3; @2 after a name makes '
    'learning rates act as if they were doubled.',
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
    help="Use the published learning rates without each submission's factor.",
  )
  _add_how(parser.add_argument_group('how'))


def _add_how(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--out',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder of the logs. Required unless --measure_targets is given.',
  )
  group.add_argument(
    '--jobs',
    metavar='N',
    type=arguments.whole(1),
    default=1,
    help='Runs at a time, one core each; with --slurm, the number of tasks.',
  )
  group.add_argument(
    '--slurm',
    metavar='PARTITION',
    help='Hand the runs to Slurm as a job array; "local" tries that out with '
    'processes on this machine.',
  )
  group.add_argument(
    '--retry',
    action=arguments.Switch,
    default=False,
    help='Train again the runs that broke.',
  )
  _add_preparing(group)


def _add_preparing(group: argparse._ActionsContainer) -> None:
  """Adds the flags for what is done once, before submissions are compared."""
  group.add_argument(
    '--choose_factors',
    action=arguments.Switch,
    default=False,
    help=f'Instead of --conditions, train under {_FACTORS} with published '
    "rates, and write each submission's best factor to factors.json in "
    'studies/board, replacing those there.',
  )
  group.add_argument(
    '--measure_targets',
    action=arguments.Switch,
    default=False,
    help='Compare nothing; only find the targets of --workloads '
    'and write them to targets.json in studies/board, replacing theirs.',
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
    ValueError: for a name or seed that is unknown or given twice, or a missing
      target.
  """
  from ..studies.board import entries, stand_in
  from ..studies.board.conditions import get_condition
  from ..studies.board.run import order

  published = options.published or options.choose_factors
  names = options.submissions or ','.join(entries.known_paths())
  chosen = [entries.get_entry(name, published) for name in names.split(',')]
  _refuse_doubles('submissions', [entry.name for entry in chosen])
  conditions = _FACTORS if options.choose_factors else options.conditions
  conditions, workloads = conditions.split(','), options.workloads.split(',')
  _refuse_doubles('conditions', conditions)
  _refuse_doubles('workloads', workloads)
  for condition in conditions:
    for workload in workloads:
      stand_in.make_workload(workload, get_condition(condition), options.full)
  seeds = read_seeds(options.seeds)
  return order(chosen, workloads, conditions, seeds, options.full)


def _refuse_doubles(flag: str, given: Sequence[object]) -> None:
  # Two runs of one name would write into the same folder.
  for one in given:
    if given.count(one) > 1:
      raise ValueError(f'--{flag}: {one} is given twice; give it once.')


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
    if first > last:
      raise ValueError(f'--seeds={text}: {part} must go from low to high.')
  _refuse_doubles('seeds', seeds)
  return seeds


def _measure_targets(options: argparse.Namespace) -> int:
  from ..studies.board import measure_targets

  for name in options.workloads.split(','):
    with errors.setup_phase():
      found = measure_targets.measure(name, options.full)
      measure_targets.write(name, options.full, found)
  return 0
