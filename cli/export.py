"""`soft-reset export`: the folder that is handed in to the benchmark."""

from __future__ import annotations

import argparse
import keyword
import os
import pathlib
import re

from ..mini_algoperf.smoke_data import target_folder
from . import arguments, errors, handed_in, signals

SUMMARY = 'write the folder that is handed in to the benchmark'
USAGE = '--out=DIR [flags]'
DESCRIPTION = (
  'Writes DIR/self_tuning/NAME with what the benchmark imports, '
  "submission_info.yml and the licence: what the benchmark's checker wants, for "
  'its submission_runner.py. The settings are those in force, SCHEDULE_PARAMS in '
  'schedule_params.py.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Where to, for which ruleset, and under which name."""
  group = parser.add_argument_group('what is written')
  group.add_argument(
    '--out',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder to write; one that is there must be empty. Required.',
  )
  group.add_argument(
    '--name',
    metavar='NAME',
    help="The submission's folder in it. Default: the submission_folder of "
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
    help="Add the thesis' experiments, each a submission that the runner takes "
    'by its path.',
  )


def run(options: argparse.Namespace) -> int:
  """Writes the folder; returns the exit status.

  Raises:
    SetupError: for bad input, a folder that is in use or cannot be written.
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
    f"{own}: {count} files. In the benchmark's folder submissions/, for its "
    f'runner:\n  --tuning_ruleset={options.tuning_ruleset} '
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
      f'--out={out}: it is there already and not an empty folder. Nothing is '
      'replaced: give another one, or remove it.'
    )
  return folder


def _usable_name(name: str | None) -> str:
  """The submission's folder, which is a part of its modules' names."""
  if name is None:
    return handed_in.name_in_form()
  if not re.fullmatch('[a-z][a-z0-9_]*', name) or keyword.iskeyword(name):
    raise ValueError(
      f'--name={name}: give lower-case letters, digits and _, a letter first '
      'and no word of Python: it becomes part of the names of modules.'
    )
  return name
