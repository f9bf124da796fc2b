"""The folder of an experiment: claimed safely, never half overwritten."""

from __future__ import annotations

import contextlib
import datetime as dt
import pathlib
import shutil
from collections.abc import Iterator


def experiment_path(
  experiment_dir: str,
  experiment_name: str,
  workload: str,
  framework: str,
  append_timestamp: bool,
) -> pathlib.Path:
  """`<dir>/<name>/<workload>_<framework>`, as the benchmark names it."""
  name = experiment_name
  if append_timestamp:
    name += dt.datetime.now().strftime('-%Y-%m-%d-%H-%M-%S')
  root = pathlib.Path(experiment_dir).expanduser().resolve()
  return root / name / f'{workload}_{framework}'


@contextlib.contextmanager
def claim(path: pathlib.Path, overwrite: bool, resume: bool) -> Iterator[None]:
  """Makes the folder for a set-up; undoes everything if the set-up fails.

  An older run is moved aside first and removed only when the set-up inside the
  `with` block has succeeded, so that bad input never costs its results.

  Args:
    path: the experiment's folder.
    overwrite: whether an older run is replaced.
    resume: whether an older run goes on.

  Raises:
    ValueError: if there is an older run and neither is wanted, or both.
  """
  if overwrite and resume:
    raise ValueError(
      '--overwrite and --resume_last_run contradict each other: give one.'
    )
  is_used = path.is_dir() and any(path.iterdir())
  if is_used and resume:
    yield
    return
  if is_used and not overwrite:
    raise ValueError(
      f'experiment folder {path} exists: use another --experiment_name, '
      '--resume_last_run to go on with it or --overwrite to replace it.'
    )
  with _replaced(path, is_used):
    yield


@contextlib.contextmanager
def _replaced(path: pathlib.Path, is_used: bool) -> Iterator[None]:
  aside = path.with_name(f'.{path.name}.replaced')
  if is_used:
    # One may be left of a process that was killed between the two moves.
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
  made = [p for p in (path, *path.parents) if not p.exists()]
  path.mkdir(parents=True, exist_ok=True)
  try:
    yield
  except BaseException:
    _undo(path, made)
    if is_used:
      aside.rename(path)
    raise
  shutil.rmtree(aside, ignore_errors=True)


def _undo(path: pathlib.Path, made: list[pathlib.Path]) -> None:
  """Removes the folder's content, and those folders that were not there."""
  shutil.rmtree(path)
  if path not in made:
    path.mkdir()
  for parent in made[1:]:
    with contextlib.suppress(OSError):  # another run has moved in meanwhile
      parent.rmdir()
