"""What a run ends with whose target, or whose rate, is wrong.

SOFT_RESET on the board's short workloads, to the end of the budget, whether it
reaches its target or not. Targets lie on the way from the untrained model to
what `bare`, its optimizer in one cycle, reaches: .9 of it, 1.25 of it, out of
reach, ten times and a tenth of the metric. Rates are its own, and ten times as
high. A run that began anew is held against `bare` over half of the budget at
the same rate.

After a failure the rate falls by a half, or by another factor. Each run adds a
row to runs.csv.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from ...engine import layout
from ...mini_algoperf import RunOptions, runner
from ...mini_algoperf.submission_loader import LoadedSubmission
from ...mini_algoperf.trial import BatchSizes, Trial
from ...optimizers.peaks import RelativePeak
from ...schedule_params import SOFT_RESET, ScheduleParams
from ...soft_reset import Cyclic
from ...submission import make_submission
from .. import run_logs
from ..board import stand_in
from ..board.conditions import Condition

LOG = pathlib.Path(__file__).with_name('runs.csv')
WORKLOADS = ('digits', 'text', 'molecules')
TARGETS = ('reachable', 'ambitious', 'impossible', 'tenfold', 'tenth')
RATES = (1.0, 10.0)
KEY = ('workload', 'rate', 'case', 'factor', 'seed')
BARE = ('1.0', 'bare')  # the runs by which targets are set
FIELDS = (*KEY, 'first', 'last', 'best', 'abandoned', 'steps')


def settings_of(case: str, rate: float) -> ScheduleParams:
  """SOFT_RESET, or one cycle of its optimizer, with a share of its own."""
  peak: Any = SOFT_RESET.relative_peak
  settings = dataclasses.replace(
    SOFT_RESET, relative_peak=RelativePeak(rate * peak.share)
  )
  if case not in ('bare', 'half'):
    return settings
  return dataclasses.replace(
    settings,
    cycles=settings.cycles[:1],
    reset=Cyclic(),
    early_switching=False,
  )


def target_of(case: str, first: float, reached: float, rises: bool) -> float:
  """The target: from the untrained model's metric to what `bare` reaches."""
  factor = 10.0 if case == 'tenfold' else 0.1
  if case in ('tenfold', 'tenth'):
    return factor * reached
  if case == 'impossible':
    return 1.5 if rises else 0.1 * reached
  share = {'reachable': 0.9, 'ambitious': 1.25}[case]
  if rises:
    return first + share * (reached - first)
  return first * (reached / first) ** share


class Seen:
  """The evaluations of a run, and how many chains it has abandoned."""

  def __init__(self) -> None:
    self.metrics: list[float] = []

  def on_step(self, trial: Any) -> None:
    pass

  def on_evaluation(self, trial: Any) -> None:
    key = f'validation/{trial.workload.target_metric_name}'
    self.metrics.append(float(trial.eval_results[-1][1][key]))


@functools.cache
def workload_of(name: str, seconds_per_step: float) -> Any:
  """A short workload of the board; its clock counts so many seconds a step."""
  condition = Condition(seconds_per_step=seconds_per_step)
  return stand_in.make_workload(name, condition)


def row_of(
  name: str, rate: float, case: str, seed: int, goal: float
) -> tuple[float, float, float, int, int]:
  """First, last and best metric, chains abandoned, and steps taken."""
  # Half of the budget is as much as steps of two seconds leave.
  seconds = 2.0 if case == 'half' else 1.0
  workload = workload_of(name, seconds)
  workload.is_started = False
  own: Any = type(workload)
  own.validation_target_value = own.test_target_value = goal
  trial: Trial | None = None

  def clock() -> float:
    return seconds * trial.global_step if trial else 0.0

  sizes = BatchSizes(workload.default_batch_size, workload.eval_batch_size)
  options = RunOptions(name, save_checkpoints=False, stop_at_targets=False)
  made = make_submission(settings_of(case, rate))
  submission = LoadedSubmission(**made._asdict())
  trial = Trial(workload, submission, options, sizes, seed, None, clock)
  seen = Seen()
  runner.train(trial, seen)
  run = trial.optimizer_state[1]
  best = (max if workload.metric_rises else min)(seen.metrics)
  stops = run.control.num_early_stops
  return seen.metrics[0], seen.metrics[-1], best, stops, trial.global_step


def table(
  rows: Sequence[Mapping[str, str]], rises: Callable[[str], bool]
) -> str:
  """A line for each workload, rate, target and factor: medians and ranges.

  `no worse` counts the runs that began anew and end no worse than the median of
  `bare` over half of the budget, of all that began anew.
  """

  def of(*key: str) -> list[Mapping[str, str]]:
    return [r for r in rows if tuple(r[k] for k in KEY[:4]) == key]

  lines = []
  for key in dict.fromkeys(tuple(r[k] for k in KEY[:4]) for r in rows):
    name, rate, case, factor = key
    found, half = of(*key), of(name, rate, 'half', '0.5')
    lasts = [float(r['last']) for r in found]
    anew = [float(r['last']) for r in found if int(r['abandoned'])]
    goal = statistics.median(float(r['last']) for r in half)
    sign = 1 if rises(name) else -1
    kept = sum(sign * (last - goal) >= 0 for last in anew)
    most = max(int(r['abandoned']) for r in found)
    middle = statistics.median(lasts)
    lines.append(
      f'| {name} | {rate} | {case} | {factor} | {middle:.4g} ({min(lasts):.4g} '
      f'to {max(lasts):.4g}) | {len(anew)} | {most} | {kept} of {len(anew)} |'
    )
  return '\n'.join(lines)


def cases() -> list[tuple[float, str, float]]:
  """(rate, case, what the rate is multiplied by after a failure), in order."""
  return [
    (1.0, 'bare', 0.5),
    *((rate, 'half', 0.5) for rate in RATES),
    *((1.0, case, 0.5) for case in TARGETS),
    *((10.0, 'reachable', f) for f in (0.5, 0.25, 0.1)),
    (10.0, 'impossible', 0.5),
    *((1.0, 'impossible', f) for f in (0.25, 0.1)),
  ]


def train(seeds: Sequence[int], log: pathlib.Path) -> None:
  """Trains what the log lacks; adds a row for each run."""
  for (rate, case, factor), seed, name in itertools.product(
    cases(), seeds, WORKLOADS
  ):
    rows = run_logs.read(log, FIELDS)
    key = tuple(map(str, (name, rate, case, factor, seed)))
    if key in {tuple(row[k] for k in KEY) for row in rows}:
      continue
    goal = 1.0
    if case not in ('bare', 'half'):
      bare = [r for r in rows if tuple(r[k] for k in KEY[:3]) == (name, *BARE)]
      first, reached = (
        statistics.median(float(row[k]) for row in bare)
        for k in ('first', 'last')
      )
      goal = target_of(case, first, reached, rises_of(name))
    with mock.patch.object(layout, 'RATE_AFTER_FAILURE', factor):
      row = (*key, *row_of(name, rate, case, seed, goal))
    run_logs.append(log, FIELDS, [row])


def rises_of(name: str) -> bool:
  """Whether a workload's metric rises."""
  return bool(workload_of(name, 1.0).metric_rises)
