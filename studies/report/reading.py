"""A run as the page shows it: its files, read together."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files, metadata
from ...training.configuration import CONFIGURATION, read_configuration
from ...training.events import CYCLES
from ..runs.log import Log, read_log
from ..runs.table import RunTable, read_run
from ..scores.times import read_target

# Of the meta data. The rest of the benchmark's is the load of its machine.
_ABOUT = ('workload.', 'device_', 'os_platform', 'python_version')
# Of a folder's name: experiment, workload and trial. The page does not say where
# on the machine they are.
_PARTS = 3

Event = Mapping[str, str]  # a row of cycles.csv without what is blank


class ReportedRun(NamedTuple):
  """One run. Steps are global steps."""

  place: str  # the end of its folder's name
  name: str  # of the experiment, or else the place; with the seed
  table: RunTable
  rises: bool  # whether a larger metric is better
  events: Sequence[Event]  # in order; none for another submission
  settings: Mapping[str, str]  # by field, as JSON; empty if no file has them
  about: Mapping[str, str]  # workload, devices and versions
  written: float  # when its files were last written, seconds since 1970

  @property
  def reached(self) -> int | None:
    """Index of the first evaluation at the target or beyond it."""
    metric, target = self.table.metric, self.table.target
    at = np.flatnonzero(metric >= target if self.rises else metric <= target)
    return int(at[0]) if at.size else None

  def best(self, after: int = -1, upto: float = np.inf) -> int | None:
    """Index of the best evaluation with a finite metric.

    Args:
      after: the evaluations that count are after this step.
      upto: the last step that counts.

    Returns:
      The index, the first one of several that are as good; None without one.
    """
    steps, metric = self.table.eval_steps, self.table.metric
    counts = np.isfinite(metric) & (steps > after) & (steps <= upto)
    if not counts.any():
      return None
    worth = np.where(counts, metric if self.rises else -metric, -np.inf)
    return int(np.argmax(worth))

  def seconds_at(self, step: float) -> float:
    """Seconds of training at a step, between the evaluations around it.

    Returns:
      Seconds that count as score; NaN beyond the last evaluation, where they
      are not known, and before the first one.
    """
    steps, seconds = self.table.eval_steps, self.table.eval_times
    known = np.isfinite(seconds)
    if not known.any():
      return np.nan
    return float(
      np.interp(step, steps[known], seconds[known], left=np.nan, right=np.nan)
    )


def read_all(trials: Sequence[pathlib.Path]) -> list[ReportedRun]:
  """Reads runs; those with the same name are told apart by their folders.

  Args:
    trials: see `read_reported`.

  Raises:
    ValueError: if a file of one is missing or damaged; names it.
  """
  runs = [read_reported(trial) for trial in trials]
  names = [(run.table.workload, run.name) for run in runs]
  return [
    run
    if names.count(name) == 1
    else run._replace(name=f'{run.name} ({run.place})')
    for name, run in zip(names, runs)
  ]


def read_reported(trial: pathlib.Path) -> ReportedRun:
  """Reads a trial's folder, also of a run that is still going.

  Args:
    trial: see `read_run`.

  Raises:
    ValueError: if a file that is needed is missing or damaged; names it.
  """
  meta_path = metadata.meta_data_path(trial)
  table = read_run(trial)
  _, _, rises = read_target(meta_path)
  meta = files.read_json(meta_path)
  place = '/'.join(trial.resolve().parts[-_PARTS:])
  seed = [] if table.seed is None else [f'seed {table.seed}']
  return ReportedRun(
    place=place,
    name=', '.join([table.name or place, *seed]),
    table=table,
    rises=rises,
    events=_events(read_log(trial / CYCLES)),
    settings=_settings(trial),
    about={
      name: str(value)
      for name, value in meta.items()
      if name.startswith(_ABOUT) or name.endswith('_version')
    },
    # Not those that are being written: they are gone a moment later.
    written=max(
      path.stat().st_mtime
      for pattern in ('*.csv', '*.json')
      for path in trial.glob(pattern)
    ),
  )


def _events(log: Log) -> list[Event]:
  log.whole_numbers('global_step')  # refuses what is none
  return [
    {name: value for name, value in row.items() if value} for row in log.rows
  ]


def _settings(trial: pathlib.Path) -> dict[str, str]:
  path = trial / CONFIGURATION
  if not path.exists():
    return {}
  step_hint, params = read_configuration(trial)
  settings = {'step_hint': step_hint, **flat(params.to_dict())}
  others = files.read_json(path).get('not_in_force')
  if others:
    settings['not_in_force'] = others
  return {name: json.dumps(value) for name, value in settings.items()}


def flat(values: Mapping[str, object]) -> dict[str, object]:
  """The fields of a ScheduleParams, those of hparams among them by name.

  Args:
    values: of `ScheduleParams.to_dict`.
  """
  hparams = values['hparams']
  assert isinstance(hparams, Mapping)
  own = {name: value for name, value in values.items() if name != 'hparams'}
  return {**own, **{f'hparams.{name}': v for name, v in hparams.items()}}
