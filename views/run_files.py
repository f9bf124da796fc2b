"""The contents of a run's files, in the form that pictures and summaries need.

A cell that should be a number and is not raises an error with the file's name:
people pass files of runs on, cut them off and edit them.
"""

from __future__ import annotations

import contextlib
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from ..core.clock import CycleClock, learning_rate, packed
from ..core.schedules import PlannedCycle
from ..engine.records import CYCLES
from ..mini_algoperf import files, logger
from .paths import META_DATA, read_object
from .planned_runs import (
  MOST_HELD_STEPS,
  PlannedRun,
  read_planned_run,
  read_settings,
)

FLAGS = 'flags_0.json'
# The benchmark's metrics; what a workload's meta data say comes first.
_RISING = ('accuracy', 'bleu', 'mean_average_precision', 'ssim')
_FALLING = (
  'ce_loss', 'ctc_loss', 'error_rate', 'l1_loss', 'loss', 'ppl', 'wer',
)  # fmt: skip


class Log(NamedTuple):
  """Rows of a CSV file, as text by column; empty if there is no such file."""

  path: pathlib.Path
  rows: Sequence[Mapping[str, str]]

  def of_event(self, *events: str) -> Log:
    """The rows of cycles.csv that are about some kinds of events."""
    return Log(self.path, [r for r in self.rows if r.get('event') in events])

  def numbers(self, column: str, blank: float = math.nan) -> np.ndarray:
    """A column, shape=(rows,); a blank cell stands for `blank`."""
    values = []
    for row in self.rows:
      text = row.get(column) or blank
      try:
        values.append(float(text))
      except ValueError as e:
        raise ValueError(
          f'{self.path}: {column} is {text!r} in a row; it must be a number.'
        ) from e
    return np.array(values, float)

  def whole_numbers(self, column: str = 'global_step') -> np.ndarray:
    """A column, shape=(rows,), int64: steps, or numbers of cycles."""
    values = self.numbers(column)
    is_valid = (
      (values >= 0) & (values <= MOST_HELD_STEPS) & (values == np.floor(values))
    )
    if not is_valid.all():
      raise ValueError(
        f'{self.path}: {column} is {values[~is_valid][0]:g} in a row; it must '
        f'be a whole number from 0 to {MOST_HELD_STEPS:,}.'
      )
    return values.astype(np.int64)


def read_log(path: pathlib.Path) -> Log:
  """Reads a CSV file; raises ValueError if it is not a table."""
  return Log(path, files.read_rows(path))


class MetricTarget(NamedTuple):
  """The metric and the value that a run is to reach on the validation split."""

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

  def best(self, metric: np.ndarray) -> int | None:
    """Index of the first best finite value, shape=(n,); None without one."""
    counts = np.isfinite(metric)
    worth = np.where(counts, metric if self.rises else -metric, -np.inf)
    return int(worth.argmax()) if counts.any() else None

  def seconds(self, seconds: np.ndarray, metric: np.ndarray) -> float:
    """Seconds at that evaluation, or infinity; shape=(evaluations,)."""
    at = self.reached(metric)
    return math.inf if at is None else float(seconds[at])


def read_target(log_dir: pathlib.Path) -> MetricTarget:
  """A trial's target; ValueError if its meta data don't say what it is."""
  path = log_dir / META_DATA
  meta = read_object(path)
  metric = meta.get('workload.target_metric_name')
  value = meta.get('workload.validation_target_value')
  if not isinstance(metric, str) or not isinstance(value, (int, float)):
    raise ValueError(
      f'{path} must have the target metric and its value as '
      'workload.target_metric_name and workload.validation_target_value.'
    )
  rises = meta.get('workload.metric_rises')
  if not isinstance(rises, bool):
    if metric not in _RISING + _FALLING:
      raise ValueError(
        f'{path}: it is not known whether {metric!r} should rise; set '
        'workload.metric_rises to true or false.'
      )
    rises = metric in _RISING
  return MetricTarget(metric, float(value), rises)


class Losses(NamedTuple):
  """The losses of the thesis' switching rule; empty without cycles.csv.

  The loss of an evaluation after the run's last step is not among them.
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
  warmups: list[tuple[float, float]]  # (first step, planned end), by cycle
  losses: Losses
  resets: list[tuple[int, float]]  # (step, tau)
  switches: list[tuple[int, str]]  # (step, reason)

  @property
  def num_cycles(self) -> int:
    """Cycles that were started; 0 for another project's submission."""
    return len(self.cycle_starts)

  def best(self, after: float = -1, upto: float = math.inf) -> int | None:
    """Index of the first best evaluation with a finite metric; None without.

    Args:
      after: the evaluations that count are after this step.
      upto: the last step that counts.
    """
    counts = (self.eval_steps > after) & (self.eval_steps <= upto)
    return self.target.best(np.where(counts, self.metric, np.nan))

  @property
  def metric_label(self) -> str:
    """The target metric in words."""
    return f'{self.target.metric.replace("_", " ")} (validation)'


