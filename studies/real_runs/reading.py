"""Recorded runs from a folder of three files; README.md says what is in them."""

from __future__ import annotations

import math
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files

SHIPPED = pathlib.Path(__file__).parent
_DIRECTIONS = {'rises': True, 'falls': False}
_RUN_COLUMNS = (
  'board ruleset submission framework study workload trial hparams'
).split()
_ARRAYS = ('first', 'step', 'seconds', 'loss', 'metric')


class RecordedWorkload(NamedTuple):
  """What a workload asks for."""

  name: str
  metric: str
  rises: bool  # whether a larger metric is better
  target: float  # validation target
  step_hint: float  # of 2024; of 2026 where 2024 did not have the workload
  max_runtime: float  # seconds, likewise


class RecordedRun(NamedTuple):
  """A run and its evaluations; arrays of float64, shape=(evaluations,)."""

  board: str
  ruleset: str
  submission: str
  framework: str
  study: str
  workload: RecordedWorkload
  trial: str
  hparams: str  # JSON; empty if not known
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
    target = self.workload.target
    better = self.metric >= target
    if not self.workload.rises:
      better = self.metric <= target
    return int(better.argmax()) if better.any() else None


def read_runs(folder: pathlib.Path = SHIPPED) -> list[RecordedRun]:
  """All runs of a folder, in the order of runs.csv.

  Args:
    folder: with runs.csv, evaluations.npz and workloads.csv.

  Raises:
    ValueError: if one of them is missing or not what README.md says.
  """
  workloads = read_workloads(folder)
  path = folder / 'runs.csv'
  rows = _rows(path, _RUN_COLUMNS)
  evaluations = _read_evaluations(folder / 'evaluations.npz', len(rows))
  runs = []
  for row, (start, end) in zip(rows, evaluations.bounds):
    if row['workload'] not in workloads:
      raise ValueError(
        f'{path} has runs on {row["workload"]}, which workloads.csv lacks.'
      )
    fields = {**row, 'workload': workloads[row['workload']]}
    columns = (column[start:end] for column in evaluations.columns)
    runs.append(RecordedRun(*(fields[c] for c in _RUN_COLUMNS), *columns))
  return runs


def read_workloads(
  folder: pathlib.Path = SHIPPED,
) -> dict[str, RecordedWorkload]:
  """The workloads by their names.

  Raises:
    ValueError: if workloads.csv is missing or not what README.md says.
  """
  path = folder / 'workloads.csv'
  columns = ['workload', 'metric', 'direction', 'validation_target']
  return {row['workload']: _workload(path, row) for row in _rows(path, columns)}


def _workload(path: pathlib.Path, row: Mapping[str, str]) -> RecordedWorkload:
  name = row['workload']
  if row['direction'] not in _DIRECTIONS:
    raise ValueError(
      f'{path}: direction is {row["direction"]!r} for {name}; it must be rises '
      'or falls.'
    )
  numbers = [
    _positive(path, name, what, text)
    for what, text in (
      ('validation_target', row['validation_target']),
      ('step_hint_v05', _of_2024(row, 'step_hint')),
      ('max_runtime_v05', _of_2024(row, 'max_runtime')),
    )
  ]
  rises = _DIRECTIONS[row['direction']]
  return RecordedWorkload(name, row['metric'], rises, *numbers)


def _of_2024(row: Mapping[str, str], what: str) -> str:
  return row.get(f'{what}_v05') or row.get(f'{what}_a100') or ''


def _positive(path: pathlib.Path, name: str, what: str, text: str) -> float:
  try:
    number = float(text)
  except ValueError:
    number = math.nan
  if not 0 < number < math.inf:
    raise ValueError(
      f'{path}: {what} is {text!r} for {name}; it must be a number above 0.'
    )
  return number


class _Evaluations(NamedTuple):
  bounds: Sequence[tuple[int, int]]  # of each run
  columns: Sequence[np.ndarray]  # step, seconds, loss, metric


def _read_evaluations(path: pathlib.Path, num_runs: int) -> _Evaluations:
  try:
    # Left to itself, numpy keeps a damaged file open.
    with path.open('rb') as file, np.load(file) as arrays:
      first, *columns = (np.asarray(arrays[n], np.float64) for n in _ARRAYS)
  except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as e:
    raise ValueError(f'{path} cannot be read: {e}.') from e
  is_rising = first.shape == (num_runs + 1,) and (np.diff(first) >= 0).all()
  ends = first[-1] if first.size else 0
  if not is_rising or any(column.shape != (ends,) for column in columns):
    raise ValueError(
      f'{path}: its first must be {num_runs + 1} rising numbers, one more than '
      'runs.csv has runs, and the other arrays as long as the last one says.'
    )
  bounds = first.astype(int).tolist()
  return _Evaluations(list(zip(bounds, bounds[1:])), columns)


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
