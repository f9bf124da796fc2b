"""Logs of studies: tables in CSV form, to which each run adds its rows.

Runs that a log has are not trained again: a study that was ended goes on.
"""

from __future__ import annotations

import csv
import fcntl
import io
import pathlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..mini_algoperf import files

Run = TypeVar('Run', bound=tuple[Any, ...])
Rows = Sequence[Mapping[str, str]]
# The untrained model's loss, and curves: losses, perhaps others.
Curves = tuple[Any, ...]


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

  Other processes wait until the rows are written. A last line without its end,
  whose writer was killed, goes.
  """
  text = io.StringIO()
  writer = csv.writer(text, lineterminator='\n')
  with path.open('a+b', buffering=0) as out:
    fcntl.flock(out, fcntl.LOCK_EX)  # until it is closed
    before = path.read_bytes()
    whole = before[: before.rfind(b'\n') + 1]
    if not whole:
      writer.writerow(columns)
    writer.writerows(rows)
    if whole != before:
      out.truncate(len(whole))
    out.write(text.getvalue().encode())


def train_missing(
  log: pathlib.Path,
  columns: Sequence[str],
  runs: Iterable[Run],
  curves_of: Callable[[Run], Curves],
  is_wanted: Callable[[Run, Rows], bool] = lambda run, rows: True,
) -> None:
  """Trains the runs that a log lacks; each adds its row as it ends.

  Args:
    log: CSV file.
    columns: first those that name a run, then the untrained model's loss and
      the curves.
    runs: each as a tuple of what names it.
    curves_of: run -> the untrained model's loss, then curves of numbers, the
      losses first.
    is_wanted: (run, rows of the log) -> whether a run that is missing is
      trained.
  """
  for run in runs:
    key, rows = tuple(map(str, run)), read(log, columns)
    trained = {tuple(row.values())[: len(key)] for row in rows}
    if key in trained or not is_wanted(run, rows):
      continue
    begin = time.monotonic()
    untrained, *curves = curves_of(run)
    texts = (' '.join(f'{x:.4f}' for x in curve) for curve in curves)
    append(log, columns, [[*key, f'{untrained:.4f}', *texts]])
    seconds = time.monotonic() - begin
    print(*key, f'{curves[0][-1]:.4f}', f'{seconds:.1f} s', flush=True)
