"""What a study's workers do in tests; a worker imports this module by name."""

import ctypes
import os
import signal
import time

from reset_cycles.console.errors import RunFailed


def note(job, root):
  """Writes how many threads there are; seed 9 fails, and those from 4 on wait."""
  (root / f'{job.seed}.txt').write_text(os.environ['OMP_NUM_THREADS'])
  if job.seed == 9:
    raise RunFailed('no')
  if job.seed > 3:
    time.sleep(1)


def kill(job, root):
  """Ends the worker as the kernel does."""
  os.kill(os.getpid(), signal.SIGKILL)


def sleep(job, root):
  """Notes its process, and would go on for ten minutes."""
  (root / f'{os.getpid()}.pid').touch()
  time.sleep(600)


def hold(job, root):
  """Likewise; no other thread of it can run, as in some compilations."""
  (root / f'{os.getpid()}.pid').touch()
  ctypes.PyDLL(None).sleep(600)
