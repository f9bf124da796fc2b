"""What a run's files say, in the form that its picture and summary need."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import numpy as np

from .. import cycle_clock, lr_schedule, records
from . import files, logger, metadata


class RunTable(NamedTuple):
  """One run. Steps are global steps."""

  workload: str
  metric_name: str  # the target metric, without the split
  target: float  # on the validation split
  eval_steps: np.ndarray  # shape=(evaluations,)
  metric: np.ndarray  # shape=(evaluations,); validation, NaN if it diverged
  last_step: int  # steps taken
  rate_steps: np.ndarray  # shape=(steps,); empty if no rate was logged
  rates: np.ndarray  # shape=(steps,)
  num_cycles: int  # cycles that were started
  resets: list[tuple[int, float]]  # (step, tau)
  switches: list[tuple[int, str]]  # (step, reason)


def read_run(log_dir: pathlib.Path) -> RunTable:
  """Reads a trial's folder, whichever submission was run.

  Args:
    log_dir: has meta_data_0.json and, as far as the run has come,
      eval_measurements.csv, measurements.csv, cycles.csv and
      schedule_params.json; the last two are this project's submission's.
  """
  meta = files.read_json(metadata.meta_data_path(log_dir))
  name = meta['workload.target_metric_name']
  evaluations = files.read_rows(log_dir / logger.EVAL_MEASUREMENTS)
  measurements = files.read_rows(log_dir / logger.MEASUREMENTS)
  events = records.read_events(log_dir)
  last_step = max(
    (int(row['global_step']) for row in [*measurements, *events]), default=0
  )
  starts = [row for row in events if row['event'] == 'cycle_start']
  if starts and (log_dir / records.CONFIGURATION).exists():
    rates = _planned_rates(log_dir, starts, last_step)
  else:
    rates = _column(measurements, 'learning_rate')
  eval_steps, metric = _column(evaluations, f'validation/{name}')
  return RunTable(
    workload=meta['workload.name'],
    metric_name=name,
    target=meta['workload.validation_target_value'],
    eval_steps=eval_steps,
    metric=metric,
    last_step=last_step,
    rate_steps=rates[0],
    rates=rates[1],
    num_cycles=len(starts),
    resets=_of_event(events, 'reset', 'tau', float),
    switches=_of_event(events, 'switch', 'reason', str),
  )


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


def _planned_rates(
  log_dir: pathlib.Path, starts: list[dict[str, str]], last_step: int
) -> tuple[np.ndarray, np.ndarray]:
  """The learning rate at every step: schedule((step - start) * pace).

  Each cycle runs on its own clock from its start to the start of the next.
  """
  step_hint, params = records.read_configuration(log_dir)
  schedules = lr_schedule.cycle_schedules(step_hint, params.hparams, params)
  lengths = lr_schedule.cycle_lengths(step_hint, params)
  tables = cycle_clock.rate_tables(schedules, lengths)
  bounds = [int(row['global_step']) for row in starts] + [last_step]
  steps, rates = [], []
  for row, start, end in zip(starts, bounds, bounds[1:]):
    table = tables[int(row['cycle']) - 1]
    local = np.arange(end - start) * float(row['pace'])
    steps.append(np.arange(start, end))
    rates.append(np.interp(local, np.arange(table.size), table))
  return np.concatenate(steps), np.concatenate(rates)