def read_run(log_dir: pathlib.Path) -> RunTable:
  """Reads a trial's folder, whichever submission was run.

  It has meta_data_0.json and, as far as the run has come, eval_measurements.csv
  and measurements.csv; this project's submission adds cycles.csv and
  schedule_params.json. The benchmark's runner writes the workload's name into
  flags_0.json alone.

  Raises:
    ValueError: names a file that is missing or damaged.
  """
  meta, flags = read_object(log_dir / META_DATA), read_flags(log_dir)[0]
  workload = meta.get('workload.name', flags.get('workload'))
  if workload is None:
    raise ValueError(
      f'{log_dir / META_DATA} names no workload, and neither does {FLAGS}.'
    )
  experiment = flags.get('experiment_name')
  target = read_target(log_dir)
  evaluations = _in_order(read_log(log_dir / logger.EVAL_MEASUREMENTS))
  measurements = read_log(log_dir / logger.MEASUREMENTS)
  events = read_log(log_dir / CYCLES)
  # A run that finishes is evaluated under a number one higher.
  finish = events.of_event('finish')
  logs = [finish] if finish.rows else [evaluations, measurements, events]
  last_step = max(int(log.whole_numbers().max(initial=0)) for log in logs)
  starts = events.of_event('cycle_start').whole_numbers().tolist()
  resets, switches = events.of_event('reset'), events.of_event('abandon')
  losses = events.of_event('evaluation')
  plan = _readable_plan(log_dir) if starts else None
  if plan is None:
    rates, warmups = _logged_rates(measurements), list[tuple[float, float]]()
  else:
    anchors = read_anchors(events, len(_cycles_of(plan)))
    rates = rates_of_run(plan, anchors, last_step)
    warmups = _warmups(plan, anchors)
  return RunTable(
    str(workload),
    str(experiment) if experiment and experiment != workload else '',
    run_seed(meta, flags),
    target,
    evaluations.whole_numbers(),
    evaluations.numbers(f'validation/{target.metric}'),
    evaluations.numbers('accumulated_submission_time'),
    last_step,
    *rates,
    starts,
    [*starts[1:], last_step] if starts else [],
    warmups,
    Losses(
      losses.whole_numbers(),
      *map(losses.numbers, ('loss', 'smoothed_loss', 'derivative')),
    ),
    list(zip(resets.whole_numbers().tolist(), resets.numbers('tau').tolist())),
    [
      (step, row.get('reason', ''))
      for step, row in zip(switches.whole_numbers().tolist(), switches.rows)
    ],
  )


def _logged_rates(measurements: Log) -> tuple[np.ndarray, np.ndarray]:
  """The steps whose rate was logged, and their rates; shape=(n,)."""
  rows = [row for row in measurements.rows if row.get('learning_rate')]
  log = _in_order(Log(measurements.path, rows))
  return log.whole_numbers(), log.numbers('learning_rate')


def _readable_plan(log_dir: pathlib.Path) -> PlannedRun | None:
  """The plan, from which all rates follow with the run's clock.

  None for another submission. None also where the settings have a user's own
  part, whose code is not here; such a run has logged some of its rates.
  """
  if read_settings(log_dir) is None:  # or it raises: the file is damaged
    return None
  with contextlib.suppress(ValueError):
    return read_planned_run(log_dir)
  return None


def _in_order(log: Log) -> Log:
  """One row per step, in the order of the steps.

  The benchmark's runner logs an evaluation before its checkpoint. After a
  preemption some steps are taken again, and the run goes on from the later
  rows.
  """
  kept: list[tuple[int, Mapping[str, str]]] = []
  for row, step in zip(log.rows, log.whole_numbers().tolist()):
    while kept and kept[-1][0] >= step:
      kept.pop()
    kept.append((step, row))
  return Log(log.path, [row for _, row in kept])


def read_flags(log_dir: pathlib.Path) -> list[Mapping[str, object]]:
  """The flags of a run's start and of each resumption; [{}] without a file."""
  paths = {path.stem[6:]: path for path in log_dir.glob('flags_*.json')}
  numbers = sorted(filter(str.isdecimal, paths), key=int)
  return [read_object(paths[number]) for number in numbers] or [{}]


def run_seed(
  meta: Mapping[str, object], flags: Mapping[str, object]
) -> int | None:
  """The seed of a run; the benchmark of 2024 drew one for its meta data."""
  seed = meta.get('rng_seed', flags.get('rng_seed'))
  return seed if isinstance(seed, int) else None


class Anchor(NamedTuple):
  """The clock as an event of a run has set it."""

  step: int  # the step about to be taken
  starts: bool  # whether a cycle starts here
  setting: int  # index of the planned cycle, from 0
  nominal: float  # step of the cycle there
  pace: float  # nominal steps per step
  rate_factor: float


