"""Many runs, a few at a time, each in one thread.

The stand-in's workloads are small: one run does not fill two cores, two runs
with a core each do. A worker trains one run after another and is given the next
when it has finished; what was compiled for one seed is read from a cache for
the others.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import tqdm

from .errors import RunFailed

# For the workers' XLA, which reads them when it is loaded.
_ONE_THREAD = '--xla_cpu_multi_thread_eigen=false'
_ENVIRONMENT = {
  'OMP_NUM_THREADS': '1',
  'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
  'XLA_PYTHON_CLIENT_PREALLOCATE': 'false',  # several share one device
}


def train_all(
  jobs: Sequence[Any],
  root: pathlib.Path,
  num_workers: int,
  train_fn: Callable[[Any, pathlib.Path], None],
  title: Callable[[Any], str] = str,
  cache: pathlib.Path | None = None,
) -> None:
  """Trains runs and keeps their logs, with a bar over all runs on stderr.

  Args:
    jobs: runs to train, in this order; can be pickled.
    root: folder of kept logs, made if needed.
    num_workers: runs at a time.
    train_fn: trains one run in a worker and keeps its logs; can be pickled.
    title: what the bar calls a run.
    cache: folder of compiled programs, which stay there; None is a temporary
      one.

  Raises:
    RunFailed: if a run raises it, or a worker is ended from outside. Those that
      were under way are finished first.
  """
  if not jobs:
    return
  root.mkdir(parents=True, exist_ok=True)
  with (
    _workers(num_workers, cache) as pool,
    tqdm.tqdm(total=len(jobs), unit='run', dynamic_ncols=True) as bar,
  ):
    running = {pool.submit(train_fn, job, root): job for job in jobs}
    try:
      for done in concurrent.futures.as_completed(running):
        done.result()
        bar.set_description(title(running[done]))
        bar.update(1)
    except concurrent.futures.BrokenExecutor as e:
      raise RunFailed(
        'a worker was ended from outside, perhaps for lack of memory: try '
        'fewer --workers. What has finished is kept.'
      ) from e
    except BaseException:
      pool.shutdown(cancel_futures=True)
      raise


@contextlib.contextmanager
def _workers(
  count: int, cache: pathlib.Path | None
) -> Iterator[concurrent.futures.Executor]:
  """Processes with a thread each, which share what they have compiled."""
  with (
    tempfile.TemporaryDirectory() as temporary,
    environment(worker_environment(str(cache or temporary))),
    concurrent.futures.ProcessPoolExecutor(
      count,
      mp_context=multiprocessing.get_context('spawn'),
      initializer=_end_with_parent,
    ) as pool,
  ):
    yield pool


def _end_with_parent() -> None:
  """Ends this process when its parent is gone, even if that was killed."""
  parent = multiprocessing.parent_process()
  assert parent is not None

  def wait() -> None:
    parent.join()
    os._exit(1)

  threading.Thread(target=wait, daemon=True).start()


def worker_environment(cache: str) -> dict[str, str]:
  """A worker's environment variables: one thread, and where programs are."""
  flags = f'{os.environ.get("XLA_FLAGS", "")} {_ONE_THREAD}'.strip()
  return {
    **_ENVIRONMENT,
    'XLA_FLAGS': flags,
    'JAX_COMPILATION_CACHE_DIR': cache,
  }


@contextlib.contextmanager
def redirected(out: TextIO) -> Iterator[None]:
  """Sends what is printed inside to a file."""
  with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
    yield


@contextlib.contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
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
