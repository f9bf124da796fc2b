"""Recorded runs: those beside this file, and those in the benchmark's logs."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import is_number
from ...mini_algoperf import files, logger
from ...views.paths import META_DATA, read_object, visible
from ...views.run_files import MetricTarget, read_log, read_target
from ..scores import TrialTimes

SHIPPED = pathlib.Path(__file__).parent
_RUN_COLUMNS = ('board', 'ruleset', 'submission', 'study', 'workload', 'trial')
_ARRAYS = ('first', 'step', 'seconds', 'loss', 'metric')
_LOSSES = ('validation/loss', 'validation/ctc_loss')


class RecordedWorkload(NamedTuple):
  """What a workload asks for."""

  name: str
  target: MetricTarget
  step_hint: float  # of 2024; of 2026 where 2024 did not have the workload
  max_runtime: float  # seconds, likewise


class RecordedRun(NamedTuple):
  """A run and its evaluations; arrays of float64, shape=(evaluations,)."""

  board: str
  ruleset: str
  submission: str
  study: str
  workload: RecordedWorkload
  trial: str
  step: np.ndarray
  seconds: np.ndarray  # of submission time
  loss: np.ndarray
  metric: np.ndarray

  @property
  def share(self) -> np.ndarray:
    """f, the larger of the shares of the step hint and the maximum runtime."""
    return np.maximum(
      self.step / self.workload.step_hint,
      self.seconds / self.workload.max_runtime,
    )

  @property
  def reached(self) -> int | None:
    """Index of the first evaluation at the target or beyond it."""
    return self.workload.target.reached(self.metric)


def read_runs() -> list[RecordedRun]:
  """The runs that come with the project, in the order of runs.csv."""
  workloads = read_workloads()
  with np.load(SHIPPED / 'evaluations.npz') as arrays:
    first, *columns = (arrays[name].astype(np.float64) for name in _ARRAYS)
  at = first.astype(int).tolist()
  runs = []
  for row, start, end in zip(files.read_rows(SHIPPED / 'runs.csv'), at, at[1:]):
    fields: dict[str, Any] = {c: row[c] for c in _RUN_COLUMNS}
    fields['workload'] = workloads[row['workload']]
    fields |= {n: c[start:end] for n, c in zip(_ARRAYS[1:], columns)}
    runs.append(RecordedRun(**fields))
  return runs


def read_workloads() -> dict[str, RecordedWorkload]:
  """The benchmark's workloads by name, with the variants of 2024."""
  found = {}
  for row in files.read_rows(SHIPPED / 'workloads.csv'):
    target, rises = float(row['validation_target']), row['direction'] == 'rises'
    found[row['workload']] = RecordedWorkload(
      row['workload'],
      MetricTarget(row['metric'], target, rises),
      float(row['step_hint_v05'] or row['step_hint_a100']),
      float(row['max_runtime_v05'] or row['max_runtime_a100']),
    )
  return found


def read_logs(root: pathlib.Path) -> list[RecordedRun]:
  """All trials below a folder of the benchmark's logs.

  <root>/.../<submission>/study_<i>/<workload>_<framework>/trial_<j>/

  A workload is what the trial's meta data say.

  Raises:
    ValueError: if there is no trial, or one is damaged or there twice.
  """
  runs = []
  places: dict[tuple[str, ...], pathlib.Path] = {}
  # Resolved, since '.' does not have the name of a submission.
  for path in visible(root.resolve(), f'**/study_*/*/trial_*/{META_DATA}'):
    submission, study, folder, trial, _ = path.parts[-5:]
    name = folder.removesuffix('_jax').removesuffix('_pytorch')
    other = places.setdefault((submission, study, name, trial), path.parent)
    if other != path.parent:
      raise ValueError(
        f'{root} has a trial twice, {other} and {path.parent}: give a folder '
        'of logs with one of them.'
      )
    target = read_target(path.parent)
    log = read_log(path.with_name(logger.EVAL_MEASUREMENTS))
    columns = log.rows[0] if log.rows else ()
    loss = next((c for c in _LOSSES if c in columns), _LOSSES[0])
    runs.append(
      RecordedRun(
        'logs',
        'external',
        submission,
        study,
        _workload(path, name),
        trial,
        # As in published scoring, rows that a preempted run repeats stay.
        log.whole_numbers().astype(np.float64),
        log.numbers('accumulated_submission_time'),
        log.numbers(loss),
        log.numbers(f'validation/{target.metric}'),
      )  # fmt: skip
    )
  if not runs:
    raise ValueError(
      f'{root} has no <submission>/study_<i>/<workload>_<framework>/trial_<j>/'
      f'{META_DATA}: give a folder of logs.'
    )
  return runs


def _workload(path: pathlib.Path, name: str) -> RecordedWorkload:
  limits = []
  for key in ('workload.step_hint', 'workload.max_allowed_runtime_sec'):
    value: Any = read_object(path).get(key)
    if not is_number(value) or value <= 0:
      raise ValueError(f'{path}: {key} is {value!r}; it must be above 0.')
    limits.append(float(value))
  return RecordedWorkload(name, read_target(path.parent), *limits)


def self_tuning() -> list[RecordedRun]:
  """The recorded runs of the self-tuning submissions of 2024."""
  return [r for r in read_runs() if (r.board, r.ruleset) == ('v05', 'self')]


def times(runs: Iterable[RecordedRun]) -> list[TrialTimes]:
  """Times to the targets; a run that was never evaluated hasn't reached its."""
  return [
    TrialTimes(
      run.submission,
      run.study,
      run.workload.name,
      run.workload.target.seconds(run.seconds, run.metric),
    )
    for run in runs
  ]
