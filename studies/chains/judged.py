"""The scores of single chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...settings.named import Setting
from . import board as board_lib
from .board import Board, Official
from .outcomes import Links, chain_outcomes


class Judgement(NamedTuple):
  """A chain's scores under a policy; workloads as in `Board.workloads`."""

  chain: Sequence[str]  # names of its links
  policy: Setting
  budget: float  # as a multiple of the maximum runtime
  scores: Official
  by_study: np.ndarray  # exact scores of the studies one by one, (studies,)
  seconds: np.ndarray  # shape=(workloads, studies); infinite if not reached
  shares: np.ndarray  # contributions to the exact score, shape=(workloads,)


def judge(
  names: Sequence[str],
  chain: Sequence[int],
  links: Links,
  policy: Setting,
  board: Board,
  budget: float,
) -> Judgement:
  """Scores a chain.

  Args:
    names: names of its links.
    chain: the index of its first link, and those of the later ones.
    links: their outcomes on `board.workloads`.
    policy: the policy under which the outcomes were computed.
    board: what the chain is scored against.
    budget: as a multiple of the maximum runtime.
  """
  workloads = board.workloads
  reached = chain_outcomes(links, chain).reached[0]
  seconds = board_lib.within(reached, board, workloads, budget)
  fastest = board.fastest(workloads)
  times = board_lib.median(seconds)
  of_studies = board_lib.shares(seconds.T, fastest)[:, : len(board.base)]
  return Judgement(
    names,
    policy,
    budget,
    board_lib.official(dict(zip(workloads, times.tolist())), board),
    of_studies.mean(axis=1),
    seconds,
    board_lib.shares(times, fastest),
  )
