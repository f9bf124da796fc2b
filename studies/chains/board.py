"""The board that chains are scored against, many chains at once.

`studies.scores` has the definitions. A chain is compared with the board's
entries, not with other chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..real_runs.reading import RecordedRun
from ..real_runs.scored import trial_times
from ..scores import profiles
from ..scores.times import median_times

_CHAIN = 'the chain'


class Board(NamedTuple):
  """Entries and the workloads that they were trained on."""

  times: profiles.Times  # median over studies
  base: tuple[str, ...]  # workloads that make up the scores
  variants: tuple[str, ...]  # held-out ones, of 2024
  max_runtime: Mapping[str, float]  # seconds

  @property
  def workloads(self) -> tuple[str, ...]:
    """The base workloads, then the variants."""
    return (*self.base, *self.variants)

  def fastest(self, workloads: Sequence[str]) -> np.ndarray:
    """Seconds of the fastest entry, shape=(workloads,); infinite if none."""
    own = self.times.values()
    found = [min(t.get(w, np.inf) for t in own) for w in workloads]
    return np.array(found)


def read_board(runs: Sequence[RecordedRun]) -> Board:
  """The self-tuning entries of 2024.

  Raises:
    ValueError: if there are none.
  """
  times = median_times(trial_times(runs))
  base = tuple(profiles.base_workloads(times))
  known = {run.workload.name: run.workload.max_runtime for run in runs}
  variants = tuple(
    variant
    for variant, workload in profiles.HELD_OUT.items()
    if workload in base and any(variant in own for own in times.values())
  )
  return Board(times, base, variants, known)


def within(
  reached: np.ndarray, board: Board, workloads: Sequence[str], factor: float
) -> np.ndarray:
  """The times that are within a budget; infinite for the others.

  Args:
    reached: seconds, shape=(chains, workloads, studies).
    board: has the maximum runtimes.
    workloads: their names.
    factor: the budget as a multiple of the maximum runtime.
  """
  budget = factor * np.array([board.max_runtime[w] for w in workloads])
  return np.where(reached <= budget[:, None], reached, np.inf)


def median(times: np.ndarray) -> np.ndarray:
  """The median over the last axis; infinite if half or more of it is.

  For an even number it is the mean of the middle two, as in NumPy.
  """
  ordered, middle = np.sort(times, axis=-1), times.shape[-1] // 2
  if times.shape[-1] % 2:
    return ordered[..., middle]
  return (ordered[..., middle - 1] + ordered[..., middle]) / 2


def shares(
  times: np.ndarray, fastest: np.ndarray, r_max: float = profiles.R_MAX
) -> np.ndarray:
  """What each workload contributes to the exact score, before the mean.

    max(0, r_max - r) / (r_max - 1),   r = t / min(t, fastest)

  Args:
    times: seconds to the target, shape=(..., workloads).
    fastest: those of the fastest entry of the board, shape=(workloads,).
    r_max: the largest ratio that counts.

  Returns:
    shape=(..., workloads), from 0 to 1.
  """
  ratio = np.full(times.shape, np.inf)
  best = np.minimum(times, fastest)
  np.divide(times, best, out=ratio, where=np.isfinite(times))
  return np.clip(r_max - ratio, 0.0, None) / (r_max - 1)


class Official(NamedTuple):
  """One chain's scores."""

  exact: float  # exact integral, base workloads only
  published: float  # trapezoidal rule, base workloads only
  with_held_out: float  # trapezoidal rule, with the rule for held-out workloads
  targets: int  # base workloads whose target is reached
  variants: float  # exact integral over the held-out workloads only


def official(times: Mapping[str, float], board: Board) -> Official:
  """Scores one chain as `studies.scores` scores submissions.

  Args:
    times: seconds to the target, by workload of `board.workloads`.
    board: the entries that it is compared with.
  """
  entered = {**board.times, _CHAIN: times}
  plain = profiles.ratios(
    {n: {w: t.get(w, np.inf) for w in board.base} for n, t in entered.items()}
  )[_CHAIN]
  ruled = profiles.ratios(profiles.base_times(entered, board.base))[_CHAIN]
  own = np.array([times[w] for w in board.variants])
  variants = shares(own, board.fastest(board.variants))
  return Official(
    profiles.exact_score(plain),
    profiles.score(plain),
    profiles.score(ruled),
    int(np.isfinite(plain).sum()),
    float(variants.mean()) if own.size else np.nan,
  )
