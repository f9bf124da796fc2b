"""Recorded runs: from a folder of three files, as README.md describes it, or
from the benchmark's logs."""

from __future__ import annotations

import math
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...mini_algoperf import files, logger
from ..paths import META_DATA, check_file, read_object
from ..run_files import MetricTarget, read_log, read_target
from ..scores import TrialTimes

SHIPPED = pathlib.Path(__file__).parent
_RUNS = 'runs.csv'
_DIRECTIONS = {'rises': True, 'falls': False}
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


def read_runs(folder: pathlib.Path = SHIPPED) -> list[RecordedRun]:
  """All runs of a folder, in the order of runs.csv.

  Raises:
    ValueError: if one of them is missing or not what README.md says.
  """
  workloads = read_workloads(folder)
  path = folder / _RUNS
  rows = _rows(path, _RUN_COLUMNS)
  first, columns = _read_evaluations(folder / 'evaluations.npz', len(rows))
  runs = []
  for row, start, end in zip(rows, first, first[1:]):
    if row['workload'] not in workloads:
      raise ValueError(
        f'{path} has runs on {row["workload"]}, which workloads.csv lacks.'
      )
    fields: dict[str, Any] = {c: row[c] for c in _RUN_COLUMNS}
    fields['workload'] = workloads[row['workload']]
    fields |= {n: c[start:end] for n, c in zip(_ARRAYS[1:], columns)}
    runs.append(RecordedRun(**fields))
  return runs


def read_workloads(
  folder: pathlib.Path = SHIPPED,
) -> dict[str, RecordedWorkload]:
  """The workloads by their names.

  Raises:
    ValueError: if workloads.csv is missing or not what README.md says.
  """
  path = folder / 'workloads.csv'
  found = {}
  needed = ['workload', 'metric', 'direction', 'validation_target']
  for row in _rows(path, needed):
    name = row['workload']
    if row['direction'] not in _DIRECTIONS:
      raise ValueError(
        f'{path}: direction is {row["direction"]!r} for {name}; it must be '
        'rises or falls.'
      )
    target, step_hint, max_runtime = (
      _positive(path, name, what, row.get(what) or row.get(other) or '')
      for what, other in (
        ('validation_target', ''),
        ('step_hint_v05', 'step_hint_a100'),
        ('max_runtime_v05', 'max_runtime_a100'),
      )
    )
    goal = MetricTarget(row['metric'], target, _DIRECTIONS[row['direction']])
    found[name] = RecordedWorkload(name, goal, step_hint, max_runtime)
  return found


def _positive(path: pathlib.Path, name: str, what: str, value: object) -> float:
  try:
    number = float(str(value))
  except ValueError:
    number = math.nan
  if not 0 < number < math.inf:
    raise ValueError(
      f'{path}: {what} is {value!r} for {name}; it must be a number above 0.'
    )
  return number


def _read_evaluations(
  path: pathlib.Path, num_runs: int
) -> tuple[list[int], Sequence[np.ndarray]]:
  """Where each run begins, and step, seconds, loss and metric of all runs."""
  try:
    # Left to itself, numpy keeps a damaged file open.
    with check_file(path).open('rb') as file, np.load(file) as arrays:
      first, *columns = (np.asarray(arrays[n], np.float64) for n in _ARRAYS)
  except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as e:
    raise ValueError(f'{path} cannot be read: {e}.') from e
  is_rising = first.shape == (num_runs + 1,) and (np.diff(first) >= 0).all()
  length = first[-1] if first.size else 0
  if not is_rising or any(column.shape != (length,) for column in columns):
    raise ValueError(
      f'{path}: its first must be {num_runs + 1} rising numbers, one more than '
      'runs.csv has runs, and the other arrays as long as the last one says.'
    )
  return first.astype(int).tolist(), columns


def _rows(
  path: pathlib.Path, columns: Sequence[str]
) -> Sequence[Mapping[str, str]]:
  rows = files.read_rows(path)
  if not rows:
    raise ValueError(f'{path} is missing or has no rows.')
  missing = [c for c in columns if rows[0].get(c) is None]
  if missing:
    raise ValueError(f'{path} lacks {", ".join(missing)}.')
  return rows


