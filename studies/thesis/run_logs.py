"""Folders of logs that belong to runs of the thesis' registry.

A run is recognised by its settings in schedule_params.json, whoever trained it:
this package's runner or the benchmark's. One of ours counts if it has come to
the end of its cycles and was evaluated at the workload's own steps, so that all
seeds can be laid side by side; one of the benchmark's is taken as it is.
Finished runs are kept in folders

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...experiments.settings import RUNS
from ...mini_algoperf import files, logger, metadata
from ...mini_algoperf.workloads import WORKLOADS
from ...training.configuration import CONFIGURATION, read_configuration
from ...training.events import CYCLES, read_events
from ..runs.table import FLAGS, run_seed

KEPT_FILES = (
  FLAGS,
  'meta_data_0.json',
  logger.EVAL_MEASUREMENTS,
  CONFIGURATION,
  CYCLES,
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
      settings, of other submissions and of runs that don't count are passed
      over.

  Returns:
    The logs, by workload, run and seed. Of a run that is there twice the one
    that is found first counts.

  Raises:
    ValueError: if a root is not a folder.
  """
  found: dict[Job, pathlib.Path] = {}
  for root in roots:
    if not root.is_dir():
      raise ValueError(f'{root} must be a folder of logs; there is none.')
    for path in sorted(root.rglob(CONFIGURATION)):
      # Runs under way are in hidden folders.
      hidden = any(p.startswith('.') for p in path.relative_to(root).parts)
      job = None if hidden else _read_job(path.parent)
      if job is not None:
        found.setdefault(job, path.parent)
  return [RunLog(job, found[job]) for job in sorted(found)]


def _read_job(log_dir: pathlib.Path) -> Job | None:
  """What was run in a folder; None if it isn't a run that counts."""
  if not all((log_dir / name).exists() for name in KEPT_FILES):
    return None
  try:
    step_hint, params = read_configuration(log_dir)
    flags = files.read_json(log_dir / FLAGS)
    meta = files.read_json(metadata.meta_data_path(log_dir))
    name = flags['workload']
  except (ValueError, KeyError, TypeError):
    return None  # another project's, or an older version's
  if params not in _NAMES:
    return None
  if name in WORKLOADS and not _is_comparable(log_dir, name, step_hint, flags):
    return None
  return Job(name, _NAMES[params], run_seed(meta, flags) or 0)


def _is_comparable(
  log_dir: pathlib.Path,
  workload: str,
  step_hint: int,
  flags: Mapping[str, object],
) -> bool:
  """Whether a run of ours has finished, at the workload's own steps."""
  return (
    step_hint == WORKLOADS[workload].step_hint
    and flags.get('eval_by', 'steps') == 'steps'
    and not flags.get('eval_every')
    and any(row['event'] == 'finish' for row in read_events(log_dir))
  )


def missing_jobs(wanted: Iterable[Job], logs: Iterable[RunLog]) -> list[Job]:
  """The jobs that have no logs, in the order in which they are wanted."""
  there = {log.job for log in logs}
  return [job for job in dict.fromkeys(wanted) if job not in there]


def check_places(jobs: Iterable[Job], root: pathlib.Path) -> None:
  """Makes sure that the logs of jobs can be kept once they are trained.

  Args:
    jobs: runs to train.
    root: folder of kept logs.

  Raises:
    ValueError: if something else is where a job's logs belong.
  """
  for job in jobs:
    path = kept_path(root, job)
    if path.exists():
      raise ValueError(
        f'{path} has no finished logs of this run: remove it or give another '
        'folder as --runs.'
      )


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
  """The roots, each followed by a folder per archive of logs in it.

  The folders are there for as long as the context lasts. Other zip files are
  left alone.

  Raises:
    ValueError: if an archive cannot be read.
  """
  with tempfile.TemporaryDirectory() as temporary:
    folders = []
    for root in roots:
      folders.append(root)
      for archive in sorted(root.glob('*.zip')):
        folder = pathlib.Path(temporary) / str(len(folders))
        if _unpack(archive, folder):
          folders.append(folder)
    yield folders


def _unpack(archive: pathlib.Path, folder: pathlib.Path) -> bool:
  """Whether it was an archive of logs."""
  try:
    with zipfile.ZipFile(archive) as packed:
      if not any(n.endswith(CONFIGURATION) for n in packed.namelist()):
        return False
      packed.extractall(folder)
  except zipfile.BadZipFile as e:
    raise ValueError(f'{archive} is not a zip archive of logs: {e}') from e
  return True
