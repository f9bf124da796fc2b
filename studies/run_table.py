"""What a run's files say, in the form that its picture and summary need."""

from __future__ import annotations

import functools
import pathlib
from typing import Any, NamedTuple

import numpy as np

from ..mini_algoperf import files, logger, metadata
from ..schedule_params import ScheduleParams
from ..schedules import cycle_clock, lr_schedule
from ..training import records
from . import cycle_table


class Losses(NamedTuple):
  """What the switching rule sees, from cycles.csv; empty without that file."""

  steps: np.ndarray  # shape=(n,)
  loss: np.ndarray  # shape=(n,); L, the validation loss
  smoothed_loss: np.ndarray  # shape=(n,); l
  loss_change: np.ndarray  # shape=(n,); l'


class RunTable(NamedTuple):
  """One run. Steps are global steps."""

  workload: str
  metric_name: str  # the target metric, without the split
  target: float  # on the validation split
  eval_steps: np.ndarray  # shape=(evaluations,)
  metric: np.ndarray  # shape=(evaluations,); validation, NaN if it diverged
  eval_times: np.ndarray  # shape=(evaluations,); seconds that count as score
  last_step: int  # steps taken
  rate_steps: np.ndarray  # shape=(steps,); empty if no rate was logged
  rates: np.ndarray  # shape=(steps,)
  cycle_starts: list[int]  # the first step of each cycle that was started
  cycle_ends: list[int]  # the first step after each of them
  warmups: list[tuple[float, float]]  # first step and end of each warm-up
  losses: Losses
  resets: list[tuple[int, float]]  # (step, tau)
  switches: list[tuple[int, str]]  # (step, reason)

  @property
  def num_cycles(self) -> int:
    """Cycles that were started; 0 for another project's submission."""
    return len(self.cycle_starts)


def read_run(log_dir: pathlib.Path) -> RunTable:
  """Reads a trial's folder, whichever submission was run.

  Args:
    log_dir: has meta_data_0.json and, as far as the run has come,
      eval_measurements.csv, measurements.csv, cycles.csv and
      schedule_params.json; the last two are this project's submission's. The
      benchmark's runner leaves the workload's name in flags_0.json alone.

  Raises:
    ValueError: if a file that is needed is missing or not JSON.
  """
  meta = _read_required(metadata.meta_data_path(log_dir))
  name = meta['workload.target_metric_name']
  rows = _with_steps(files.read_rows(log_dir / logger.EVAL_MEASUREMENTS))
  evaluations = _in_order(rows)
  measurements = _with_steps(files.read_rows(log_dir / logger.MEASUREMENTS))
  events = records.read_events(log_dir)
  last_step = max(
    (int(row['global_step']) for row in [*measurements, *events]), default=0
  )
  starts = [row for row in events if row['event'] == 'cycle_start']
  is_planned = starts and (log_dir / records.CONFIGURATION).exists()
  if is_planned:
    rates = _planned_rates(log_dir, starts, last_step)
  else:
    rates = _column(measurements, 'learning_rate')
  return RunTable(
    workload=_workload_name(log_dir, meta),
    metric_name=name,
    target=meta['workload.validation_target_value'],
    eval_steps=np.array(
      [int(row['global_step']) for row in evaluations], np.int64
    ),
    metric=_numbers(evaluations, f'validation/{name}'),
    eval_times=_numbers(evaluations, 'accumulated_submission_time'),
    last_step=last_step,
    rate_steps=rates[0],
    rates=rates[1],
    cycle_starts=_steps_of(events, 'cycle_start'),
    cycle_ends=_cycle_ends(events, last_step) if starts else [],
    warmups=_warmups(log_dir, starts) if is_planned else [],
    losses=_losses(events),
    resets=_of_event(events, 'reset', 'tau', float),
    switches=_of_event(events, 'switch', 'reason', str),
  )


def _workload_name(log_dir: pathlib.Path, meta: dict[str, Any]) -> str:
  if 'workload.name' in meta:
    return meta['workload.name']
  return _read_required(log_dir / 'flags_0.json')['workload']


