"""A study: all runs of submissions x workloads x conditions x seeds.

Existing runs are not trained again; a run that fails, or kills its process, is
recorded, and the others go on.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from .. import workers
from ..errors import RunFailed
from . import run
from .run import Task

_ATTEMPTS = 2  # before a run that kills its worker process is given up
CACHE = '.compiled'


def missing(
  jobs: Sequence[Task], root: pathlib.Path, retry: bool = False
) -> list[Task]:
  """The runs that have not ended yet, in their order."""
  return [job for job in jobs if not run.is_done(root, job, retry)]


def train_all(
  jobs: Sequence[Task],
  root: pathlib.Path,
  num_workers: int,
  retry: bool = False,
) -> None:
  """Trains the missing runs, in worker processes on this machine.

  Args:
    jobs: all runs of the study.
    root: folder of the study.
    num_workers: how many runs are trained at a time.
    retry: whether runs that failed are trained again.
  """
  cache = (root / CACHE).resolve()
  left = missing(jobs, root, retry)
  lost = 0
  while left:
    try:
      workers.train_all(left, root, num_workers, run.train, _title, cache)
      return
    except RunFailed:
      still = missing(left, root)
      lost = lost + 1 if len(still) == len(left) else 1
      left = still
    if lost >= _ATTEMPTS and left:
      run.give_up(left[0], root, 'Its process was killed, twice.')
      left, lost = left[1:], 0


def failures(jobs: Sequence[Task], root: pathlib.Path) -> list[pathlib.Path]:
  """The files with the tracebacks of runs that failed."""
  paths = [run.kept_path(root, job) / run.FAILURE for job in jobs]
  return [path for path in paths if path.exists()]


def _title(job: Task) -> str:
  return job.title
