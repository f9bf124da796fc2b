"""Files that exist as a whole or not at all, and tables in CSV form."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core.whole_files import replace_file


class WriteError(OSError):
  """A file could not be written; the message names it and says why."""


def check_file(path: pathlib.Path) -> pathlib.Path:
  """The path, at which a regular file or nothing is.

  Raises:
    ValueError: for a folder, a pipe, which would be waited for, an endless
      device, or a link that leads nowhere.
  """
  if (path.exists() or path.is_symlink()) and not path.is_file():
    raise ValueError(f'{path} is not a regular file.')
  return path


def read_bytes(path: pathlib.Path) -> bytes:
  """The content of a regular file; raises ValueError for anything else."""
  return check_file(path).read_bytes()


def write_whole(path: pathlib.Path, data: bytes | str) -> None:
  """Writes a file, text as UTF-8, so that no reader ever sees a part of it.

  Raises:
    WriteError: if that fails, on a full disk say; what was there stays.
  """
  content = data.encode('utf-8') if isinstance(data, str) else data
  try:
    replace_file(path, content)
  except OSError as e:
    raise WriteError(f'{path} cannot be written: {e.strerror}.') from e


@contextlib.contextmanager
def whole_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """A temporary folder that takes the place of `path` if all goes well.

  It lies beside `path`, which is absolute. Its name is fixed: a process that
  was killed leaves at most one behind, and the next one removes it.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.with_name(f'.{path.name}.tmp')
  shutil.rmtree(temporary, ignore_errors=True)
  temporary.mkdir()
  try:
    yield temporary
    if path.exists():
      shutil.rmtree(path)
    temporary.rename(path)
  finally:
    shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: pathlib.Path, values: Any) -> None:
  """Writes values as indented JSON."""
  write_whole(path, json.dumps(values, indent=2) + '\n')


def read_json(path: pathlib.Path) -> dict[str, Any]:
  """The object in a JSON file; ValueError, naming the file, without one."""
  content = read_bytes(path)
  try:
    values = json.loads(content.decode('utf-8'))
  except RecursionError as e:
    raise ValueError(f'{path} is nested too deeply.') from e
  except ValueError as e:
    raise ValueError(f'{path} is not valid JSON: {e}.') from e
  if not isinstance(values, dict):
    raise ValueError(f'{path} must hold an object of JSON.')
  return values


def read_rows(path: pathlib.Path) -> list[dict[str, str]]:
  """Rows of a CSV file as text by column name; none if there is no file.

  A last line without its end is ignored: whoever wrote it was killed, and the
  first digits of a number are another number. Raises ValueError, with the
  file's name, if it is not a table.
  """
  if not path.exists():
    return []
  content = read_bytes(path)
  try:
    whole, end, _ = content.decode('utf-8').rpartition('\n')
    rows = list(csv.DictReader(io.StringIO(whole + end, newline='')))
  except (UnicodeDecodeError, csv.Error) as e:
    raise ValueError(f'{path} is not a table in CSV form: {e}.') from e
  for number, row in enumerate(rows, start=1):
    if None in row:
      raise ValueError(
        f'{path}: row {number} has more values than there are columns.'
      )
  return rows


def write_rows(
  path: pathlib.Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
  """Writes a CSV file; what a row doesn't have stays blank."""
  buffer = io.StringIO(newline='')
  writer = csv.DictWriter(buffer, columns, restval='', lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  write_whole(path, buffer.getvalue())