def read_logs(root: pathlib.Path) -> list[RecordedRun]:
  """All trials below a folder of the benchmark's logs that were ever evaluated.

  <root>/.../<submission>/study_<i>/<workload>_<framework>/trial_<j>/

  A workload of the benchmark has the target, step hint and maximum runtime of
  2024, any other those of its trials' meta data.

  Raises:
    ValueError: if there is no trial, or the files of one are damaged.
  """
  known = read_workloads()
  runs = []
  for path in _trials(root, '**/', logger.EVAL_MEASUREMENTS):
    submission, study, folder, trial, _ = path.parts[-5:]
    name = _workload_name(folder)
    workload = known.get(name) or _workload(path.with_name(META_DATA), name)
    log = read_log(path)
    columns = log.rows[0] if log.rows else ()
    loss = next((c for c in _LOSSES if c in columns), _LOSSES[0])
    runs.append(
      RecordedRun(
        'logs',
        'external',
        submission,
        study,
        workload,
        trial,
        log.whole_numbers().astype(np.float64),
        log.numbers('accumulated_submission_time'),
        log.numbers(loss),
        log.numbers(f'validation/{workload.target.metric}'),
      )  # fmt: skip
    )
  return runs


def _trials(root: pathlib.Path, where: str, file: str) -> list[pathlib.Path]:
  """The files of a name in the trials of submissions somewhere below a folder."""
  found = sorted(root.glob(f'{where}study_*/*/trial_*/{file}'))
  if not found:
    raise ValueError(
      f'{root} has no <submission>/study_<i>/<workload>_<framework>/trial_<j>/'
      f'{file}: give a folder of logs.'
    )
  return found


def _workload_name(folder: str) -> str:
  return folder.removesuffix('_jax').removesuffix('_pytorch')


def _workload(path: pathlib.Path, name: str) -> RecordedWorkload:
  if not path.exists():
    raise ValueError(
      f'{path} is missing: {name} is not a workload of the benchmark, and '
      'nothing says what its target is.'
    )
  target, meta = read_target(path.parent), read_object(path)
  step_hint, max_runtime = (
    _positive(path, name, key, meta.get(f'workload.{key}'))
    for key in ('step_hint', 'max_allowed_runtime_sec')
  )
  return RecordedWorkload(name, target, step_hint, max_runtime)


def read_times(
  folder: pathlib.Path, board: str | None = None, ruleset: str | None = None
) -> list[TrialTimes]:
  """Times to the targets, of recorded runs or of the benchmark's logs.

  A trial that was never evaluated hasn't reached its target.

  Args:
    folder: of recorded runs, with runs.csv, or of submissions' logs,
      <submission>/study_<i>/<workload>_<framework>/trial_<j>.
    board: of the recorded runs that are compared; None for v05, or for logs.
    ruleset: likewise; None for self, or for logs.

  Raises:
    ValueError: if there are no such runs, or a file is damaged.
  """
  if (folder / _RUNS).exists():
    runs, wanted = read_runs(folder), (board or 'v05', ruleset or 'self')
    found = [run for run in runs if (run.board, run.ruleset) == wanted]
    if not found:
      known = sorted({f'{run.board} {run.ruleset}' for run in runs})
      raise ValueError(
        f'there are no runs of board={wanted[0]} with ruleset={wanted[1]}, but '
        f'of {", ".join(known)}.'
      )
    return [
      TrialTimes(
        run.submission,
        run.study,
        run.workload.name,
        run.workload.target.seconds(run.seconds, run.metric),
      )
      for run in found
    ]
  if board or ruleset:
    raise ValueError(
      f'--board and --ruleset choose among recorded runs, but {folder} has no '
      f'{_RUNS}.'
    )
  times = []
  for path in _trials(folder, '*/', META_DATA):
    submission, study, name = path.parts[-5:-2]
    target = read_target(path.parent)
    log = read_log(path.with_name(logger.EVAL_MEASUREMENTS))
    seconds = target.seconds(
      log.numbers('accumulated_submission_time'),
      log.numbers(f'validation/{target.metric}'),
    )
    times.append(TrialTimes(submission, study, _workload_name(name), seconds))
  return times
