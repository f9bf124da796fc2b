"""The folder of an experiment: claimed safely, never half overwritten."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from . import RunOptions, files


def experiment_path(options: RunOptions, workload: str) -> pathlib.Path:
  """`<dir>/<name>/<workload>_<framework>`, as the benchmark names it.

  Raises:
    ValueError: if the name leads out of the folder of all experiments.
  """
  name = pathlib.Path(str(options.experiment_name))
  # There are no parts in '' and '.'.
  if not name.parts or name.is_absolute() or '..' in name.parts:
    raise ValueError(
      f'--experiment_name={options.experiment_name} must be a name below '
      '--experiment_dir.'
    )
  if not options.experiment_dir:
    raise ValueError("--experiment_dir='' is no path: give a folder.")
  root = pathlib.Path(options.experiment_dir).expanduser().resolve()
  return root / name / f'{workload}_{options.framework}'


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
  """Locks an experiment until this process ends, however it ends.

  The lock is an empty file in the folder for temporary files; other machines do
  not see it.

  Raises:
    ValueError: if another process of this user has the lock.
  """
  digest = hashlib.sha256(str(path).encode('utf-8')).hexdigest()[:16]
  name = f'reset_cycles_{os.getuid()}_{digest}.lock'
  with (pathlib.Path(tempfile.gettempdir()) / name).open('a') as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
      raise ValueError(
        f'experiment folder {path} is in use by another run: wait for its end '
        'or give another --experiment_name.'
      ) from e
    yield


@contextlib.contextmanager
def claim(path: pathlib.Path, overwrite: bool, resume: bool) -> Iterator[None]:
  """Makes the folder for a set-up; undoes everything if the set-up fails.

  An older run is moved aside. It is removed only after the set-up inside the
  `with` block has succeeded, so that bad input never costs its results. The
  files of a run that is to be resumed are put back as they were.

  Raises:
    ValueError: if there is an older run, and the options neither replace nor
      resume it, or do both.
  """
  if overwrite and resume:
    raise ValueError(
      '--overwrite and --resume_last_run contradict each other: give one.'
    )
  aside = path.with_name(f'.{path.name}.replaced')
  if aside.exists():  # by a process that was killed
    if any(path.glob('trial_*/meta_data_0.json')):  # its set-up had succeeded
      shutil.rmtree(aside)
    else:
      shutil.rmtree(path, ignore_errors=True)
      aside.rename(path)
  is_used = path.is_dir() and any(path.iterdir())
  if is_used and not (overwrite or resume):
    raise ValueError(
      f'experiment folder {path} exists: use another --experiment_name, '
      '--resume_last_run to continue it or --overwrite to replace it.'
    )
  with _resumed(path) if is_used and resume else _made_anew(path, aside):
    yield


@contextlib.contextmanager
def _made_anew(path: pathlib.Path, aside: pathlib.Path) -> Iterator[None]:
  folders = [p for p in (path, *path.parents) if not p.exists()]
  if not folders and any(path.iterdir()):
    path.rename(aside)
  path.mkdir(parents=True, exist_ok=True)
  try:
    yield
  except BaseException:
    shutil.rmtree(path)
    if aside.exists():
      aside.rename(path)
    elif not folders:
      path.mkdir()
    for parent in folders[1:]:
      with contextlib.suppress(OSError):  # another run has moved in meanwhile
        parent.rmdir()
    raise
  shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _resumed(path: pathlib.Path) -> Iterator[None]:
  """Puts files back on failure, but not checkpoints: a set-up writes none."""

  def files_now() -> dict[pathlib.Path, bytes]:
    return {
      file: file.read_bytes()
      for file in path.rglob('*')
      if file.is_file() and not file.name.startswith('checkpoint_')
    }

  before = files_now()
  try:
    yield
  except BaseException:
    now = files_now()
    for file in now.keys() - before:
      file.unlink()
    for file, content in before.items():
      if now.get(file) != content:
        files.write_whole(file, content)
    raise
