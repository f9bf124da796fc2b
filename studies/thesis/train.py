"""Many runs of the thesis' registry, a few at a time, each in one thread.

The stand-in's workloads are small: one run does not fill two cores, two runs
with a core each do. A worker trains one run after another and is given the next
when it has finished; what was compiled for one seed is read from a cache for
the others. A run's logs are kept when it has ended, so that a study which is
interrupted goes on where it was, but for the runs under way.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

import jax
import tqdm

from ...experiments import thesis
from ..errors import RunFailed
from . import run_logs
from .run_logs import Job

# For the workers' XLA, which reads them when it is loaded.
_ONE_THREAD = '--xla_cpu_multi_thread_eigen=false'
_ENVIRONMENT = {
  'OMP_NUM_THREADS': '1',
  'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
  'XLA_PYTHON_CLIENT_PREALLOCATE': 'false',  # several share one device
}


def train_all(
  jobs: Sequence[Job],
  root: pathlib.Path,
  num_workers: int,
  train_fn: Callable[[Job, pathlib.Path], None],
) -> None:
  """Trains runs and keeps their logs, with a bar over all runs on stderr.

  Args:
    jobs: runs to train, in this order.
    root: folder of kept logs.
    num_workers: runs at a time.
    train_fn: trains one run in a worker and keeps its logs, as `train` does;
      can be pickled.

  Raises:
    RunFailed: if a run fails. Those that were under way are finished first.
  """
  if not jobs:
    return
  root.mkdir(parents=True, exist_ok=True)
  with (
    _workers(num_workers) as pool,
    tqdm.tqdm(total=len(jobs), unit='run', dynamic_ncols=True) as bar,
  ):
    running = {pool.submit(train_fn, job, root): job for job in jobs}
    try:
      for done in concurrent.futures.as_completed(running):
        done.result()
        bar.set_description(_title(running[done]))
        bar.update(1)
    except concurrent.futures.BrokenExecutor as e:
      raise RunFailed(
        'a worker was ended from outside, for want of memory perhaps: try '
        'fewer --workers. What has finished is kept.'
      ) from e
    except BaseException:
      pool.shutdown(cancel_futures=True)
      raise


@contextlib.contextmanager
def _workers(count: int) -> Iterator[concurrent.futures.Executor]:
  """Processes with a thread each, which share what they have compiled."""
  with (
    tempfile.TemporaryDirectory() as cache,
    _environment(_worker_environment(cache)),
    concurrent.futures.ProcessPoolExecutor(
      count, mp_context=multiprocessing.get_context('spawn')
    ) as pool,
  ):
    yield pool


def _worker_environment(cache: str) -> dict[str, str]:
  flags = f'{os.environ.get("XLA_FLAGS", "")} {_ONE_THREAD}'.strip()
  return {
    **_ENVIRONMENT,
    'XLA_FLAGS': flags,
    'JAX_COMPILATION_CACHE_DIR': cache,
  }


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
  with output.open('w') as out, _redirected(out):
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


@contextlib.contextmanager
def _redirected(out: TextIO) -> Iterator[None]:
  with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
    yield


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
  """Sets environment variables for the processes that are started inside."""
  before = {name: os.environ.get(name) for name in values}
  os.environ.update(values)
  try:
    yield
  finally:
    for name, value in before.items():
      if value is None:
        del os.environ[name]
      else:
        os.environ[name] = value
