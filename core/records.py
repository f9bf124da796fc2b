"""The files that a run writes. No failure to write them ends the run.

They lie beside those of the benchmark's metrics logger, which gets the numbers
of events as well. Of several processes only the first writes. The picture and
the settings are written at the first step, cycles.csv grows by whole lines, one
per event.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from absl import logging

from .schedules import PlannedCycle, sampled_rates
from .workload import MetricsLogger

CYCLES = 'cycles.csv'
SETTINGS = 'schedule_params.json'
PICTURE = 'lr_schedule.png'
# The columns of every run. The switching rule adds its own.
COLUMNS = (
  *('global_step', 'event', 'cycle', 'setting', 'reason', 'cycle_end', 'pace'),
  *('anchor_local', 'scale', 'peak_value', 'evaluation', 'loss'),
  *('learning_rate', 'mode', 'tau', 'alpha', 'metric', 'metric_step'),
  'note',
)

Event = dict[str, Any]
T = TypeVar('T')


def write_whole(path: pathlib.Path, content: bytes) -> None:
  """Writes a file so that no reader ever sees only a part of it.

  Args:
    path: file to write; an existing one is replaced.
    content: of the file.
  """
  temporary = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
  try:
    temporary.write_bytes(content)
    os.replace(temporary, path)
  finally:
    temporary.unlink(missing_ok=True)


def as_plain(value: Any) -> Any:
  """A setting as JSON writes it: an object is its class and its fields.

  Example: Cosine(floor=.1) is {'class': 'Cosine', 'floor': 0.1}.
  """
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    fields = {
      field.name: as_plain(getattr(value, field.name))
      for field in dataclasses.fields(value)
    }
    return {'class': type(value).__name__, **fields}
  if isinstance(value, (tuple, list)):
    return [as_plain(item) for item in value]
  return value.item() if isinstance(value, np.generic) else value


class Records:
  """The files of a run and the benchmark's metrics logger.

  Attributes:
    folder: where the files go; None if nothing is saved.
  """

  def __init__(
    self, step_hint: int, schedule_params: Any, cycles: Sequence[PlannedCycle]
  ) -> None:
    """Draws the plan; nothing is written before `start`."""
    self.folder: pathlib.Path | None = None
    self._failed: set[str] = set()
    self._columns: list[str] = []
    self._writes = jax.process_index() == 0
    self._settings = {
      'step_hint': step_hint,
      'schedule_params': as_plain(schedule_params),
    }
    self._picture = self._attempt(f'drawing {PICTURE}', _drawn, cycles)

  def _attempt(self, what: str, fn: Callable[..., T], *args: Any) -> T | None:
    """fn(*args); if that raises, None, and it is said once for each `what`.

    A full disk or a logger that raises is worth one warning, not the run.
    """
    try:
      return fn(*args)
    # A foreign logger may raise anything.
    except Exception as error:  # noqa: BLE001
      if what not in self._failed:
        self._failed.add(what)
        logging.warning(
          '%s failed: %s: %s. The run goes on; this is logged only once.',
          what[:1].upper() + what[1:],
          type(error).__name__,
          error,
        )
      return None

  def start(
    self,
    metrics_logger: MetricsLogger | None,
    global_step: int,
    columns: Iterable[str],
  ) -> None:
    """Begins the files of a run; a resumed run continues them from its step.

    Args:
      metrics_logger: the workload's; its files lie in the run's folder.
      global_step: the step about to be taken.
      columns: those of the switching rule.

    Raises:
      ValueError: if a run with other settings or another step_hint has begun in
        the folder: one that is resumed must go on as it began.
    """
    self._columns = [*COLUMNS, *columns]
    # The attribute has this name in the benchmark's loggers of both generations.
    log = getattr(metrics_logger, '_csv_path', None)
    self.folder = None if log is None else pathlib.Path(log).parent
    if self.folder is None or not self._writes:
      return
    path = self.folder / SETTINGS
    if global_step > 0:
      _check_same(path, self._settings)
    text = json.dumps(self._settings, indent=2, default=repr) + '\n'
    self._attempt(f'writing {SETTINGS}', write_whole, path, text.encode())
    if self._picture:
      picture = self.folder / PICTURE
      self._attempt(f'writing {PICTURE}', write_whole, picture, self._picture)
    path = self.folder / CYCLES
    self._attempt(f'writing {CYCLES}', self._keep_before, path, global_step)

  def _keep_before(self, path: pathlib.Path, step: int) -> None:
    rows = [r for r in read_events(path) if int(r['global_step']) < step]
    text = self._as_text(rows, header=True)
    write_whole(path, text.encode())

  def add(
    self,
    events: Sequence[Event],
    global_step: int,
    metrics_logger: MetricsLogger | None,
    step_metrics: Mapping[str, Any],
  ) -> None:
    """Writes events to cycles.csv and to the benchmark's metrics logger.

    Args:
      events: in order.
      global_step: the step about to be taken.
      metrics_logger: the workload's.
      step_metrics: loss and gradient norm of the last step, on the host.
    """
    if not self._writes:
      return
    rows = [{'global_step': global_step, **event} for event in events]
    if self.folder is not None:
      self._attempt(f'writing {CYCLES}', self._append, rows)
    if metrics_logger is not None:
      what = "the benchmark's metrics logger"
      self._attempt(
        what, _log_scalars, metrics_logger, events, step_metrics, global_step
      )

  def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds lines in one write; a partial one is not left for the next."""
    assert self.folder is not None
    path = self.folder / CYCLES
    # Unbuffered, so that nothing is written again when the file is closed.
    with path.open('ab', buffering=0) as log:
      end = log.seek(0, io.SEEK_END)
      content = self._as_text(rows, header=end == 0).encode()
      if log.write(content) != len(content):
        log.truncate(end)
        raise OSError(f'{path}: could not write whole lines')

  def _as_text(self, rows: Iterable[Mapping[str, Any]], header: bool) -> str:
    text = io.StringIO(newline='')
    writer = csv.DictWriter(
      text, self._columns, lineterminator='\n', extrasaction='ignore'
    )
    if header:
      writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read_events(path: pathlib.Path) -> list[dict[str, str]]:
  """The events in a cycles.csv, as column -> text; none if there is no file.

  A last line without a newline, left by a process that was killed, and lines
  that are no events are left out.
  """
  if not path.is_file():
    return []
  whole, _, _ = path.read_text(errors='replace').rpartition('\n')
  rows = csv.DictReader(io.StringIO(whole))
  return [row for row in rows if (row.get('global_step') or '').isdecimal()]


