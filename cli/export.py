"""`soft-reset export`: the folder to submit to the benchmark."""

from __future__ import annotations

import argparse
import keyword
import os
import pathlib
import re

from ..mini_algoperf.smoke_data import target_folder
from . import arguments, errors, handed_in, signals

SUMMARY = 'write the folder to submit to the benchmark'
USAGE = '--out=DIR [flags]'
DESCRIPTION = (
  'Writes DIR/self_tuning/NAME with what the benchmark imports, '
  "submission_info.yml and the licence, as the benchmark's checker and its "
  'submission_runner.py expect them. The settings are those in force, '
  'SCHEDULE_PARAMS in schedule_params.py.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: where to, for which ruleset, and under which name."""
  group = parser.add_argument_group('what is written')
  group.add_argument(
    '--out',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder to write; an existing one must be empty. Required.',
  )
  group.add_argument(
    '--name',
    metavar='NAME',
    help="Name of the submission's folder. Default: submission_folder in "
    'submission_info.yml.',
  )
  group.add_argument(
    '--tuning_ruleset',
    choices=tuple(handed_in.RULESETS),
    default='self',
    help='external adds tuning_search_space.json, and writes '
    'DIR/external_tuning/NAME.',
  )
  group.add_argument(
    '--experiments',
    action=arguments.Switch,
    default=False,
    help="Also write the thesis' experiments, each a submission that the "
    'runner takes by its path.',
  )


def run(options: argparse.Namespace) -> int:
  """Writes the folder; returns the exit status.

  Raises:
    SetupError: for bad input, or a folder that is not empty or not writable.
  """
  with errors.setup_phase(), signals.ending_at_once():
    folder = _free_folder(options.out)
    name = _usable_name(options.name)
  try:
    with target_folder.written_whole(folder) as temporary:
      handed_in.copy(
        temporary, options.tuning_ruleset, name, options.experiments
      )
  except OSError as e:
    raise errors.SetupError(errors.describe(e)) from e
  own = folder / handed_in.RULESETS[options.tuning_ruleset][0] / name
  count = sum(path.is_file() for path in own.rglob('*'))
  path = own.relative_to(folder.parent) / 'submission.py'
  print(
    f"{own}: {count} files. Copied to the benchmark's folder submissions/, its "
    f'runner takes:\n  --tuning_ruleset={options.tuning_ruleset} '
    f'--submission_path=submissions/{path}'
  )
  return 0


def _free_folder(out: str | None) -> pathlib.Path:
  if out is None:
    raise ValueError('--out is missing: give the folder to write.')
  folder = pathlib.Path(out).resolve()
  if folder.is_dir() and not any(folder.iterdir()):
    return folder
  if folder.exists():
    raise ValueError(
      f'--out={out} exists and is not an empty folder. Nothing is replaced: '
      'give another one, or remove it.'
    )
  return folder


def _usable_name(name: str | None) -> str:
  """The submission's folder name, which is part of its modules' names."""
  if name is None:
    return handed_in.name_in_form()
  if not re.fullmatch('[a-z][a-z0-9_]*', name) or keyword.iskeyword(name):
    raise ValueError(
      f'--name={name}: must be lower-case letters, digits and _, begin with a '
      'letter and be no Python keyword: it becomes part of module names.'
    )
  return name