def read_anchors(events: Log, num_cycles: int) -> tuple[Anchor, ...]:
  """The clock's anchors: the events `cycle_start` and `clock` of cycles.csv.

  Where setting, anchor_nominal and rate_factor are blank, the cycle is that of
  its number, starts at nominal step 0, and has the rate as planned.

  Raises:
    ValueError: names a value that is missing, out of range or out of order.
  """
  log = events.of_event('cycle_start', 'clock')
  steps, setting = log.whole_numbers(), _settings(log)
  nominal, pace = log.numbers('anchor_nominal', 0.0), log.numbers('pace')
  rate_factor = log.numbers('rate_factor', 1.0)
  for name, is_valid, what in (
    ('global_step', np.diff(steps, prepend=0) >= 0, 'in order'),
    (
      'setting',
      (setting >= 0) & (setting < num_cycles),
      f'from 1 to {num_cycles}, the cycles of the plan',
    ),
    ('anchor_nominal', np.isfinite(nominal), 'finite'),
    ('pace', (pace > 0) & np.isfinite(pace), 'positive and finite'),
    ('rate_factor', np.isfinite(rate_factor), 'finite'),
  ):
    if not is_valid.all():
      raise ValueError(
        f'{log.path}: {name} must be {what}, and is not at step '
        f'{steps[~is_valid][0]}.'
      )
  starts = [row['event'] == 'cycle_start' for row in log.rows]
  columns = (
    values.tolist() for values in (setting, nominal, pace, rate_factor)
  )
  return tuple(map(Anchor, steps.tolist(), starts, *columns))


def _settings(log: Log) -> np.ndarray:
  """The index of the planned cycle at each event, from 0; shape=(rows,)."""
  rows: list[dict[str, str]] = []
  for row in log.rows:
    if row['event'] == 'cycle_start':
      setting = row.get('setting') or row.get('cycle', '')
    elif rows:  # a clock without a setting belongs to the last cycle
      setting = row.get('setting') or rows[-1]['setting']
    else:
      raise ValueError(f'{log.path} has a clock before the first cycle_start.')
    rows.append({'setting': setting})
  return Log(log.path, rows).whole_numbers('setting') - 1


# A study reads hundreds of runs with some dozens of plans, and a plan is
# compiled.
@functools.lru_cache(maxsize=256)
def _cycles_of(plan: PlannedRun) -> tuple[PlannedCycle, ...]:
  return plan.chain.cycles


def _warmups(
  plan: PlannedRun, anchors: Sequence[Anchor]
) -> list[tuple[float, float]]:
  """The first step of each cycle, and where its warm-up was to end."""
  lengths = [cycle.warmup_steps for cycle in _cycles_of(plan)]
  return [
    (a.step, a.step + max(0.0, (lengths[a.setting] - a.nominal) / a.pace))
    for a in anchors
    if a.starts
  ]


# Most seeds of a run have the same plan and the same clock.
@functools.lru_cache(maxsize=64)
def rates_of_run(
  plan: PlannedRun, anchors: Sequence[Anchor], last_step: int
) -> tuple[np.ndarray, np.ndarray]:
  """The steps of a run and the rate with which each of them was taken.

  Until the next anchor the clock runs on by itself:

    nominal step = anchor_nominal + (step - anchor_step) * pace
    rate = rate_factor * cycle(min(nominal step, steps of the cycle))

  All rates are computed at once. That rounds some rates differently from the
  compiled step (by up to 5e-6 of a small rate).

  Returns:
    Steps and rates, shape=(n,), float32; at least one anchor is needed.
  """
  begin, _, setting, nominal, pace, factor = map(np.array, zip(*anchors))
  steps = np.arange(begin[0], max(last_step, begin[0]))
  # For each step the last anchor before it.
  at = np.searchsorted(begin, steps, side='right') - 1
  cycles = _cycles_of(plan)
  of_cycle = setting[at]
  lengths, warmup_steps = np.array([cycle[:2] for cycle in cycles]).T
  peaks = np.array([planned.cycle.peak for planned in cycles])
  clocks = CycleClock(
    count=steps,
    setting=of_cycle,
    steps=lengths[of_cycle],
    warmup_steps=warmup_steps[of_cycle],
    anchor_step=begin[at],
    before=np.zeros(len(steps)),
    anchor_nominal=nominal[at],
    pace=pace[at],
    # As in the run, a peak beyond float32 stays finite.
    peak=np.minimum(peaks[of_cycle] * factor[at], np.finfo(np.float32).max),
    size=np.ones(len(steps)),
    decay_factor=np.ones(len(steps)),
  )
  read = functools.partial(learning_rate, cycles=cycles)
  return steps, np.asarray(jax.jit(jax.vmap(read))(packed(clocks)))
