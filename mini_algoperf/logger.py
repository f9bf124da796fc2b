"""The measurements of a run: CSV files in the benchmark's form."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import files

MEASUREMENTS = 'measurements.csv'
EVAL_MEASUREMENTS = 'eval_measurements.csv'


class Logged(NamedTuple):
  """A value and the step that it belongs to."""

  global_step: int
  value: float


class _Table:
  """A CSV file that grows by rows and by columns; always whole on disk."""

  def __init__(self, path: pathlib.Path, num_rows: int) -> None:
    self._path = path
    self._columns: list[str] = []
    self.rows: list[dict[str, Any]] = []
    for row in files.read_rows(path)[:num_rows]:
      self._add({name: value for name, value in row.items() if value})

  def _add(self, row: dict[str, Any]) -> None:
    # The benchmark sorts the columns of the first row and appends later ones.
    new = [name for name in row if name not in self._columns]
    self._columns.extend(new if self._columns else sorted(new))
    self.rows.append(row)

  def append(self, row: dict[str, Any]) -> None:
    self._add(row)
    files.write_rows(self._path, self._columns, self.rows)


class MetricLogger:
  """Collects scalars; `workload.metrics_logger` for submissions.

  Attributes:
    latest: the last value of everything that was logged, by name.
  """

  def __init__(
    self, log_dir: pathlib.Path, num_rows: Mapping[str, int] | None = None
  ) -> None:
    """Opens the files of a run in the folder of its trial.

    A resumed run keeps the rows that each file had at its checkpoint, since the
    run repeats the work after the checkpoint. None: a new run.
    """
    self.latest: dict[str, Logged] = {}
    # As in the benchmark's logger, where a submission finds the run's folder.
    self._csv_path = str(log_dir / MEASUREMENTS)
    self._tables = {
      name: _Table(log_dir / name, (num_rows or {}).get(name, 0))
      for name in (MEASUREMENTS, EVAL_MEASUREMENTS)
    }

  @property
  def num_rows(self) -> dict[str, int]:
    """Rows by file name."""
    return {name: len(table.rows) for name, table in self._tables.items()}

  def append_scalar_metrics(
    self,
    metrics: Mapping[str, float],
    global_step: int,
    preemption_count: int | None = None,
    is_eval: bool = False,
  ) -> None:
    """Adds a row to measurements.csv; evaluations also have their own file."""
    row = dict(metrics, global_step=global_step)
    if preemption_count is not None:
      row['preemption_count'] = preemption_count
    self.latest.update({k: Logged(global_step, v) for k, v in row.items()})
    self._tables[MEASUREMENTS].append(row)
    if is_eval:
      self._tables[EVAL_MEASUREMENTS].append(row)
