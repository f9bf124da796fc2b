"""Many runs, a few at a time, each in one thread.

The stand-in's workloads are small: one run does not fill two cores, two runs
with a core each do. What was compiled for one seed is read from a cache for the
others.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import multiprocessing
import os
import pathlib
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tqdm

from ..console.errors import RunFailed

# For the workers' XLA, which reads them when it is loaded.
_ONE_THREAD = '--xla_cpu_multi_thread_eigen=false'
_ENVIRONMENT = {
  'OMP_NUM_THREADS': '1',
  'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
  'XLA_PYTHON_CLIENT_PREALLOCATE': 'false',  # several share one device
}
# Trains a job and keeps its logs below a folder; can be pickled.
TrainFn = Callable[[Any, pathlib.Path], None]


def train_all(
  jobs: Sequence[Any], root: pathlib.Path, num_workers: int, train_fn: TrainFn
) -> None:
  """Trains runs and keeps their logs, with a bar over all runs on stderr.

  Raises:
    ValueError: if another process trains into the folder.
    RunFailed: if a run raises it, or a worker is ended from outside. The runs
      under way are finished first.
    KeyboardInterrupt: after Ctrl-C; the runs under way are killed.
  """
  if not jobs:
    return
  root.mkdir(parents=True, exist_ok=True)
  context = multiprocessing.get_context('spawn')
  with (
    _locked(root),
    _environment(root),
    concurrent.futures.ProcessPoolExecutor(
      num_workers, mp_context=context, initializer=_end_with_parent
    ) as pool,
    tqdm.tqdm(total=len(jobs), unit='run', dynamic_ncols=True) as bar,
    _killed_at_ctrl_c(),
  ):
    try:
      running = [pool.submit(train_fn, job, root) for job in jobs]
      for done in concurrent.futures.as_completed(running):
        done.result()
        bar.update(1)
    except concurrent.futures.BrokenExecutor as e:
      raise RunFailed(
        'a worker was ended from outside, perhaps for lack of memory: try '
        'fewer at a time. What has finished is kept.'
      ) from e
    except Exception:
      pool.shutdown(cancel_futures=True)
      raise


@contextlib.contextmanager
def _locked(root: pathlib.Path) -> Iterator[None]:
  """Holds a folder: two processes would remove each other's runs under way."""
  with (root / '.lock').open('w') as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise ValueError(
        f'{root}: another command trains into this folder; wait for its end, '
        'or name another folder.'
      ) from None
    yield


@contextlib.contextmanager
def _killed_at_ctrl_c() -> Iterator[None]:
  """Kills the processes that were started inside, if the block is interrupted.

  What they have under way is not kept: nobody waits for it. Asked to end, one
  that compiles would answer only afterwards.
  """
  before = multiprocessing.active_children()
  try:
    yield
  except KeyboardInterrupt:
    for child in multiprocessing.active_children():
      if child not in before:
        child.kill()
    raise


def _end_with_parent() -> None:
  """Ends this process when its parent is gone, even if killed."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent sees to it
  parent = multiprocessing.parent_process()
  assert parent is not None

  def end() -> None:
    parent.join()
    os._exit(1)

  threading.Thread(target=end, daemon=True).start()


@contextlib.contextmanager
def _environment(root: pathlib.Path) -> Iterator[None]:
  """For processes started inside: one thread, programs kept with the logs."""
  flags = f'{os.environ.get("XLA_FLAGS", "")} {_ONE_THREAD}'.strip()
  cache = str((root / '.compiled').resolve())
  values = {'XLA_FLAGS': flags, 'JAX_COMPILATION_CACHE_DIR': cache}
  values |= _ENVIRONMENT
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


@contextlib.contextmanager
def working_folder(root: pathlib.Path, name: str) -> Iterator[pathlib.Path]:
  """A new folder for a run under way; what is printed goes to output.txt in it.

  Readers of logs pass over it.
  """
  work = root / '.running' / name
  shutil.rmtree(work, ignore_errors=True)
  work.mkdir(parents=True)
  with (
    (work / 'output.txt').open('w') as out,
    contextlib.redirect_stdout(out),
    contextlib.redirect_stderr(out),
  ):
    yield work
