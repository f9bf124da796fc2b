"""What a study's workers do in tests; a worker imports this module by name."""

from __future__ import annotations

import os

from soft_reset.mini_algoperf import errors


def note(job, root):
  """Writes how many threads there are; seed 9 fails."""
  (root / f'{job.seed}.txt').write_text(os.environ['OMP_NUM_THREADS'])
  if job.seed == 9:
    raise errors.RunFailed('no')
