"""Folders of logs that belong to runs of the thesis' registry.

A run is recognised by its settings in schedule_params.json, whoever trained it:
this package's runner or the benchmark's. Finished runs are kept in folders

  <root>/<workload>/<run>/seed_<n>/

with the files that pictures and measurements need, or packed, all seeds of a
run together, as <root>/<workload>_<run>.zip.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import records
from ..experiments.settings import RUNS
from . import files, logger, metadata

KEPT_FILES = (
  'flags_0.json',
  'meta_data_0.json',
  logger.EVAL_MEASUREMENTS,
  records.CONFIGURATION,
  records.CYCLES,
)
_NAMES = {params: name for name, params in RUNS.items()}
# The earliest date that a zip archive can hold: the same runs, the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


class Job(NamedTuple):
  """One training run."""

  workload: str
  run: str  # a key of RUNS
  seed: int


class RunLog(NamedTuple):
  """A folder of logs and what was run in it."""

  job: Job
  log_dir: pathlib.Path


def find_logs(roots: Iterable[pathlib.Path]) -> list[RunLog]:
  """The registry's runs among the logs below some folders.

  Args:
    roots: folders, searched with all that is below them; logs of other
      settings or of other submissions are passed over.

  Returns:
    The logs, by workload, run and seed. Of a run that is there twice the one
    that is found first counts.

  Raises:
    ValueError: if a root is not a folder, or a file of logs is not readable.
  """
  found: dict[Job, pathlib.Path] = {}
  for root in roots:
    if not root.is_dir():
      raise ValueError(f'{root} must be a folder of logs; there is none.')
    for path in sorted(root.rglob(records.CONFIGURATION)):
      # Runs under way are in hidden folders.
      hidden = any(p.startswith('.') for p in path.relative_to(root).parts)
      job = None if hidden else _read_job(path.parent)
      if job is not None:
        found.setdefault(job, path.parent)
  return [RunLog(job, found[job]) for job in sorted(found)]


def _read_job(log_dir: pathlib.Path) -> Job | None:
  """What was run in a folder; None if the registry doesn't have it."""
  _, params = records.read_configuration(log_dir)
  flags_path = log_dir / 'flags_0.json'
  meta_path = metadata.meta_data_path(log_dir)
  if params not in _NAMES or not flags_path.exists() or not meta_path.exists():
    return None
  flags = files.read_json(flags_path)
  # The benchmark of 2024 writes a seed that it has drawn into the meta data.
  seed = files.read_json(meta_path).get('rng_seed', flags.get('rng_seed'))
  return Job(flags['workload'], _NAMES[params], int(seed or 0))


def missing_jobs(wanted: Iterable[Job], logs: Iterable[RunLog]) -> list[Job]:
  """The jobs that have no logs, in the order in which they are wanted."""
  there = {log.job for log in logs}
  return [job for job in dict.fromkeys(wanted) if job not in there]


def kept_path(root: pathlib.Path, job: Job) -> pathlib.Path:
  """Where a finished run's files are kept."""
  return root / job.workload / job.run / f'seed_{job.seed}'


def keep(log_dir: pathlib.Path, root: pathlib.Path, job: Job) -> None:
  """Copies what is needed of a finished run's files, all of it or nothing.

  Args:
    log_dir: the trial's folder.
    root: folder of kept logs.
    job: the run, which must not be there yet.
  """
  path = kept_path(root, job)
  path.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=path.parent, prefix='.') as temporary:
    copy = pathlib.Path(temporary) / path.name
    copy.mkdir()
    for name in KEPT_FILES:
      shutil.copyfile(log_dir / name, copy / name)
    os.rename(copy, path)


def pack(logs: Sequence[RunLog], root: pathlib.Path) -> list[pathlib.Path]:
  """Writes <workload>_<run>.zip for all runs; returns the files.

  Args:
    logs: runs.
    root: folder of the archives, made if needed; older ones of the same runs
      are replaced.
  """
  root.mkdir(parents=True, exist_ok=True)
  groups: dict[str, list[RunLog]] = {}
  for log in logs:
    groups.setdefault(f'{log.job.workload}_{log.job.run}', []).append(log)
  paths = []
  for name, group in groups.items():
    paths.append(root / f'{name}.zip')
    with tempfile.TemporaryDirectory() as temporary:
      archive = pathlib.Path(temporary) / 'logs.zip'
      _write_archive(archive, group)
      files.write_whole(paths[-1], archive.read_bytes())
  return paths


def _write_archive(path: pathlib.Path, logs: Sequence[RunLog]) -> None:
  with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as out:
    for log in logs:
      for name in KEPT_FILES:
        entry = zipfile.ZipInfo(f'seed_{log.job.seed}/{name}', _DATE)
        entry.compress_type = zipfile.ZIP_DEFLATED
        out.writestr(entry, (log.log_dir / name).read_bytes())


@contextlib.contextmanager
def unpacked(roots: Iterable[pathlib.Path]) -> Iterator[list[pathlib.Path]]:
  """The roots, and the archives in them as folders for as long as it lasts.

  Raises:
    ValueError: if an archive cannot be read.
  """
  roots = list(roots)
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    for archive in [path for root in roots for path in root.glob('*.zip')]:
      try:
        shutil.unpack_archive(archive, folder / archive.stem)
      except (shutil.ReadError, zipfile.BadZipFile) as e:
        raise ValueError(f'{archive} is not a zip archive of logs: {e}') from e
    yield [*roots, folder]
