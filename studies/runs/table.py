"""What a run's files say, in the form that its picture and summary need."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files, logger, metadata
from ...training.configuration import CONFIGURATION, read_configuration
from ...training.events import CYCLES
from . import rates
from .log import Log, read_log

FLAGS = 'flags_0.json'
# In files from before cycles could be repeated, these events have the rate of
# the step before them.
_AFTER_THEIR_STEP = ('evaluation', 'switch', 'finish', 'hold')


class Losses(NamedTuple):
  """What the thesis' switching rule has seen; empty without cycles.csv.

  An evaluation after the run's last step is not among them.
  """

  steps: np.ndarray  # shape=(n,)
  loss: np.ndarray  # shape=(n,); L, the validation loss
  smoothed_loss: np.ndarray  # shape=(n,); l
  loss_change: np.ndarray  # shape=(n,); l'


class RunTable(NamedTuple):
  """One run. Steps are global steps."""

  workload: str
  name: str  # of the experiment; empty if the run has none of its own
  seed: int | None  # None if no file has it
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


class _Identity(NamedTuple):
  """The part of a table that is not about steps."""

  workload: str
  name: str
  seed: int | None
  metric_name: str
  target: float


def read_run(log_dir: pathlib.Path) -> RunTable:
  """Reads a trial's folder, whichever submission was run.

  Args:
    log_dir: has meta_data_0.json and, as far as the run has come,
      eval_measurements.csv, measurements.csv, cycles.csv and
      schedule_params.json; the last two are this project's submission's. The
      benchmark's runner leaves the workload's name in flags_0.json alone.

  Raises:
    ValueError: if a file that is needed is missing, or one has what does not
      belong there; the message names the file.
  """
  identity = _read_identity(log_dir)
  evaluations = _in_order(read_log(log_dir / logger.EVAL_MEASUREMENTS))
  measurements = read_log(log_dir / logger.MEASUREMENTS)
  events = read_log(log_dir / CYCLES)
  last_step = _last_step(evaluations, measurements, events)
  starts = events.of_event('cycle_start').whole_numbers('global_step').tolist()
  rate_steps, run_rates, warmups = _read_rates(events, measurements, last_step)
  return RunTable(
    *identity,
    eval_steps=evaluations.whole_numbers('global_step'),
    metric=evaluations.numbers(f'validation/{identity.metric_name}'),
    eval_times=evaluations.numbers('accumulated_submission_time'),
    last_step=last_step,
    rate_steps=rate_steps,
    rates=run_rates,
    cycle_starts=starts,
    cycle_ends=[*starts[1:], last_step] if starts else [],
    warmups=warmups,
    losses=_losses(events.of_event('evaluation')),
    resets=_resets(events.of_event('reset')),
    switches=_switches(events.of_event('switch')),
  )


def _last_step(evaluations: Log, measurements: Log, events: Log) -> int:
  """Steps taken. A run that finishes is evaluated under a number one higher."""
  finish = events.of_event('finish')
  logs = [finish] if finish.rows else [evaluations, measurements, events]
  return max(
    int(log.whole_numbers('global_step').max(initial=0)) for log in logs
  )


def _read_identity(log_dir: pathlib.Path) -> _Identity:
  path = metadata.meta_data_path(log_dir)
  meta = _read_object(path)
  flags_path = log_dir / FLAGS
  flags = _read_object(flags_path) if flags_path.exists() else {}
  name = meta.get('workload.name', flags.get('workload'))
  if name is None:
    raise ValueError(f'{path} names no workload, and neither does {FLAGS}.')
  metric = meta.get('workload.target_metric_name')
  target = meta.get('workload.validation_target_value')
  if not isinstance(metric, str) or not isinstance(target, (int, float)):
    raise ValueError(
      f'{path} must have the target metric and its value as '
      'workload.target_metric_name and workload.validation_target_value.'
    )
  return _Identity(
    workload=str(name),
    name=_run_name(log_dir, str(name), flags),
    seed=run_seed(meta, flags),
    metric_name=metric,
    target=float(target),
  )


def _read_object(path: pathlib.Path) -> Mapping[str, object]:
  if not path.exists():
    raise ValueError(
      f'{path.parent} has no {path.name}: it must be a folder of logs, such '
      'as <workload>_jax/trial_1.'
    )
  values = files.read_json(path)
  if not isinstance(values, dict):
    raise ValueError(f'{path} must hold an object of JSON.')
  return values


def _run_name(
  log_dir: pathlib.Path, workload: str, flags: Mapping[str, object]
) -> str:
  """The experiment's name and, where there are several trials, the trial's."""
  name = flags.get('experiment_name')
  words = [str(name)] if name and name != workload else []
  if flags.get('tuning_ruleset') == 'external':
    words.append(log_dir.name.replace('_', ' '))
  return ', '.join(words)


def run_seed(
  meta: Mapping[str, object], flags: Mapping[str, object]
) -> int | None:
  """The seed of a run.

  Args:
    meta: meta_data_0.json; the benchmark of 2024 writes a seed that it has
      drawn there.
    flags: flags_0.json.
  """
  seed = meta.get('rng_seed', flags.get('rng_seed'))
  return seed if isinstance(seed, int) else None


def _read_rates(
  events: Log, measurements: Log, last_step: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float]]]:
  """Steps, their rates, and where the warm-ups were.

  All of it follows from the plan and its clock; what a run of another
  submission says of its rates, or one whose plan no file could hold, is what it
  has logged.
  """
  path = events.path.with_name(CONFIGURATION)
  if not events.of_event('cycle_start').rows or not path.exists():
    return *_logged_rates(events, measurements), []
  step_hint, params = read_configuration(path.parent)
  anchors = rates.read_anchors(events, params.num_cycles)
  steps, values = rates.at_all_steps(
    step_hint, params, anchors, last_step, from_tables=_is_older(events)
  )
  return steps, values, rates.warmups(step_hint, params, anchors)


def _is_older(events: Log) -> bool:
  """Whether the file is from before cycles could be repeated."""
  return 'setting' not in events.rows[0]


def _logged_rates(
  events: Log, measurements: Log
) -> tuple[np.ndarray, np.ndarray]:
  """Steps and the rates with which they were taken, where they were logged."""
  if not events.rows or not _is_older(events):
    rows = [row for row in measurements.rows if row.get('learning_rate')]
    log = _in_order(Log(measurements.path, rows))
    return log.whole_numbers('global_step'), log.numbers('learning_rate')
  rows = [row for row in events.rows if row.get('learning_rate')]
  log = Log(events.path, rows)
  behind = [row.get('event') in _AFTER_THEIR_STEP for row in rows]
  steps = log.whole_numbers('global_step') - np.array(behind, np.int64)
  return steps, log.numbers('learning_rate')


def _losses(evaluations: Log) -> Losses:
  return Losses(
    evaluations.whole_numbers('global_step'),
    *map(evaluations.numbers, ('loss', 'smoothed_loss', 'derivative')),
  )


def _resets(log: Log) -> list[tuple[int, float]]:
  steps = log.whole_numbers('global_step').tolist()
  return list(zip(steps, log.numbers('tau').tolist()))


def _switches(log: Log) -> list[tuple[int, str]]:
  steps = log.whole_numbers('global_step').tolist()
  return list(zip(steps, [row.get('reason', '') for row in log.rows]))


def _in_order(log: Log) -> Log:
  """One row per step, in the order of the steps.

  The benchmark's runner logs an evaluation before its checkpoint: after a
  preemption steps come again, and the later rows are what the run went on with.
  """
  kept, steps = [], []
  for row, step in zip(log.rows, log.whole_numbers('global_step')):
    while steps and steps[-1] >= step:
      kept.pop()
      steps.pop()
    kept.append(row)
    steps.append(step)
  return Log(log.path, kept)
