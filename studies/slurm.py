"""Runs on a cluster: a Slurm job array, through submitit.

Array tasks train their share of the runs one after the other. Logs are kept as
by local workers, so that a study can be begun in one way and ended in the other.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from . import workers
from .errors import RunFailed

_LOCAL = 'local'
_MISSING = (
  "--slurm needs submitit: install it with pip install 'reset-cycles[slurm]'."
)


def train_all(
  jobs: Sequence[Any],
  root: pathlib.Path,
  num_tasks: int,
  train_fn: Callable[[Any, pathlib.Path], None],
  partition: str,
  cache: pathlib.Path | None = None,
) -> None:
  """Hands runs to Slurm and waits for them.

  Args:
    jobs: runs to train; can be pickled.
    root: folder of kept logs, which all nodes see.
    num_tasks: array tasks, at most; all may run at once.
    train_fn: trains one run and keeps its logs; can be pickled.
    partition: of Slurm; 'local' takes processes on this machine instead.
    cache: folder of compiled programs, for all tasks.

  Raises:
    ValueError: if submitit isn't installed, or there is no Slurm.
    RunFailed: if tasks fail. What has finished is kept.
  """
  if not jobs:
    return
  executor = _executor(root / '.slurm', partition)
  tasks = [list(jobs[start::num_tasks]) for start in range(num_tasks)]
  parameters: dict[str, Any] = {'timeout_min': 360, 'cpus_per_task': 1}
  if partition != _LOCAL:
    parameters['slurm_partition'] = partition
  executor.update_parameters(**parameters)
  folder = str(cache or root / '.compiled')
  with workers.environment(workers.worker_environment(folder)):
    handles = executor.map_array(
      _Share(train_fn, root), [share for share in tasks if share]
    )
  failed = [handle for handle in handles if handle.exception() is not None]
  if failed:
    raise RunFailed(
      f'{len(failed)} of {len(handles)} tasks failed: see {root / ".slurm"}. '
      'What has finished is kept; the same command goes on.'
    )


class _Share:
  """Trains the runs of one task; a class, so that it can be pickled."""

  def __init__(
    self, train_fn: Callable[[Any, pathlib.Path], None], root: pathlib.Path
  ) -> None:
    self._train_fn = train_fn
    self._root = root.resolve()

  def __call__(self, jobs: Sequence[Any]) -> int:
    """Returns how many there were."""
    for job in jobs:
      self._train_fn(job, self._root)
    return len(jobs)


def _executor(folder: pathlib.Path, partition: str) -> Any:
  try:
    import submitit
  except ModuleNotFoundError as e:
    raise ValueError(_MISSING) from e
  cluster = 'local' if partition == _LOCAL else 'slurm'
  try:
    return submitit.AutoExecutor(folder=folder, cluster=cluster)
  except RuntimeError as e:
    raise ValueError(f'--slurm: {e}') from e
