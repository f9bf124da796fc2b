"""How much of a chain's score is luck with the studies that there are."""

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
  in_sample: tuple[float, ...]  # chosen and judged on the studies drawn
  other_studies: tuple[float, ...]  # judged on those that were not drawn
  left_out: tuple[float, ...]  # left-out workloads, on the studies drawn
  same: float  # share of the draws in which the same chain is chosen
  chosen: float  # the score of that chain on other studies, the median


def draws(
  num_studies: int, num_draws: int, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Studies drawn with replacement, as many as there are, and the others.

  A draw of all studies, which leaves no others, is drawn anew.

  Raises:
    ValueError: if there is but one study.
  """
  if num_studies < 2:
    raise ValueError(
      f'there are {num_studies} studies; a draw needs at least 2.'
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
  """Chooses chains anew for draws of the studies.

  Args:
    links: see `ChainSearch`.
    board: likewise.
    scope: likewise.
    budget: as a multiple of the maximum runtime.
    num_draws: how many; their seed is fixed.

  Returns:
    One for each length.

  Raises:
    ValueError: if there is but one study.
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
  """The same in some studies."""

  def drawn(whole: Outcomes) -> Outcomes:
    return Outcomes(*(array[:, :, studies] for array in whole))

  return [Links(drawn(own.first), drawn(own.later)) for own in links]


def score(search: ChainSearch, choice: Choice, budget: float) -> float:
  """The exact score of a chain on the base workloads."""
  base = search.board.base
  times = search.times_of(choice, budget)[: len(base)]
  return float(board_lib.shares(times, search.board.fastest(base)).mean())


def _summary(length: int, budget: float, values: np.ndarray) -> Luck:
  """Of the draws of one length, shape=(draws, 5)."""
  quantiles = np.quantile(values[:, :3], QUANTILES, axis=0)
  return Luck(
    length,
    budget,
    *(tuple(column) for column in quantiles.T.tolist()),
    float(values[:, 3].mean()),
    float(np.median(values[:, 4])),
  )
