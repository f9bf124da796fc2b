"""`soft-reset smoke-data`: synthetic data for the real benchmark's runner."""

from __future__ import annotations

import contextlib
import importlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import flags

from ..mini_algoperf import files
from ..mini_algoperf.smoke_data import WORKLOADS, target_folder, tfds_files
from ..mini_algoperf.smoke_data.data_set import Sizes, SmokeData
from . import errors, flag_definitions, flag_parsing


class _Plan(NamedTuple):
  """A command line that was checked; nothing is written yet."""

  data: SmokeData
  folder: pathlib.Path
  record: dict[str, int | str]  # what the marker file says


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset smoke-data`.

  Raises:
    errors.SetupError: for bad input, a folder that is in use, or if TensorFlow
      is missing.
  """
  with (
    errors.setup_phase(),
    flag_parsing.parsed_flags(
      'soft-reset smoke-data', arguments, flag_definitions.SMOKE_DATA_FLAGS
    ) as values,
  ):
    plan = _make_plan(values)
    tfds = tfds_files.import_tfds()
  with _failures(), target_folder.written_whole(plan.folder) as folder:
    tfds_files.write(tfds, folder, plan.data)
    files.write_json(folder / target_folder.MARKER, plan.record)
  print(_summarise(plan))
  return 0


@contextlib.contextmanager
def _failures() -> Iterator[None]:
  """Says in one line that a disk is full; other errors would be bugs."""
  try:
    yield
  except OSError as e:
    raise errors.SetupError(str(e)) from e


def _make_plan(values: flags.FlagValues) -> _Plan:
  _require(values)
  folder = pathlib.Path(values.out).expanduser().resolve()
  target_folder.check_free(folder, values.overwrite)
  module = importlib.import_module(
    f'.smoke_data.{values.workload}', __package__
  )
  given = {'num_train': values.num_train, 'num_eval': values.num_eval}
  sizes = module.DEFAULT_SIZES._replace(
    **{name: size for name, size in given.items() if size is not None}
  )
  return _Plan(
    module.make_data(values.seed, sizes),
    folder,
    _record(values.workload, values.seed, sizes),
  )


def _require(values: flags.FlagValues) -> None:
  known = ', '.join(WORKLOADS)
  if values.workload is None:
    raise ValueError(f'--workload is missing: give one of {known}.')
  if values.workload not in WORKLOADS:
    raise ValueError(f'--workload={values.workload!r}: give one of {known}.')
  if values.out is None:
    raise ValueError('--out is missing: give the folder to write.')


def _record(workload: str, seed: int, sizes: Sizes) -> dict[str, int | str]:
  return {
    'what': 'synthetic data to try a submission with; scores mean nothing',
    'workload': workload,
    'seed': seed,
    **sizes._asdict(),
  }


def _summarise(plan: _Plan) -> str:
  paths = [path for path in plan.folder.rglob('*') if path.is_file()]
  megabytes = sum(path.stat().st_size for path in paths) / 1e6
  counts = ', '.join(
    f'{len(examples)} {split}'
    for data_set in plan.data.data_sets
    for split, examples in data_set.splits.items()
  )
  return (
    f'{plan.folder}: {counts}; {megabytes:.1f} MB. For the runner:\n'
    f'  --workload={plan.record["workload"]} --data_dir={plan.folder}'
  )
