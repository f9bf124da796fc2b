"""The files that a run leaves in the benchmark's experiment folder.

lr_schedule.png and schedule_params.json are written before the first step,
cycles.csv grows by a line per event. Whatever replaces a file is written whole:
to a temporary file that then takes the name.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import flags, logging

from ..schedule_params import ScheduleParams, lay_out
from ..schedules import lr_schedule

CONFIGURATION = 'schedule_params.json'
SCHEDULE_PICTURE = 'lr_schedule.png'
CYCLES = 'cycles.csv'
COLUMNS = (
  'global_step',
  'event',
  'cycle',
  'reason',
  'cycle_end',
  'pace',
  'peak_value',
  'evaluation',
  'loss',
  'smoothed_loss',
  'derivative',
  'case1',
  'case2',
  'stopping',
  'learning_rate',
  'mode',
  'tau',
  'alpha',
  'metric',
  'metric_step',
  'setting',
  'anchor_local',
  'scale',
  'note',
)


def find_folder(hyperparameters: Any) -> pathlib.Path | None:
  """The folder of the trial that is starting, from the runner's flags.

  Args:
    hyperparameters: None under self-tuning, where there is one trial; else the
      point of the search space, which the runner has written into the trial's
      hparams.json. The newest trial with that point is the one.

  Returns:
    The folder, or None if no flags are parsed, the flags name no folder or the
    folder does not exist.

  Source: the runner's get_log_dir and train_once, both generations.
  """
  values = _flag_values('experiment_dir', 'workload', 'framework')
  if values is None:
    return None
  root, workload, framework = values
  named = _flag_values('experiment_name')
  experiment = pathlib.Path(root).expanduser() / (named[0] if named else '')
  if _flag_values('append_timestamp') == [True]:
    experiment = _newest(experiment.parent.glob(experiment.name + '-*'))
  if experiment is None:
    return None
  trial = _find_trial(experiment / f'{workload}_{framework}', hyperparameters)
  return trial if trial is not None and trial.is_dir() else None


def _flag_values(*names: str) -> list[Any] | None:
  """Values of flags; None unless all are defined, parsed and not empty."""
  known = flags.FLAGS
  if not known.is_parsed() or any(name not in known for name in names):
    return None
  values = [known[name].value for name in names]
  return None if any(v in (None, '') for v in values) else values


def _newest(paths) -> pathlib.Path | None:
  return max(paths, key=lambda path: path.stat().st_mtime, default=None)


def _find_trial(folder, hyperparameters) -> pathlib.Path | None:
  if not hyperparameters:
    return folder / 'trial_1'

  def is_its(trial):
    path = trial / 'hparams.json'
    point = getattr(hyperparameters, '_asdict', lambda: hyperparameters)()
    return path.exists() and json.loads(path.read_text()) == json.loads(
      json.dumps(point)
    )

  trials = sorted(
    folder.glob('trial_*'), key=lambda path: int(path.name.split('_')[1])
  )
  return next((trial for trial in reversed(trials) if is_its(trial)), None)


def _write_whole(path: pathlib.Path, content: bytes) -> None:
  temporary = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
  temporary.write_bytes(content)
  os.replace(temporary, path)


def write_configuration(
  folder: pathlib.Path,
  step_hint: int,
  params: ScheduleParams,
  not_in_force: Sequence[str] = (),
) -> None:
  """Writes the resolved configuration as JSON.

  Args:
    folder: the run's folder.
    step_hint: the workload's, steps.
    params: the configuration.
    not_in_force: names of settings that the benchmark has decided itself.
  """
  values = {
    'step_hint': step_hint,
    'not_in_force': list(not_in_force),
    'schedule_params': json.loads(params.to_json()),
  }
  text = json.dumps(values, indent=2) + '\n'
  _write_whole(folder / CONFIGURATION, text.encode())


def read_configuration(folder: pathlib.Path) -> tuple:
  """(step_hint, ScheduleParams) that `write_configuration` wrote."""
  values = json.loads((folder / CONFIGURATION).read_text())
  return values['step_hint'], ScheduleParams.from_dict(
    values['schedule_params']
  )


def plot_schedule(axes: Any, step_hint: int, params: ScheduleParams) -> None:
  """Draws the planned learning rate, with the starts of new cycles.

  Args:
    axes: matplotlib axes.
    step_hint: the workload's step_hint, steps.
    params: the chain.
  """
  cycles = lay_out(step_hint, params)
  schedule, _, reinit_steps = lr_schedule.static_chain(cycles)
  horizon = sum(cycle.steps for cycle in cycles)
  steps = np.unique(np.linspace(0, horizon - 1, 2000).astype(np.int32))
  axes.plot(steps, np.asarray(jax.vmap(schedule)(steps)), color='tab:blue')
  for step in reinit_steps:
    axes.axvline(step, color='0.5', linestyle='--', linewidth=1)
  axes.set_xlim(0, horizon)
  axes.set_ylim(bottom=0)
  axes.set_xlabel('global step')
  axes.set_ylabel('learning rate')


def draw_schedule(
  folder: pathlib.Path, step_hint: int, params: ScheduleParams
) -> None:
  """Writes the picture of the planned learning rate, if matplotlib is there."""
  try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
  except ImportError:
    logging.info('matplotlib is missing: no %s.', SCHEDULE_PICTURE)
    return
  figure = Figure(figsize=(7, 3), layout='constrained')
  canvas = FigureCanvasAgg(figure)
  axes = figure.add_subplot()
  plot_schedule(axes, step_hint, params)
  axes.set_title('Planned learning rate; dashed: a new cycle starts')
  picture = io.BytesIO()
  canvas.print_png(picture)
  _write_whole(folder / SCHEDULE_PICTURE, picture.getvalue())


def read_events(folder: pathlib.Path) -> list[dict[str, str]]:
  """The events in cycles.csv; none if there is no such file.

  A last line without its end, left by a process that was killed, is ignored.
  """
  path = folder / CYCLES
  if not path.exists():
    return []
  whole, _, _ = path.read_text().rpartition('\n')
  return list(csv.DictReader(io.StringIO(whole)))


def _as_lines(rows: Sequence[dict], header: bool = False) -> str:
  text = io.StringIO(newline='')
  writer = csv.DictWriter(text, COLUMNS, lineterminator='\n')
  if header:
    writer.writeheader()
  writer.writerows(rows)
  return text.getvalue()


def keep_events_before(folder: pathlib.Path, step: int) -> None:
  """Drops the events from a step on: a resumed run repeats them.

  Makes the file if there is none.
  """
  rows = [r for r in read_events(folder) if int(r['global_step']) < step]
  _write_whole(folder / CYCLES, _as_lines(rows, header=True).encode())


def append_events(
  folder: pathlib.Path, rows: Sequence[dict], global_step: int
) -> None:
  """Adds lines for events before a step to cycles.csv, in one write.

  Nothing that is in the file can be lost by it, and on the clock it takes a
  fraction of writing the file anew and renaming it.

  Raises:
    ValueError: if a row has a column that the file does not have.
  """
  lines = _as_lines([{'global_step': global_step, **row} for row in rows])
  with (folder / CYCLES).open('a') as log:
    log.write(lines)


def log_scalars(
  metrics_logger: Any,
  rows: Sequence[dict[str, Any]],
  step_metrics: dict[str, Any],
  global_step: int,
) -> None:
  """Passes the finite numbers of events on to the benchmark's metrics logger.

  In one call, since each call rewrites the benchmark's files. The validation
  loss, which the runner logs itself, makes way for the loss of the last step,
  which goes by the name `loss` in the benchmark's own submissions.

  Args:
    metrics_logger: the workload's.
    rows: events, in order; the last value of a column counts.
    step_metrics: loss and gradient norm of the last step, or nothing.
    global_step: the step about to be taken.
  """
  merged = {}
  for row in rows:
    merged.update(row)
  merged.pop('loss', None)
  merged.update(step_metrics)
  scalars = {
    key: float(value)
    for key, value in merged.items()
    if not isinstance(value, str) and math.isfinite(value)
  }
  metrics_logger.append_scalar_metrics(scalars, global_step)