def _read_required(path: pathlib.Path) -> Any:
  if not path.exists():
    raise ValueError(
      f'{path.parent} has no {path.name}: it must be a folder of logs, such '
      'as <workload>_jax/trial_1.'
    )
  return files.read_json(path)


def _losses(events: list[dict[str, str]]) -> Losses:
  rows = [row for row in events if row['event'] == 'evaluation']
  names = ('loss', 'smoothed_loss', 'derivative')
  steps = np.array([int(row['global_step']) for row in rows], np.int64)
  return Losses(
    steps, *(np.array([float(row[name]) for row in rows]) for name in names)
  )


def _with_steps(rows: list[dict[str, str]]) -> list[dict[str, str]]:
  """Without a last line that was being written when the run was killed."""
  return [row for row in rows if (row.get('global_step') or '').isdigit()]


def _in_order(rows: list[dict[str, str]]) -> list[dict[str, str]]:
  """One row per step, in the order of the steps.

  The benchmark's runner logs an evaluation before its checkpoint: after a
  preemption steps come again, and the later rows are what the run went on with.
  """
  kept = []
  for row in rows:
    while kept and int(kept[-1]['global_step']) >= int(row['global_step']):
      kept.pop()
    kept.append(row)
  return kept


def _numbers(rows: list[dict[str, str]], name: str) -> np.ndarray:
  """A column of rows; NaN where it is blank, as pandas writes NaN."""
  return np.array([float(row.get(name) or 'nan') for row in rows])


def _cycle_ends(events: list[dict[str, str]], last_step: int) -> list[int]:
  starts = _steps_of(events, 'cycle_start')
  return [*starts[1:], *(_steps_of(events, 'finish') or [last_step])]


def _steps_of(events: list[dict[str, str]], event: str) -> list[int]:
  return [int(row['global_step']) for row in events if row['event'] == event]


def _of_event(events, event: str, column: str, as_type) -> list[tuple]:
  return [
    (int(row['global_step']), as_type(row[column]))
    for row in events
    if row['event'] == event
  ]


def _column(
  rows: list[dict[str, str]], name: str
) -> tuple[np.ndarray, np.ndarray]:
  """Steps and values of the rows that have something in a column."""
  given = [row for row in rows if row.get(name)]
  return (
    np.array([int(row['global_step']) for row in given], dtype=np.int64),
    np.array([float(row[name]) for row in given]),
  )


def _warmups(
  log_dir: pathlib.Path, starts: list[dict[str, str]]
) -> list[tuple[float, float]]:
  """Where the warm-ups were: W nominal steps, W / pace of the run's own."""
  step_hint, params = records.read_configuration(log_dir)
  warmups = cycle_table.warmup_lengths(step_hint, params)
  spans = []
  for row in starts:
    steps, start = warmups[int(row['cycle']) - 1], int(row['global_step'])
    spans.append((start, start + steps / float(row['pace'])))
  return spans


@functools.cache
def _rate_tables(step_hint: int, params: ScheduleParams) -> tuple:
  """Compiled, so once for all seeds of a run."""
  schedules = lr_schedule.cycle_schedules(step_hint, params.hparams, params)
  lengths = lr_schedule.cycle_lengths(step_hint, params)
  return cycle_clock.rate_tables(schedules, lengths)


def _planned_rates(
  log_dir: pathlib.Path, starts: list[dict[str, str]], last_step: int
) -> tuple[np.ndarray, np.ndarray]:
  """The learning rate at every step: schedule((step - start) * pace).

  Each cycle runs on its own clock from its start to the start of the next.
  """
  tables = _rate_tables(*records.read_configuration(log_dir))
  bounds = [int(row['global_step']) for row in starts] + [last_step]
  steps, rates = [], []
  for row, start, end in zip(starts, bounds, bounds[1:]):
    table = tables[int(row['cycle']) - 1]
    local = np.arange(end - start) * float(row['pace'])
    steps.append(np.arange(start, end))
    rates.append(np.interp(local, np.arange(table.size), table))
  return np.concatenate(steps), np.concatenate(rates)
