"""The folder of smoke data: it exists as a whole or not at all."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Iterator

MARKER = 'smoke_data.json'


def check_free(path: pathlib.Path, overwrite: bool) -> None:
  """Checks that a folder may be written.

  Args:
    path: the folder; one that is empty or isn't there is free.
    overwrite: whether earlier smoke data may be replaced.

  Raises:
    ValueError: if something else is there.
  """
  if not path.exists() or (path.is_dir() and not any(path.iterdir())):
    return
  if not (path / MARKER).is_file():
    raise ValueError(
      f'--out={path}: it exists and has no {MARKER}, so it may hold real '
      'data. Nothing is replaced: give another folder, or remove it.'
    )
  if not overwrite:
    raise ValueError(
      f'--out={path}: it holds smoke data already; --overwrite replaces them.'
    )


@contextlib.contextmanager
def written_whole(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """A temporary folder that takes the place of `path` if all goes well.

  It lies beside `path`, since a rename is atomic only within one file system.
  Its name is fixed: a process that was killed leaves at most one behind, and
  the next one removes it.

  Args:
    path: absolute; what is there is removed.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.with_name(f'.{path.name}.tmp')
  aside = path.with_name(f'.{path.name}.replaced')
  for left in (temporary, aside):
    shutil.rmtree(left, ignore_errors=True)
  temporary.mkdir()
  try:
    yield temporary
  except BaseException:
    shutil.rmtree(temporary)
    raise
  if path.exists():
    path.rename(aside)
  temporary.rename(path)
  shutil.rmtree(aside, ignore_errors=True)
