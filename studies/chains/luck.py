"""How much of a chain's score is luck: bootstrap over the recorded studies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from . import board as board_lib
from .board import Board
from .outcomes import Links, Outcomes
from .search import ChainSearch, Choice, Scope

QUANTILES = (0.05, 0.5, 0.95)


class Luck(NamedTuple):
  """Exact scores over draws of studies: 5 % quantile, median, 95 % quantile."""

  length: int
  budget: float
  in_sample: tuple[float, ...]  # chosen and judged on the drawn studies
  other_studies: tuple[float, ...]  # judged on the studies that were not drawn
  left_out: tuple[float, ...]  # left-out workloads, on the drawn studies
  same: float  # share of draws that choose the same chain as all studies do
  chosen: float  # that chain's median score on the studies not drawn


def draws(
  num_studies: int, num_draws: int, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Indices of studies drawn with replacement, and of those not drawn.

  A draw that leaves none out is repeated.

  Raises:
    ValueError: if there are fewer than two studies.
  """
  if num_studies < 2:
    raise ValueError(
      f'num_studies={num_studies}: a draw needs at least 2 studies.'
    )
  rng = np.random.default_rng(seed)
  made = 0
  while made < num_draws:
    drawn = rng.integers(num_studies, size=num_studies)
    others = np.setdiff1d(np.arange(num_studies), drawn)
    if others.size:
      made += 1
      yield drawn, others


def luck(
  links: Sequence[Links],
  board: Board,
  scope: Scope,
  budget: float,
  num_draws: int,
) -> list[Luck]:
  """Repeats the choice of chains for bootstrap draws of the studies.

  Args:
    links, board, scope: see `ChainSearch`.
    budget: as a multiple of the maximum runtime.
    num_draws: how many draws; their seed is fixed.

  Returns:
    One summary for each length.

  Raises:
    ValueError: if there are fewer than two studies.
  """
  whole = [
    best.choice for best in ChainSearch(links, board, scope).best(budget)
  ]
  rows = []
  for drawn, others in draws(links[0].later.cost.shape[2], num_draws):
    rest = ChainSearch(_of(links, others), board, scope)
    found = ChainSearch(_of(links, drawn), board, scope).best(budget)
    rows.append(
      [
        (
          best.in_sample,
          score(rest, best.choice, budget),
          best.left_out,
          best.choice == choice,
          score(rest, choice, budget),
        )
        for best, choice in zip(found, whole)
      ]
    )
  return [
    _summary(length, budget, np.array(values))
    for length, values in enumerate(zip(*rows), start=1)
  ]


def _of(links: Sequence[Links], studies: np.ndarray) -> list[Links]:
  """The links restricted to some studies."""

  def drawn(whole: Outcomes) -> Outcomes:
    return Outcomes(*(array[:, :, studies] for array in whole))

  return [Links(drawn(own.first), drawn(own.later)) for own in links]


def score(search: ChainSearch, choice: Choice, budget: float) -> float:
  """The exact score of a chain on the base workloads."""
  base = search.board.base
  times = search.times_of(choice, budget)[: len(base)]
  return float(board_lib.shares(times, search.board.fastest(base)).mean())


def _summary(length: int, budget: float, values: np.ndarray) -> Luck:
  """The summary of one length's draws; values have shape=(draws, 5)."""
  quantiles = np.quantile(values[:, :3], QUANTILES, axis=0)
  return Luck(
    length,
    budget,
    *(tuple(column) for column in quantiles.T.tolist()),
    float(values[:, 3].mean()),
    float(np.median(values[:, 4])),
  )
