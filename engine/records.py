"""The files that a run writes. No failure to write them ends the run.

They lie beside those of the benchmark's metrics logger, which gets the numbers
of events as well. Of several processes only the first writes.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from ..core.chain import Chain
from ..core.whole_files import replace_file
from ..early_switching import COLUMNS, logged_beside
from .events import Row
from .picture import Piece, drawn, pieces_of

CYCLES = 'cycles.csv'
SETTINGS = 'schedule_params.json'
PICTURE = 'lr_schedule.png'


def as_plain(value: Any) -> Any:
  """A setting as JSON writes it, e.g. {'class': 'Cosine', 'floor': 0.1}."""
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    names = [field.name for field in dataclasses.fields(value)]
    plain = {name: as_plain(getattr(value, name)) for name in names}
    return {'class': type(value).__name__, **plain}
  if isinstance(value, (tuple, list)):
    return [as_plain(item) for item in value]
  return value.item() if isinstance(value, np.generic) else value


def described(value: Any) -> str:
  """What repr says, but for a function's address, which each process changes.

  Of functions in a tuple, as an optimizer is, only the tuple's type is named.
  """
  if isinstance(value, tuple) and any(map(callable, value)):
    return f'{type(value).__name__}(…)'
  return re.sub(' at 0x[0-9a-f]+', '', repr(value))


def _as_text(written: Mapping[str, Any]) -> str:
  plain = {name: as_plain(value) for name, value in written.items()}
  return json.dumps(plain, indent=2, default=described) + '\n'


class Records:
  """The files of a run and the benchmark's metrics logger."""

  def __init__(self, step_hint: int, settings: Any, chain: Chain) -> None:
    """Draws the plan; nothing is written before `start`."""
    self.folder: pathlib.Path | None = None  # None if nothing is written there
    self._logger: Any = None
    self._failed: set[str] = set()
    beside = logged_beside(settings.switching)
    logged = beside.columns if beside else ()
    self._columns = [*COLUMNS, *settings.switching.columns, *logged]
    self._written = {'step_hint': step_hint, 'schedule_params': settings}
    self._chain = chain
    self._pieces = pieces_of(chain, [])
    self._picture = self._drawn([])

  def _drawn(self, pieces: Sequence[Piece]) -> Any:
    return self._attempt(f'drawing {PICTURE}', drawn, self._chain, pieces)

  def _attempt(self, what: str, fn: Callable[..., Any], *args: Any) -> Any:
    """fn(*args); a full disk costs one warning for each `what`, not the run."""
    try:
      return fn(*args)
    except Exception as error:  # noqa: BLE001  # a logger may raise anything
      if what not in self._failed:
        self._failed.add(what)
        failure = f'{what[:1].upper()}{what[1:]} failed: {type(error).__name__}'
        rest = 'The run goes on; this is logged only once.'
        logging.warning('%s: %s. %s', failure, error, rest)
      return None

  def start(self, metrics_logger: Any, global_step: int) -> None:
    """Begins the files of a run, or continues them from a resumed run's step.

    Raises:
      ValueError: if a run with other settings has begun in the folder.
    """
    if jax.process_index() != 0:
      return
    self._logger = metrics_logger
    # The attribute has this name in the benchmark's loggers of both
    # generations.
    log = getattr(metrics_logger, '_csv_path', None)
    if log is None:
      return
    self.folder = pathlib.Path(log).parent
    if global_step > 0:
      check_settings(self.folder, **self._written)
    text = _as_text(self._written)
    self._write(SETTINGS, replace_file, text.encode())
    if self._picture:
      self._write(PICTURE, replace_file, self._picture)
    self._write(CYCLES, self._add_rows, [], global_step)

  def _write(self, name: str, write: Callable[..., None], *args: Any) -> None:
    if self.folder is not None:
      self._attempt(f'writing {name}', write, self.folder / name, *args)

  def add(
    self, events: Sequence[Row], step: int, metrics: Mapping[str, Any]
  ) -> None:
    """Writes events to cycles.csv; the logger gets the step's metrics, too.

    Where a cycle starts, the picture is drawn anew if the plan has changed.
    """
    rows = [{'global_step': step, **event} for event in events]
    self._write(CYCLES, self._add_rows, rows)
    if self.folder and any(row['event'] == 'cycle_start' for row in rows):
      self._attempt(f'drawing {PICTURE}', self._draw_anew, self.folder)
    if self._logger is not None:
      what = "the benchmark's metrics logger"
      self._attempt(what, self._log_scalars, events, step, metrics)

  def _draw_anew(self, folder: pathlib.Path) -> None:
    pieces = pieces_of(self._chain, read_events(folder / CYCLES))
    if pieces != self._pieces:
      self._pieces = pieces
      if picture := self._drawn(pieces):
        self._write(PICTURE, replace_file, picture)

  def _log_scalars(
    self, events: Sequence[Row], step: int, metrics: Mapping[str, Any]
  ) -> None:
    """Passes the finite numbers of events on, in one call: each rewrites files.

    `loss` is the last step's; the runner logs the validation loss itself.
    """
    merged = {name: x for event in events for name, x in event.items()}
    merged.pop('loss', None)
    scalars = {
      name: float(x)
      for name, x in {**merged, **metrics}.items()
      if not isinstance(x, str) and math.isfinite(x)
    }
    self._logger.append_scalar_metrics(scalars, step)

  def _add_rows(
    self,
    path: pathlib.Path,
    rows: Sequence[Mapping[str, Any]],
    before: float = math.inf,
  ) -> None:
    """Writes rows behind those of the file that are of steps before one."""
    kept = [r for r in read_events(path) if int(r['global_step']) < before]
    text = io.StringIO(newline='')
    writer = csv.DictWriter(
      text, self._columns, lineterminator='\n', extrasaction='ignore'
    )
    writer.writeheader()
    writer.writerows([*kept, *rows])
    replace_file(path, text.getvalue().encode())


def read_events(path: pathlib.Path) -> list[dict[str, str]]:
  """The whole lines of events in a cycles.csv, as column -> text, if any."""
  if not path.is_file():
    return []
  whole, _, _ = path.read_text(errors='replace').rpartition('\n')
  rows = csv.DictReader(io.StringIO(whole))
  return [row for row in rows if (row.get('global_step') or '').isdecimal()]


def check_settings(folder: pathlib.Path, **written: Any) -> None:
  """Raises ValueError if the run in a folder was begun with other settings.

  Args:
    folder: of the run's files.
    written: what to compare, by its name in the file of the settings, such as
      schedule_params; that of a file that is missing or damaged is not known.
  """
  path = folder / SETTINGS
  try:
    recorded = json.loads(path.read_text())
  except (OSError, ValueError):
    return  # nothing to compare with
  for name, value in json.loads(_as_text(written)).items():
    if recorded.get(name) != value:
      raise ValueError(
        f'{path}: the run in this folder was begun with another {name}; resume '
        'it with that one, or start a new experiment.'
      )
