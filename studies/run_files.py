"""What a run's files say, in the form that pictures and summaries need.

What should be a number and is not one is refused with the file's name: files of
runs are passed on, cut off and edited by hand.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..mini_algoperf import logger, metadata
from . import plans
from .paths import read_object, read_rows
from .plans import CYCLES, Anchor

FLAGS = 'flags_0.json'
# Twenty million steps are hundreds of megabytes of learning rates; no run of
# the benchmark has a hundredth of them.
_MOST_STEPS = 20_000_000
# The benchmark's metrics; what a workload's meta data say comes first.
_RISING = ('accuracy', 'bleu', 'mean_average_precision', 'ssim')
_FALLING = (
  'ce_loss', 'ctc_loss', 'error_rate', 'l1_loss', 'loss', 'ppl', 'wer',
)  # fmt: skip


class Log(NamedTuple):
  """Rows of a CSV file, as text by column; none if there is no such file."""

  path: pathlib.Path
  rows: Sequence[Mapping[str, str]]

  def of_event(self, *events: str) -> Log:
    """The rows of cycles.csv that are about some kinds of events."""
    return Log(self.path, [r for r in self.rows if r.get('event') in events])

  def numbers(self, column: str, blank: float = math.nan) -> np.ndarray:
    """A column, shape=(rows,).

    Args:
      column: its name.
      blank: what a blank cell stands for.

    Raises:
      ValueError: for what is not a number.
    """
    values = []
    for row in self.rows:
      text = row.get(column) or str(blank)
      try:
        values.append(float(text))
      except ValueError as e:
        raise ValueError(
          f'{self.path}: {column} is {text!r} in a row; it must be a number.'
        ) from e
    return np.array(values, float)

  def whole_numbers(self, column: str) -> np.ndarray:
    """A column, shape=(rows,), int64: steps, or numbers of cycles.

    Raises:
      ValueError: for what is not a whole number from 0 to 20,000,000.
    """
    values = self.numbers(column)
    for value in values:
      if not (0 <= value <= _MOST_STEPS and value == math.floor(value)):
        raise ValueError(
          f'{self.path}: {column} is {value:g} in a row; it must be a whole '
          f'number from 0 to {_MOST_STEPS:,}.'
        )
    return values.astype(np.int64)


def read_log(path: pathlib.Path) -> Log:
  """Reads a CSV file; raises ValueError if it is not a table."""
  return Log(path, read_rows(path))


class MetricTarget(NamedTuple):
  """What a run is to reach on the validation split."""

  metric: str  # without the split
  value: float
  rises: bool  # whether a larger metric is better

  def reached(self, metric: np.ndarray) -> int | None:
    """Index of the first evaluation at the target or beyond it.

    Args:
      metric: shape=(evaluations,); NaN counts as not reached.
    """
    better = metric >= self.value if self.rises else metric <= self.value
    return int(better.argmax()) if better.any() else None

  def seconds(self, seconds: np.ndarray, metric: np.ndarray) -> float:
    """Seconds at the first evaluation at the target; infinity without one.

    Args:
      seconds: shape=(evaluations,).
      metric: likewise.
    """
    at = self.reached(metric)
    return math.inf if at is None else float(seconds[at])


def read_target(meta_path: pathlib.Path) -> MetricTarget:
  """A trial's target.

  Raises:
    ValueError: if its meta data don't say what it is.
  """
  meta = read_object(meta_path)
  metric = meta.get('workload.target_metric_name')
  value = meta.get('workload.validation_target_value')
  if not isinstance(metric, str) or not isinstance(value, (int, float)):
    raise ValueError(
      f'{meta_path} must have the target metric and its value as '
      'workload.target_metric_name and workload.validation_target_value.'
    )
  rises = meta.get('workload.metric_rises')
  if not isinstance(rises, bool):
    if metric not in _RISING + _FALLING:
      raise ValueError(
        f'{meta_path}: it is not known whether {metric!r} should rise; set '
        'workload.metric_rises to true or false.'
      )
    rises = metric in _RISING
  return MetricTarget(metric, float(value), rises)


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
  target: MetricTarget
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

  @property
  def metric_label(self) -> str:
    """The target metric in words."""
    return f'{self.target.metric.replace("_", " ")} (validation)'


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
  workload, name, seed = _read_identity(log_dir)
  target = read_target(metadata.meta_data_path(log_dir))
  evaluations = _in_order(read_log(log_dir / logger.EVAL_MEASUREMENTS))
  measurements = read_log(log_dir / logger.MEASUREMENTS)
  events = read_log(log_dir / CYCLES)
  # A run that finishes is evaluated under a number one higher.
  finish = events.of_event('finish')
  logs = [finish] if finish.rows else [evaluations, measurements, events]
  last_step = max(
    int(log.whole_numbers('global_step').max(initial=0)) for log in logs
  )
  steps, rates, warmups = _read_rates(events, measurements, last_step)
  starts = _steps(events.of_event('cycle_start'))
  resets, switches = events.of_event('reset'), events.of_event('switch')
  losses = events.of_event('evaluation')
  return RunTable(
    workload,
    name,
    seed,
    target,
    evaluations.whole_numbers('global_step'),
    evaluations.numbers(f'validation/{target.metric}'),
    evaluations.numbers('accumulated_submission_time'),
    last_step,
    steps,
    rates,
    starts,
    [*starts[1:], last_step] if starts else [],
    warmups,
    Losses(
      losses.whole_numbers('global_step'),
      *map(losses.numbers, ('loss', 'smoothed_loss', 'derivative')),
    ),
    list(zip(_steps(resets), resets.numbers('tau').tolist())),
    list(zip(_steps(switches), [r.get('reason', '') for r in switches.rows])),
  )


def _steps(log: Log) -> list[int]:
  return log.whole_numbers('global_step').tolist()


def _read_identity(log_dir: pathlib.Path) -> tuple[str, str, int | None]:
  """Workload, name and seed of a run.

  The name is the experiment's and, where there are several trials, the trial's.
  """
  path = metadata.meta_data_path(log_dir)
  meta, flags = read_object(path), read_flags(log_dir)
  workload = meta.get('workload.name', flags.get('workload'))
  if workload is None:
    raise ValueError(f'{path} names no workload, and neither does {FLAGS}.')
  experiment = flags.get('experiment_name')
  words = [str(experiment)] if experiment and experiment != workload else []
  if flags.get('tuning_ruleset') == 'external':
    words.append(log_dir.name.replace('_', ' '))
  return str(workload), ', '.join(words), run_seed(meta, flags)


def read_flags(log_dir: pathlib.Path) -> Mapping[str, object]:
  """The flags with which a run was started; none without a file."""
  path = log_dir / FLAGS
  return read_object(path) if path.exists() else {}


def run_seed(
  meta: Mapping[str, object], flags: Mapping[str, object]
) -> int | None:
  """The seed of a run; the benchmark of 2024 has drawn one for its meta data."""
  seed = meta.get('rng_seed', flags.get('rng_seed'))
  return seed if isinstance(seed, int) else None


def _read_rates(
  events: Log, measurements: Log, last_step: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float]]]:
  """Steps, their rates, and where the warm-ups were.

  All of it follows from the plan and its clock; a run of another submission
  has logged some of its rates.
  """
  plan = None
  if events.of_event('cycle_start').rows:
    plan = plans.read_plan(events.path.parent)
  if plan is None:
    rows = [row for row in measurements.rows if row.get('learning_rate')]
    log = _in_order(Log(measurements.path, rows))
    return log.whole_numbers('global_step'), log.numbers('learning_rate'), []
  anchors = read_anchors(events, plan.num_cycles)
  steps, rates = plans.rates_of_run(plan, anchors, last_step)
  return steps, rates, plans.warmups_of_run(plan, anchors)


def read_anchors(events: Log, num_cycles: int) -> tuple[Anchor, ...]:
  """What the events `cycle_start` and `clock` say of the clock.

  Args:
    events: of cycles.csv. Where setting, anchor_local and scale are blank, the
      cycle is that of its number, starts at local step 0, and is unscaled.
    num_cycles: cycles of the plan.

  Raises:
    ValueError: if a value is missing or out of range, or an event is out of
      order.
  """
  log = events.of_event('cycle_start', 'clock')
  starts = [row['event'] == 'cycle_start' for row in log.rows]
  if starts and not starts[0]:
    raise ValueError(f'{log.path} has a clock before the first cycle_start.')
  steps = log.whole_numbers('global_step')
  if (np.diff(steps) < 0).any():
    raise ValueError(f'{log.path}: global_step must be in order.')
  begun = [
    {'setting': row.get('setting') or row.get('cycle', '')}
    for row, starts_here in zip(log.rows, starts)
    if starts_here
  ]
  # An event `clock` is about the cycle that has started.
  settings = Log(log.path, begun).whole_numbers('setting') - 1
  columns = (
    steps,
    np.array(starts, bool),
    settings[np.cumsum(starts, dtype=int) - 1],
    log.numbers('anchor_local', 0.0),
    log.numbers('pace'),
    log.numbers('scale', 1.0),
  )
  anchors = tuple(Anchor(*row) for row in zip(*(c.tolist() for c in columns)))
  plans.check_anchors(log.path, anchors, num_cycles)
  return anchors


def _in_order(log: Log) -> Log:
  """One row per step, in the order of the steps.

  The benchmark's runner logs an evaluation before its checkpoint: after a
  preemption steps come again, and the later rows are what the run went on with.
  """
  kept: list[Mapping[str, str]] = []
  steps: list[int] = []
  for row, step in zip(log.rows, _steps(log)):
    while steps and steps[-1] >= step:
      kept.pop()
      steps.pop()
    kept.append(row)
    steps.append(step)
  return Log(log.path, kept)
