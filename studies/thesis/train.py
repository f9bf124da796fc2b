"""The runs of the thesis' registry, trained by `studies.workers`.

A run's logs are kept when it has ended, so that a study which is interrupted
goes on where it was, but for the runs under way.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Sequence

import jax

from ...experiments import thesis
from .. import workers
from ..errors import RunFailed
from . import run_logs
from .run_logs import Job


def train_all(
  jobs: Sequence[Job],
  root: pathlib.Path,
  num_workers: int,
  train_fn: Callable[[Job, pathlib.Path], None],
) -> None:
  """Trains runs and keeps their logs; as `workers.train_all`.

  Raises:
    RunFailed: if a run fails. Those that were under way are finished first.
  """
  workers.train_all(jobs, root, num_workers, train_fn, _title)


def _title(job: Job) -> str:
  return f'{job.workload} {job.run} {job.seed}'


def train(
  job: Job, root: pathlib.Path, command: Callable[[Sequence[str]], int]
) -> None:
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
  with output.open('w') as out, workers.redirected(out):
    status = command(_arguments(job, work))
  if status:
    raise RunFailed(f'{_title(job)} ended with status {status}: see {output}.')
  [log_dir] = work.glob('*/*/trial_1')
  run_logs.keep(log_dir, root, job)
  shutil.rmtree(work)
  # What one run has compiled is of no use to the next: each has its own.
  jax.clear_caches()


def _arguments(job: Job, work: pathlib.Path) -> list[str]:
  return [
    f'--workload={job.workload}',
    f'--submission_path={thesis.run_path(job.run)}',
    f'--experiment_dir={work}',
    f'--experiment_name={job.run}',
    f'--rng_seed={job.seed}',
    '--nostop_at_targets',
    '--nosave_checkpoints',
    '--eval_splits=validation',
  ]
