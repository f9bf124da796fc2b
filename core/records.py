"""The files that a run writes. No failure to write them ends the run.

Of several processes only the first writes. The picture and the settings are
written before the first step, cycles.csv grows by whole lines, one per event,
and the benchmark's metrics logger gets the numbers.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from absl import flags, logging

from .schedules import Chain
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

  def __init__(self, hyperparameters: Any) -> None:
    self._failed: set[str] = set()
    self._columns: list[str] = []
    what = "finding the run's folder"
    self.folder = self._attempt(what, find_folder, hyperparameters)
    if self.folder is None:
      logging.warning(
        'No experiment folder was found: training goes on, nothing is saved.'
      )
    self._writes = jax.process_index() == 0

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

  def write_settings(
    self, step_hint: int, schedule_params: Any, chain: Chain
  ) -> None:
    """Writes the settings and the picture of the plan, before the first step.

    Raises:
      ValueError: if a run with other settings or another step_hint has begun in
        the folder: one that is resumed must go on as it began.
    """
    if self.folder is None:
      return
    values = {
      'step_hint': step_hint,
      'schedule_params': as_plain(schedule_params),
    }
    path = self.folder / SETTINGS
    if any(
      re.fullmatch(r'checkpoint_\d+', p.name)
      for p in self.folder.glob('checkpoint_*')
    ):
      _check_same(path, values)
    if not self._writes:
      return
    text = json.dumps(values, indent=2, default=repr) + '\n'
    self._attempt(f'writing {SETTINGS}', write_whole, path, text.encode())
    self._attempt(f'drawing {PICTURE}', _draw, self.folder / PICTURE, chain)

  def start(self, global_step: int, columns: Iterable[str]) -> None:
    """Begins cycles.csv; a resumed run continues it from its step.

    Args:
      global_step: the step about to be taken.
      columns: those of the switching rule.
    """
    self._columns = [*COLUMNS, *columns]
    if self.folder is not None and self._writes:
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


def _draw(path: pathlib.Path, chain: Chain) -> None:
  """Draws the planned learning rate, if matplotlib is installed."""
  try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
  except ImportError:
    logging.info('matplotlib is missing: no %s.', PICTURE)
    return
  horizon = sum(cycle.steps for cycle in chain.cycles)
  # About three points per pixel of the picture's width.
  steps = np.unique(np.linspace(0, horizon - 1, 2000).astype(np.int32))
  figure = Figure(layout='constrained', figsize=(7, 3))
  axes = figure.subplots()
  axes.plot(steps, np.asarray(jax.vmap(chain.schedule)(steps)))
  for start in chain.reinit_steps:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  axes.set_title('Planned; dashed: a new cycle starts', loc='left')
  axes.set(xlabel='global step', ylabel='learning rate', xlim=(0, horizon))
  picture = io.BytesIO()
  FigureCanvasAgg(figure).print_png(picture)
  write_whole(path, picture.getvalue())


def find_folder(hyperparameters: Any) -> pathlib.Path | None:
  """The folder of the trial that is starting, from the runner's flags.

  Args:
    hyperparameters: None under self-tuning, where there is one trial; else the
      point of the search space, which the runner has written into the trial's
      hparams.json. The newest trial with that point is taken.

  Returns:
    The folder, or None if no flags are parsed, the flags name no folder or the
    folder does not exist.

  Source: the runner's get_log_dir and train_once, both generations.
  """
  known = flags.FLAGS
  names = ('experiment_dir', 'workload', 'framework')
  if not known.is_parsed() or any(name not in known for name in names):
    return None
  root, workload, framework = (known[name].value for name in names)
  if not (root and workload and framework):
    return None
  name = known['experiment_name'].value if 'experiment_name' in known else ''
  experiment = pathlib.Path(root).expanduser() / (name or '')
  if 'append_timestamp' in known and known['append_timestamp'].value:
    found = experiment.parent.glob(f'{experiment.name}-*')
    newest = max(found, key=lambda path: path.stat().st_mtime, default=None)
    experiment = newest or experiment
  trials = experiment / f'{workload}_{framework}'
  trial = trials / 'trial_1'
  if hyperparameters:
    matches = [p for p in trials.glob('trial_*') if p.name[6:].isdecimal()]
    matches = [p for p in matches if _has_point(p, hyperparameters)]
    trial = max(matches, key=lambda p: int(p.name[6:]), default=trial)
  return trial if trial.is_dir() else None


def _has_point(trial: pathlib.Path, hyperparameters: Any) -> bool:
  """Whether a trial is that of a point of the search space."""
  given = getattr(hyperparameters, '_asdict', lambda: hyperparameters)()
  try:
    point = json.loads((trial / 'hparams.json').read_text())
  except (OSError, ValueError):
    return False
  return bool(point == json.loads(json.dumps(given)))
