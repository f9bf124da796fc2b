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
import functools
import io
import os
import pathlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax

from ...mini_algoperf import files, logger, metadata
from ...mini_algoperf.workloads import WORKLOADS
from .. import workers
from ..errors import RunFailed
from ..paths import META_DATA, check_file, read_object
from ..plans import CONFIGURATION, CYCLES
from ..run_files import FLAGS, read_log, run_seed
from . import registry

KEPT_FILES = (FLAGS, META_DATA, logger.EVAL_MEASUREMENTS, CONFIGURATION, CYCLES)
# The earliest date that a zip archive can hold: the same runs, the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


Command = Callable[[Sequence[str]], int]


class Job(NamedTuple):
  """One training run."""

  workload: str
  run: str  # a key of RUNS
  seed: int

  @property
  def title(self) -> str:
    """A name for progress bars and messages."""
    return f'{self.workload} {self.run} {self.seed}'


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
  if not all((log_dir / name).is_file() for name in KEPT_FILES):
    return None
  try:
    found = registry.recognise(log_dir)
    flags = read_object(log_dir / FLAGS)
    meta = read_object(metadata.meta_data_path(log_dir))
    workload = flags['workload']
  except (ValueError, KeyError):
    return None  # another project's, or an older version's
  if found is None:
    return None
  name, step_hint = found
  if workload in WORKLOADS:
    if not _is_comparable(log_dir, workload, step_hint, flags):
      return None
  return Job(workload, name, run_seed(meta, flags) or 0)


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
    and bool(read_log(log_dir / CYCLES).of_event('finish').rows)
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
    content = io.BytesIO()
    with zipfile.ZipFile(content, 'w', compresslevel=9) as out:
      for log in group:
        for kept in KEPT_FILES:
          entry = zipfile.ZipInfo(f'seed_{log.job.seed}/{kept}', _DATE)
          entry.compress_type = zipfile.ZIP_DEFLATED
          out.writestr(entry, (log.log_dir / kept).read_bytes())
    paths.append(root / f'{name}.zip')
    files.write_whole(paths[-1], content.getvalue())
  return paths


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
    with zipfile.ZipFile(check_file(archive)) as packed:
      if not any(n.endswith(CONFIGURATION) for n in packed.namelist()):
        return False
      packed.extractall(folder)
  except zipfile.BadZipFile as e:
    raise ValueError(f'{archive} is not a zip archive of logs: {e}') from e
  return True


@contextlib.contextmanager
def complete_logs(
  jobs: Sequence[Job],
  roots: Sequence[pathlib.Path],
  new: pathlib.Path,
  num_workers: int,
  command: Command,
) -> Iterator[list[RunLog]]:
  """All logs there are, after training the jobs that have none.

  Args:
    jobs: the wanted runs.
    roots: folders of logs and of archives; an earlier one takes precedence.
    new: folder for the runs that are trained, made if needed; runs already in
      it are used, too.
    num_workers: runs at a time.
    command: `soft-reset run`; can be pickled.

  Raises:
    ValueError: if a log is damaged, or something else is where a run's logs
      belong.
    RunFailed: if a run fails. Those that were under way are finished first.
  """
  new.mkdir(parents=True, exist_ok=True)
  with unpacked([*roots, new]) as folders:
    missing = missing_jobs(jobs, find_logs(folders))
    check_places(missing, new)
    train_fn = functools.partial(train, command=command)
    workers.train_all(missing, new, num_workers, train_fn, _title)
    yield find_logs(folders)


def _title(job: Job) -> str:
  return job.title


def train(job: Job, root: pathlib.Path, command: Command) -> None:
  """Trains one run and keeps its logs. What it prints goes to a file.

  Args:
    job: the run.
    root: folder of kept logs; the run works in a folder beside them.
    command: `soft-reset run`: arguments -> exit status.

  Raises:
    RunFailed: if the run fails.
  """
  work = root / '.running' / f'{job.workload}_{job.run}_{job.seed}'
  shutil.rmtree(work, ignore_errors=True)
  work.mkdir(parents=True)
  output = work / 'output.txt'
  # `registry.SUBMISSION` trains the run that this variable names.
  os.environ['EXPERIMENT'] = job.run
  with output.open('w') as out, workers.redirected(out):
    status = command(
      [
        f'--workload={job.workload}',
        f'--submission_path={registry.SUBMISSION}',
        f'--experiment_dir={work}',
        f'--experiment_name={job.run}',
        f'--rng_seed={job.seed}',
        '--nostop_at_targets',
        '--nosave_checkpoints',
        '--eval_splits=validation',
      ]
    )
  if status:
    raise RunFailed(f'{job.title} ended with status {status}: see {output}.')
  [log_dir] = work.glob('*/*/trial_1')
  keep(log_dir, root, job)
  shutil.rmtree(work)
  # What one run has compiled is of no use to the next: each has its own.
  jax.clear_caches()
