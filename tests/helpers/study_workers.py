"""What a study's workers do in tests; a worker imports this module by name."""

import os
import signal
import time

from reset_cycles.studies.errors import RunFailed


def note(job, root):
  """Writes how many threads there are; seed 9 fails."""
  (root / f'{job.seed}.txt').write_text(os.environ['OMP_NUM_THREADS'])
  if job.seed == 9:
    raise RunFailed('no')


def kill(job, root):
  """Ends the worker as the kernel does."""
  os.kill(os.getpid(), signal.SIGKILL)


def sleep(job, root):
  """Notes its process, and would go on for ten minutes."""
  (root / 'pid.txt').write_text(str(os.getpid()))
  time.sleep(600)
