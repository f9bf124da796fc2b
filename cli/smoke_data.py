"""`soft-reset smoke-data`: synthetic data for the real benchmark's runner."""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
from typing import NamedTuple

from ..mini_algoperf import files
from ..mini_algoperf.smoke_data import WORKLOADS, target_folder, tfds_files
from ..mini_algoperf.smoke_data.data_set import Sizes, SmokeData
from . import arguments, errors, signals

SUMMARY = "write synthetic data for the real benchmark's runner"
USAGE = '--workload=NAME --out=DIR [flags]'
DESCRIPTION = (
  'Writes a small synthetic data set in the format that the real benchmark '
  'reads, so that a submission can be tried with its submission_runner.py, '
  '--data_dir=DIR, before the data are downloaded. Both generations of the '
  "benchmark read it. Needs TensorFlow: pip install -e '.[smoke]'."
)


class NewData(NamedTuple):
  """What is to be written, and where; nothing is written yet."""

  data: SmokeData
  folder: pathlib.Path
  record: dict[str, int | str]  # what the marker file says


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which data, where to, and how many."""
  _add_place(parser.add_argument_group('what is written'))
  _add_size(parser.add_argument_group('examples'))


def _add_place(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--workload',
    metavar='NAME',
    help='Name of the workload: mnist, ogbg or wmt. Required.',
  )
  group.add_argument(
    '--out',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder to write; each workload needs its own. Required.',
  )
  group.add_argument(
    '--overwrite',
    action=arguments.Switch,
    default=False,
    help='Replace existing smoke data. Other files are never replaced.',
  )


def _add_size(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--seed',
    metavar='N',
    type=arguments.whole(0, 2**32 - 1),
    default=0,
    help='The same seed gives the same data.',
  )
  group.add_argument(
    '--num_train',
    metavar='N',
    type=arguments.whole(2, 10_000_000),
    help='Training examples of ogbg and wmt. Default: 2048 graphs, 4096 pairs.',
  )
  group.add_argument(
    '--num_eval',
    metavar='N',
    type=arguments.whole(2, 10_000_000),
    help='Validation and test examples of ogbg and wmt, each. Default: 512 '
    'graphs, 256 pairs.',
  )


def run(options: argparse.Namespace) -> int:
  """Writes the folder; returns the exit status.

  Raises:
    SetupError: for bad input, a folder that is in use or cannot be written, or
      if TensorFlow is missing.
  """
  with errors.setup_phase():
    new = _make_data(options)
    with signals.ending_at_once():
      tfds = tfds_files.import_tfds()
  # Of TFDS' errors, only those of the disk are the user's to fix.
  try:
    with target_folder.written_whole(new.folder) as folder:
      tfds_files.write(tfds, folder, new.data)
      files.write_json(folder / target_folder.MARKER, new.record)
  except OSError as e:
    raise errors.SetupError(errors.describe(e)) from e
  print(_summarise(new))
  return 0


def _make_data(options: argparse.Namespace) -> NewData:
  _require(options)
  folder = pathlib.Path(options.out).resolve()
  target_folder.check_free(folder, options.overwrite)
  module = importlib.import_module(
    f'...mini_algoperf.smoke_data.{options.workload}', __name__
  )
  given = {'num_train': options.num_train, 'num_eval': options.num_eval}
  sizes = module.DEFAULT_SIZES._replace(
    **{name: size for name, size in given.items() if size is not None}
  )
  return NewData(
    module.make_data(options.seed, sizes),
    folder,
    _record(options.workload, options.seed, sizes),
  )


def _require(options: argparse.Namespace) -> None:
  known = ', '.join(WORKLOADS)
  if options.workload is None:
    raise ValueError(f'--workload is missing: give one of {known}.')
  if options.workload not in WORKLOADS:
    raise ValueError(f'--workload={options.workload!r}: give one of {known}.')
  if options.out is None:
    raise ValueError('--out is missing: give the folder to write.')


def _record(workload: str, seed: int, sizes: Sizes) -> dict[str, int | str]:
  return {
    'what': 'synthetic data to try a submission with; scores mean nothing',
    'workload': workload,
    'seed': seed,
    **sizes._asdict(),
  }


def _summarise(new: NewData) -> str:
  paths = [path for path in new.folder.rglob('*') if path.is_file()]
  megabytes = sum(path.stat().st_size for path in paths) / 1e6
  counts = ', '.join(
    f'{len(examples)} {split}'
    for data_set in new.data.data_sets
    for split, examples in data_set.splits.items()
  )
  return (
    f'{new.folder}: {counts}; {megabytes:.1f} MB. For the runner:\n'
    f'  --workload={new.record["workload"]} --data_dir={new.folder}'
  )
