"""The files that studies read and write.

Reading a named pipe or a device would never end, so the kind of a file is
checked first. An existing file is replaced only on request.
"""

from __future__ import annotations

import io
import pathlib
import tempfile
import zipfile
from collections.abc import Mapping
from typing import Any

from ..mini_algoperf import files
from ..mini_algoperf.files import check_file as check_file

# A file that every trial has, whichever runner wrote it.
META_DATA = 'meta_data_0.json'
# The earliest date that a zip archive can hold: the same runs, the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def read_object(path: pathlib.Path) -> Mapping[str, Any]:
  """An object from a JSON file; raises ValueError if there is none."""
  if not path.exists():
    raise ValueError(
      f'{path.parent} has no {path.name}: it must be a folder of logs, such '
      'as <workload>_jax/trial_1.'
    )
  return files.read_json(path)


def folder(name: str | pathlib.Path, flag: str = '') -> pathlib.Path:
  """The folder at a path; ValueError without one, and for an empty path."""
  path = pathlib.Path(name).expanduser()
  if path.is_file():
    raise ValueError(f'{flag}{name} is a file: give a folder.')
  if not str(name) or not path.is_dir():
    raise ValueError(f'{flag}{name}: there is no such folder.')
  return path


def new_file(
  name: str | pathlib.Path, overwrite: bool, *suffixes: str
) -> pathlib.Path:
  """The file that --out names, to be written later.

  ValueError if the file must not be written, or has another ending.
  """
  path = pathlib.Path(name).expanduser()
  if suffixes and path.suffix.lower() not in suffixes:
    raise ValueError(f'--out={name} must end in {suffixes[0]}.')
  if path.is_dir() or not name:
    raise ValueError(f'--out={name} is a folder: give a file.')
  if not path.parent.is_dir():
    raise ValueError(f'--out={name}: there is no folder {path.parent}.')
  check_free(path, overwrite, f'--out={name}')
  return path


def check_free(path: pathlib.Path, overwrite: bool, what: str = '') -> None:
  """Raises ValueError if a file must not be replaced, or cannot be written.

  Where folders are still to be made, the one that they come into is tried.
  """
  if check_file(path).exists() and not overwrite:
    raise ValueError(
      f'{what or path} exists: give another name, or --overwrite to replace it.'
    )
  above = next(up for up in path.absolute().parents if up.is_dir())
  try:
    tempfile.TemporaryFile(dir=above).close()
  except OSError as e:
    raise ValueError(f'{what or path} cannot be written: {e.strerror}.') from e


def visible(root: pathlib.Path, pattern: str) -> list[pathlib.Path]:
  """Files below a folder, sorted; hidden folders have runs under way."""
  files = sorted(root.glob(pattern))
  return [p for p in files if '/.' not in f'/{p.relative_to(root).as_posix()}']


def find_trials(root: pathlib.Path) -> list[pathlib.Path]:
  """The folder itself, or the trials below it; ValueError without any."""
  trials = sorted(path.parent for path in visible(root, f'**/{META_DATA}'))
  if not trials:
    raise ValueError(
      f"{root} has no trial: give an experiment's folder, such as "
      'experiment_runs/digits, or a trial_<n> in it.'
    )
  return trials


def write_archive(
  path: pathlib.Path, contents: Mapping[str, bytes]
) -> pathlib.Path:
  """Writes a zip archive, whole; returns its path."""
  archive = io.BytesIO()
  with zipfile.ZipFile(archive, 'w') as out:
    for name, content in contents.items():
      entry = zipfile.ZipInfo(name, _DATE)
      out.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
  path.parent.mkdir(parents=True, exist_ok=True)
  files.write_whole(path, archive.getvalue())
  return path
