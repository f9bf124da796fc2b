"""cycles.csv: what happened in a run, one line per event.

It grows by whole lines. Readers ignore a last line without a newline, left by a
process that was killed.
"""

from __future__ import annotations

import csv
import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .writing import write_whole

CYCLES = 'cycles.csv'
# The columns of every run. The parts in force add their own.
COLUMNS = (
  'global_step',
  'event',
  'cycle',
  'setting',
  'reason',
  'cycle_end',
  'pace',
  'anchor_local',
  'scale',
  'peak_value',
  'evaluation',
  'loss',
  'learning_rate',
  'mode',
  'tau',
  'alpha',
  'metric',
  'metric_step',
  'note',
)


def read_events(folder: pathlib.Path) -> list[dict[str, str]]:
  """The events in cycles.csv, as column -> text; none if there is no such file.

  Files of older runs may have fewer columns.
  """
  return _read(folder / CYCLES)[1]


def _read(path: pathlib.Path) -> tuple[list[str], list[dict[str, str]]]:
  """(columns, rows) of the lines that are whole."""
  if not path.exists():
    return [], []
  whole, _, _ = path.read_text().rpartition('\n')
  reader = csv.DictReader(io.StringIO(whole))
  rows = list(reader)
  return list(reader.fieldnames or ()), rows


class EventLog:
  """Writes cycles.csv."""

  def __init__(self, folder: pathlib.Path):
    """For a file in the run's folder; writes nothing yet."""
    self._path = folder / CYCLES
    self._columns = list(COLUMNS)

  def keep_before(self, step: int, columns: Iterable[str] = ()) -> None:
    """Drops the events from a step on, which a resumed run repeats.

    Makes the file if there is none. Further columns of an existing file stay,
    after these.

    Args:
      step: the first step whose events are dropped.
      columns: those of the parts in force, besides COLUMNS.
    """
    own, rows = _read(self._path)
    self._columns = list(dict.fromkeys([*COLUMNS, *columns, *own]))
    kept = [row for row in rows if int(row['global_step']) < step]
    write_whole(self._path, self._as_text(kept, header=True).encode())

  def append(self, rows: Sequence[Mapping[str, Any]], global_step: int) -> None:
    """Adds lines for events before a step, in one write.

    Nothing in the file can be lost by this, and it takes a fraction of the
    timed seconds of rewriting and renaming the file. If it fails, no partial
    line is left to be joined to the next one.

    Args:
      rows: the events, in order.
      global_step: the step about to be taken.

    Raises:
      OSError: if the file cannot be written.
      ValueError: if a row has a column that the file does not have.
    """
    stepped = [{'global_step': global_step, **row} for row in rows]
    # Unbuffered, so that nothing is written again when the file is closed.
    with self._path.open('ab', buffering=0) as log:
      end = log.seek(0, io.SEEK_END)
      content = self._as_text(stepped, header=end == 0).encode()
      if log.write(content) != len(content):
        log.truncate(end)
        raise OSError(f'{self._path}: could not write whole lines')

  def _as_text(
    self, rows: Iterable[Mapping[str, Any]], header: bool = False
  ) -> str:
    text = io.StringIO(newline='')
    writer = csv.DictWriter(text, self._columns, lineterminator='\n')
    if header:
      writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
