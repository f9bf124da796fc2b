"""Files that are there as a whole or not at all, and tables in CSV form."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def write_whole(path: pathlib.Path, data: bytes | str) -> None:
  """Writes a file so that no reader ever sees a part of it.

  The temporary file lies in the same folder, since a rename is atomic only
  within one file system, and is this process' own.

  Args:
    path: file to write; an existing one is replaced.
    data: text is written as UTF-8.
  """
  temporary = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
  content = data.encode('utf-8') if isinstance(data, str) else data
  try:
    temporary.write_bytes(content)
    os.replace(temporary, path)
  finally:
    temporary.unlink(missing_ok=True)


def write_json(path: pathlib.Path, values: Any) -> None:
  """Writes values as indented JSON."""
  write_whole(path, json.dumps(values, indent=2) + '\n')


def read_json(path: pathlib.Path) -> Any:
  """Reads a JSON file.

  Raises:
    ValueError: if the file is not JSON, with its name.
  """
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except ValueError as e:
    raise ValueError(f'{path} is not valid JSON: {e}.') from e


def read_rows(path: pathlib.Path) -> list[dict[str, str]]:
  """Rows of a CSV file as text by column name; none if there is no file."""
  if not path.exists():
    return []
  with path.open(newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file))


def write_rows(
  path: pathlib.Path,
  columns: Sequence[str],
  rows: Iterable[Mapping[str, Any]],
) -> None:
  """Writes a CSV file; what a row doesn't have stays blank."""
  buffer = io.StringIO(newline='')
  writer = csv.DictWriter(buffer, columns, restval='', lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  write_whole(path, buffer.getvalue())
