"""Folders of logs that belong to runs of the thesis' registry.

Its settings in schedule_params.json tell which run it is, whoever trained it:
this package's runner or the benchmark's. One of ours counts if it has come to
the end of its cycles and was evaluated at the workload's own steps, so that all
seeds can be laid side by side; one of the benchmark's is taken as it is.
Finished runs are kept in folders <root>/<workload>/<run>/seed_<n>/, or in zip
archives of such folders in a root.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import jax

from ...console.errors import RunFailed
from ...engine.records import CYCLES, SETTINGS
from ...mini_algoperf import files, logger
from ...mini_algoperf.workloads import WORKLOADS
from ...views.paths import META_DATA, check_file, folder, read_object, visible
from ...views.planned_runs import read_planned_run
from ...views.run_files import FLAGS, read_flags, read_log, run_seed
from .. import workers
from . import registry as thesis
from .settings import RUNS

KEPT_FILES = (FLAGS, META_DATA, logger.EVAL_MEASUREMENTS, SETTINGS, CYCLES)
_NAMES = {settings: name for name, settings in RUNS.items()}

Command = Callable[[Sequence[str]], int]


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
  """The registry's runs among the logs in some folders and below them.

  They are ordered by workload, run and seed; of a run that is there twice, the
  first counts.

  Raises:
    ValueError: if a root is not a folder.
  """
  found: dict[Job, pathlib.Path] = {}
  for root in roots:
    for path in visible(folder(root), f'**/{SETTINGS}'):
      job = _read_job(path.parent)
      if job is not None:
        found.setdefault(job, path.parent)
  return [RunLog(job, found[job]) for job in sorted(found)]


def _read_job(log_dir: pathlib.Path) -> Job | None:
  """What was run in a folder; None if it isn't a run that counts."""
  if not all((log_dir / name).is_file() for name in KEPT_FILES):
    return None
  try:
    plan = read_planned_run(log_dir)
    flags = read_flags(log_dir)
    meta = read_object(log_dir / META_DATA)
    workload = str(flags[0]['workload'])
  except (ValueError, KeyError):
    return None  # another project's, or an older version's
  if plan is None or plan.settings not in _NAMES:
    return None
  if workload in WORKLOADS and not (
    plan.step_hint == WORKLOADS[workload].step_hint
    and all(f.get('eval_by', 'steps') == 'steps' for f in flags)
    and not any(f.get('eval_every') for f in flags)
    and read_log(log_dir / CYCLES).of_event('finish').rows
  ):
    return None
  return Job(workload, _NAMES[plan.settings], run_seed(meta, flags[0]) or 0)


def check_has_run(root: pathlib.Path, flag: str) -> None:
  """Raises ValueError unless a run that counts is in a folder, or archives."""
  with unpacked([root]) as folders:
    for place in folders:
      for path in visible(place, f'**/{SETTINGS}'):
        if _read_job(path.parent) is not None:
          return
  raise ValueError(
    f"{flag}{root}: no finished run of the thesis' registry is in it; runs "
    'with other settings do not count.'
  )


def kept_path(root: pathlib.Path, job: Job) -> pathlib.Path:
  """Where a finished run's files are kept."""
  return root / job.workload / job.run / f'seed_{job.seed}'


@contextlib.contextmanager
def unpacked(roots: Iterable[pathlib.Path]) -> Iterator[list[pathlib.Path]]:
  """The roots, each followed by a folder per archive of logs in it.

  The folders last as long as the context. Other zip files do not count.

  Raises:
    ValueError: if an archive cannot be read.
  """
  with tempfile.TemporaryDirectory() as temporary:
    folders = []
    for root in roots:
      folders.append(root)
      for archive in sorted(root.glob('*.zip')):
        place = pathlib.Path(temporary) / str(len(folders))
        try:
          with zipfile.ZipFile(check_file(archive)) as packed:
            if any(n.endswith(SETTINGS) for n in packed.namelist()):
              packed.extractall(place)
              folders.append(place)
        except zipfile.BadZipFile as e:
          raise ValueError(
            f'{archive} is not a zip archive of logs: {e}'
          ) from e
    yield folders


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
    jobs: the wanted runs, in the order in which they are trained.
    roots: folders of logs and of archives; an earlier one takes precedence.
    new: folder for the runs that are trained, made if one is missing; those
      in it count.
    num_workers: runs at a time.
    command: `reset-cycles run`; can be pickled.

  Raises:
    ValueError: if a log is damaged, or something else is where one belongs.
    RunFailed: if a run fails. Those under way are finished first.
  """
  with unpacked([*roots, *([new] if new.exists() else [])]) as folders:
    logs = find_logs(folders)
    there = {log.job for log in logs}
    missing = [job for job in dict.fromkeys(jobs) if job not in there]
    for path in (kept_path(new, job) for job in missing):
      if path.exists():
        raise ValueError(
          f'{path} has no finished logs of this run: remove it or give another '
          'folder as --runs.'
        )
    train_fn = functools.partial(train, command=command)
    workers.train_all(missing, new, num_workers, train_fn)
    yield find_logs([*folders, new]) if missing else logs


def train(job: Job, root: pathlib.Path, command: Command) -> None:
  """Trains one run and keeps its logs; RunFailed says where it printed."""
  # `thesis.SUBMISSION` trains the run that this variable names.
  os.environ['EXPERIMENT'] = job.run
  with workers.working_folder(root, '_'.join(map(str, job))) as work:
    status = command(
      [
        f'--workload={job.workload}',
        f'--submission_path={thesis.SUBMISSION}',
        f'--experiment_dir={work}',
        f'--experiment_name={job.run}',
        f'--rng_seed={job.seed}',
        '--nostop_at_targets',
        '--nosave_checkpoints',
        '--eval_splits=validation',
      ]
    )
  if status:
    output = work / 'output.txt'
    name = ' '.join(map(str, job))
    raise RunFailed(f'{name} ended with status {status}: see {output}.')
  [log_dir] = work.glob('*/*/trial_1')
  with files.whole_folder(kept_path(root, job)) as place:
    for name in KEPT_FILES:
      shutil.copyfile(log_dir / name, place / name)
  shutil.rmtree(work)
  # What one run has compiled is of no use to the next: each has its own.
  jax.clear_caches()
