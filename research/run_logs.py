"""Logs of studies: tables in CSV form, to which each run adds its rows.

Runs that a log has are not trained again: a study that was ended goes on.
"""

from __future__ import annotations

import csv
import io
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..mini_algoperf import files


def read(path: pathlib.Path, columns: Sequence[str]) -> list[dict[str, str]]:
  """The rows of a log, as text; none if there is no file.

  Raises:
    ValueError: if the file is no table, or has other columns.
  """
  rows = files.read_rows(path)
  if rows and [*rows[0]] != [*columns]:
    raise ValueError(
      f'{path} has the columns {",".join(rows[0])}; a log of this study has '
      f'{",".join(columns)}.'
    )
  return rows


def speakers(reason: str) -> str:
  """Which of joined rules have abandoned a chain, by the event's reason.

  Such as 'ChainLossRule and Progress'; of a rule by itself, its reason.
  """
  return ' and '.join(re.findall(r'(\w+): ', reason)) or reason


def append(
  path: pathlib.Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
  """Adds rows to a log, which begins with its columns.

  They are written in one piece, since two commands may add runs at a time. A
  last line without its end, whose writer was killed, goes.
  """
  text = io.StringIO()
  writer = csv.writer(text, lineterminator='\n')
  before = path.read_bytes() if path.exists() else b''
  whole = before[: before.rfind(b'\n') + 1]
  if not whole:
    writer.writerow(columns)
  writer.writerows(rows)
  with path.open('ab', buffering=0) as out:
    if whole != before:
      out.truncate(len(whole))
    out.write(text.getvalue().encode())
