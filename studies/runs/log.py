"""A CSV file of a run, read by columns.

What should be a number and is not one is refused with the file's name: files of
runs are passed on, cut off and edited by hand.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files

# Twenty million steps are hundreds of megabytes of learning rates; no run of
# the benchmark has a hundredth of them.
_MOST_STEPS = 20_000_000


class Log(NamedTuple):
  """Rows of a file, as text by column; none if there is no such file."""

  path: pathlib.Path
  rows: Sequence[Mapping[str, str]]

  def of_event(self, event: str) -> Log:
    """The rows of cycles.csv that are about one kind of event."""
    return Log(self.path, [r for r in self.rows if r.get('event') == event])

  def numbers(self, column: str) -> np.ndarray:
    """A column, shape=(rows,); NaN where it is blank, as pandas writes NaN.

    Raises:
      ValueError: for what is not a number.
    """
    return np.array([self._number(row, column) for row in self.rows], float)

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

  def _number(self, row: Mapping[str, str], column: str) -> float:
    text = row.get(column) or 'nan'
    try:
      return float(text)
    except ValueError as e:
      raise ValueError(
        f'{self.path}: {column} is {text!r} in a row; it must be a number.'
      ) from e


def read_log(path: pathlib.Path) -> Log:
  """Reads a CSV file.

  Raises:
    ValueError: if it is not a table.
  """
  return Log(path, files.read_rows(path))
