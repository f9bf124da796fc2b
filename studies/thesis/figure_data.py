"""What a figure shows of a run that was trained with several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..runs.table import RunTable

# Points of a curve whose seeds were not evaluated at the same places.
_NUM_POINTS = 400

# A run's steps and the values of a quantity at them.
Curve = Callable[[RunTable], tuple[np.ndarray, np.ndarray]]


class Band(NamedTuple):
  """A quantity over seeds: median, and quartiles as its spread."""

  x: np.ndarray  # shape=(n,); steps or seconds
  median: np.ndarray  # shape=(n,)
  lower: np.ndarray  # shape=(n,); 25 % of the seeds are below
  upper: np.ndarray  # shape=(n,); 25 % of the seeds are above


class ResetMark(NamedTuple):
  """A reset, the n-th of a run, over its seeds."""

  x: float  # median step or second
  taus: tuple[float, ...]  # one per seed that came so far


def seconds_at(table: RunTable, steps: np.ndarray) -> np.ndarray:
  """Seconds of submission time at some steps, between evaluations on a line.

  Args:
    table: the run, which has been evaluated.
    steps: shape (n,).
  """
  times = np.append(0.0, table.eval_times)
  return np.interp(steps, np.append(0, table.eval_steps), times)


def positions(table: RunTable, steps: np.ndarray, x_axis: str) -> np.ndarray:
  """Where steps are on an axis: the steps themselves, or seconds.

  Args:
    table: the run.
    steps: shape (n,).
    x_axis: 'steps' or 'time'.
  """
  return seconds_at(table, steps) if x_axis == 'time' else np.asarray(steps)


def band(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> Band:
  """Median and quartiles over seeds.

  Args:
    curves: (x, y) of each seed, x ascending. Between its points a seed's curve
      is straight, as it is drawn; where it has ended, or is not finite, the
      others are what is shown.

  Returns:
    The band over all places at which a seed has a point, if all have the same
    ones, and otherwise over evenly spaced ones.
  """
  curves = [(x, y) for x, y in curves if len(x)]
  if not curves:
    return Band(*np.zeros((4, 0)))
  # A seed that ended earlier has the start of the others' points.
  longest = max((x for x, _ in curves), key=len)
  if all(np.array_equal(x, longest[: len(x)]) for x, _ in curves):
    grid = longest
  else:
    end = max(x[-1] for x, _ in curves)
    grid = np.linspace(min(x[0] for x, _ in curves), end, _NUM_POINTS)
  rows = np.array([np.interp(grid, x, y, right=np.nan) for x, y in curves])
  return Band(grid, *_quartiles(rows))


def _quartiles(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Median and quartiles of each column's finite values; NaN if there is none."""
  middle, low, high = np.full((3, rows.shape[1]), np.nan)
  for i, column in enumerate(rows.T):
    finite = column[np.isfinite(column)]
    if finite.size:
      low[i], middle[i], high[i] = np.quantile(finite, (0.25, 0.5, 0.75))
  return middle, low, high


def curve_bands(
  tables: Sequence[RunTable],
  curve: Curve,
  x_axis: str,
) -> list[Band]:
  """A quantity over seeds: one band over steps, over time a curve per seed.

  Machines drift (thesis, figure 3.1): over time the seeds' cycles are out of
  step, and a median of such curves looks like none of them.

  Args:
    tables: a run's seeds.
    curve: gives a seed's (steps, values).
    x_axis: 'steps' or 'time'.
  """
  if x_axis == 'steps':
    return [band([curve(table) for table in tables])]
  points = [(table, *curve(table)) for table in tables]
  return [Band(seconds_at(t, steps), y, y, y) for t, steps, y in points]


def resets(tables: Sequence[RunTable], x_axis: str) -> list[ResetMark]:
  """The resets of a run, each over the seeds that have come so far.

  Over time, several seeds have no place in common: there are none.

  Args:
    tables: a run's seeds.
    x_axis: 'steps' or 'time'.
  """
  if x_axis == 'time' and len(tables) > 1:
    return []
  result = []
  for n in range(max((len(table.resets) for table in tables), default=0)):
    there = [table for table in tables if n < len(table.resets)]
    steps = [
      positions(table, np.array([table.resets[n][0]]), x_axis)[0]
      for table in there
    ]
    taus = tuple(table.resets[n][1] for table in there)
    result.append(ResetMark(float(np.median(steps)), taus))
  return result


def describe_taus(taus: Sequence[float]) -> str:
  """tau, or its median with the lowest and the highest over seeds."""
  middle = f'τ = {np.median(taus):.3g}'
  if len(taus) == 1 or min(taus) == max(taus):
    return middle
  return f'{middle}\n({min(taus):.3g} to {max(taus):.3g})'
