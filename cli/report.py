"""`soft-reset report`: one page about one or several runs."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
from collections.abc import Iterable

from . import arguments, errors, signals
from .plot import find_trials

SUMMARY = 'write a page about runs, to be opened in a browser'
USAGE = 'DIR… [flags]'
DESCRIPTION = (
  'Writes one HTML page about all trials in the folders, of this runner or the '
  "benchmark's, also while they are running: metric against target, cycles "
  'with their rates, events with their reasons, tau, settings. It needs no '
  'network. Losses and gradients are in TensorBoard.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: the folders, and the file."""
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
    help='File to write.',
  )
  parser.add_argument(
    '--overwrite',
    action=arguments.Switch,
    default=False,
    help='Replace an existing file of that name.',
  )


def run(options: argparse.Namespace) -> int:
  """Writes the page and prints its name; returns the exit status.

  Raises:
    SetupError: if there is no trial, its logs are damaged, or the page would
      replace a file.
  """
  with errors.setup_phase():
    out = _check_out(options.out, options.overwrite)
    trials = _trials(options.folders)
  with signals.ending_at_once():
    from ..studies.report import page
  with errors.setup_phase():
    page.save_page(trials, out)
  print(out)
  return 0


def _trials(folders: Iterable[str]) -> list[pathlib.Path]:
  """All trials, each once, in the order of the folders, trial_2 before _10."""
  found = [
    trial
    for folder in folders
    for trial in sorted(find_trials(pathlib.Path(folder)), key=_by_numbers)
  ]
  return list({trial.resolve(): trial for trial in found}.values())


def _by_numbers(path: pathlib.Path) -> list[tuple[int, str]]:
  words = re.findall(r'\d+|\D+', str(path))
  return [(int(w) if w.isdecimal() else -1, w) for w in words]


def _check_out(name: str, overwrite: bool) -> pathlib.Path:
  path = pathlib.Path(name)
  if path.suffix.lower() not in ('.html', '.htm'):
    raise ValueError(f'--out={path} must end in .html.')
  if not path.parent.is_dir():
    raise ValueError(f'--out={path}: there is no folder {path.parent}.')
  if path.is_dir():
    raise ValueError(f'--out={path} is a folder: give a file.')
  if path.exists() and not overwrite:
    raise ValueError(
      f'--out={path} exists: give another name, or --overwrite to replace it.'
    )
  return path