def _log_scalars(
  metrics_logger: MetricsLogger,
  events: Sequence[Event],
  step_metrics: Mapping[str, Any],
  global_step: int,
) -> None:
  """Passes the finite numbers of events on, in one call: each rewrites files.

  `loss` is the training loss of the last step, as in the benchmark's own
  submissions; the runner logs the validation loss itself.
  """
  merged: Event = {}
  for event in events:
    merged.update(event)
  merged.pop('loss', None)
  merged.update(step_metrics)
  scalars = {
    key: float(value)
    for key, value in merged.items()
    if not isinstance(value, str) and math.isfinite(value)
  }
  metrics_logger.append_scalar_metrics(scalars, global_step)


def _check_same(path: pathlib.Path, values: Mapping[str, Any]) -> None:
  """Raises ValueError if a run that is resumed was begun with other values."""
  try:
    begun = json.loads(path.read_text())
  except (OSError, ValueError):
    return  # nothing to compare with
  now = json.loads(json.dumps(values, default=repr))
  for name in ('step_hint', 'schedule_params'):
    if begun.get(name) != now[name]:
      raise ValueError(
        f'{path}: the run in this folder was begun with another {name}; resume '
        'it with that one, or start a new experiment.'
      )


def _drawn(cycles: Sequence[PlannedCycle]) -> bytes:
  """The planned learning rate as a PNG; empty if matplotlib is missing."""
  try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
  except ImportError:
    logging.info('matplotlib is missing: no %s.', PICTURE)
    return b''
  ends = np.cumsum([cycle.steps for cycle in cycles])
  starts = ends - [cycle.steps for cycle in cycles]
  rates = sampled_rates(cycles)
  figure = Figure(layout='constrained', figsize=(7, 3))
  axes = figure.subplots()
  steps = np.linspace(starts, ends, rates.shape[1], axis=1)
  axes.plot(steps.ravel(), rates.ravel())
  for start in starts[1:]:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  axes.set_title('Planned; dashed: a new cycle starts', loc='left')
  axes.set(xlabel='global step', ylabel='learning rate', xlim=(0, ends[-1]))
  picture = io.BytesIO()
  FigureCanvasAgg(figure).print_png(picture)
  return picture.getvalue()
