"""The best chain, and its score on workloads that it was not chosen on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..scores.profiles import HELD_OUT
from . import board as board_lib
from .board import Board
from .outcomes import Links, Outcomes, chain_outcomes, followed

_TIE = 1e-12  # sums of shares closer than that are equal


class Scope(NamedTuple):
  """Which chains are searched, and how they are chosen.

  Attributes:
    length: number of cycles of the longest chains.
    beam: how many chains of each length are extended to the next; 0 for all.
    with_variants: whether held-out variants count in the choice. A variant
      counts as much as a base workload, and is left out with its base workload.
    choose_by: budget by which chains are chosen; None for that in which they
      are judged.
  """

  length: int = 3
  beam: int = 0
  with_variants: bool = False
  choose_by: float | None = None


class Choice(NamedTuple):
  """A chosen chain, and the policy that ends its cycles."""

  policy: int  # index
  chain: tuple[int, ...]  # index of the first link, and of settings


class Fold(NamedTuple):
  """A workload, and the chain chosen without it."""

  workload: str
  choice: Choice
  share: float  # the chain's contribution to the score on the workload
  reached: bool


class Best(NamedTuple):
  """The best chain of at most `length` cycles."""

  length: int
  budget: float
  choice: Choice
  in_sample: float  # exact score on the base workloads
  targets: int
  left_out: float  # the mean share over the folds
  left_out_targets: int
  folds: Sequence[Fold]


class _Level(NamedTuple):
  """Chains of one length under one policy."""

  policy: int
  chains: np.ndarray  # indices of settings, shape=(n, length)
  outcomes: Outcomes
  shares: np.ndarray  # of the score, shape=(n, workloads)


class ChainSearch:
  """Searches chains of settings under policies.

  Ties go to the shorter chain, then to the earlier policy and settings.

  Attributes:
    board: the entries that chains are scored against.
    scope: which chains are searched.
  """

  def __init__(
    self, links: Sequence[Links], board: Board, scope: Scope
  ) -> None:
    """Searches nothing yet.

    Args:
      links: outcomes under each policy, on `board.workloads`.
      board: the entries that chains are scored against.
      scope: which chains are searched.
    """
    self.board, self.scope = board, scope
    self._links = links
    self._fastest = board.fastest(board.workloads)

  def best(self, budget: float) -> list[Best]:
    """The best chain of at most 1, 2, … cycles, each with its folds.

    Args:
      budget: budget in which chains are judged, as a multiple of the maximum
        runtime.
    """
    chosen_by = self.scope.choose_by or budget
    every = None if self.scope.beam else list(self._levels(chosen_by, None))
    found = []
    for left_out in (None, *self.board.base):
      weights = self._weights(left_out)
      levels = every or self._levels(chosen_by, weights)
      found.append(self._choose(levels, weights))
    return [
      self._judged(length, budget, [choices[length - 1] for choices in found])
      for length in range(1, self.scope.length + 1)
    ]

  def reached_by(self, choice: Choice) -> np.ndarray:
    """A chain's seconds to the target, shape=(workloads, studies), or inf."""
    links = self._links[choice.policy]
    return chain_outcomes(links, choice.chain).reached[0]

  def times_of(self, choice: Choice, budget: float) -> np.ndarray:
    """Their medians over studies within a budget, shape=(workloads,)."""
    return self._times(self.reached_by(choice), budget)

  def _times(self, reached: np.ndarray, budget: float) -> np.ndarray:
    names = self.board.workloads
    kept = board_lib.within(reached, self.board, names, budget)
    return board_lib.median(kept)

  def _judged(
    self, length: int, budget: float, choices: Sequence[Choice]
  ) -> Best:
    base = self.board.base
    times = np.array([self.times_of(choice, budget) for choice in choices])
    shares = board_lib.shares(times, self._fastest)[:, : len(base)]
    reached = np.isfinite(times)[:, : len(base)]
    folds = [
      Fold(
        name, choices[i + 1], float(shares[i + 1, i]), bool(reached[i + 1, i])
      )
      for i, name in enumerate(base)
    ]
    return Best(
      length,
      budget,
      choices[0],
      float(shares[0].mean()),
      int(reached[0].sum()),
      float(np.mean([fold.share for fold in folds])),
      sum(fold.reached for fold in folds),
      folds,
    )

  def _weights(self, left_out: str | None) -> np.ndarray:
    """The weight of each workload in a choice, 0 or 1, shape=(workloads,)."""
    with_say = self.board.base
    if self.scope.with_variants:
      with_say = self.board.workloads
    counts = [
      name in with_say and left_out != HELD_OUT.get(name, name)
      for name in self.board.workloads
    ]
    return np.array(counts, float)

  def _levels(
    self, budget: float, weights: np.ndarray | None
  ) -> Iterator[_Level]:
    """Chains by length and policy; with weights, those that the beam keeps."""
    kept: dict[int, _Level] = {}
    for length in range(1, self.scope.length + 1):
      for policy, links in enumerate(self._links):
        level = self._longer(kept.get(policy), policy, links, budget)
        yield level
        if length < self.scope.length:
          kept[policy] = (
            level if weights is None else self._beam(level, weights)
          )

  def _longer(
    self,
    before: _Level | None,
    policy: int,
    links: Links,
    budget: float,
  ) -> _Level:
    """Chains that are longer by one setting."""
    if before is None:
      chains = np.arange(len(links.first.cost))[:, None]
      together = links.first
    else:
      settings = np.arange(len(links.later.cost))
      first = np.repeat(before.chains, settings.size, axis=0)
      last = np.tile(settings, len(before.chains))
      chains = np.column_stack([first, last])
      together = followed(before.outcomes, links.later)
    times = self._times(together.reached, budget)
    return _Level(
      policy, chains, together, board_lib.shares(times, self._fastest)
    )

  def _beam(self, level: _Level, weights: np.ndarray) -> _Level:
    """The best chains of a level, as many as the beam keeps."""
    order = np.argsort(-(level.shares @ weights), kind='stable')
    best = order[: self.scope.beam]
    kept = Outcomes(*(array[best] for array in level.outcomes))
    return _Level(level.policy, level.chains[best], kept, level.shares[best])

  def _choose(
    self, levels: Iterable[_Level], weights: np.ndarray
  ) -> list[Choice]:
    """The best chain of at most 1, 2, … cycles."""
    best: dict[int, Choice] = {}
    most = -np.inf
    for level in levels:
      sums = level.shares @ weights
      index, length = int(sums.argmax()), level.chains.shape[1]
      if sums[index] > most + _TIE:
        most = sums[index]
        chain = tuple(level.chains[index].tolist())
        best[length] = Choice(level.policy, chain)
    found = []
    for length in range(1, self.scope.length + 1):
      found.append(best[length] if length in best else found[-1])
    return found
