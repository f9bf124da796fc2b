"""What single chains come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...settings.named import Setting
from . import board as board_lib
from .board import Board, Official
from .outcomes import Outcomes, chain_outcomes
from .settings import ChainSetting


class Judgement(NamedTuple):
  """A chain under a policy in a budget; workloads as in `Board.workloads`."""

  chain: Sequence[ChainSetting]
  policy: Setting
  budget: float  # as a multiple of the maximum runtime
  scores: Official
  by_study: np.ndarray  # exact scores of the studies one by one, (studies,)
  seconds: np.ndarray  # shape=(workloads, studies); infinite if not reached
  shares: np.ndarray  # of the exact score, shape=(workloads,)


def judge(
  chain: Sequence[int],
  settings: Sequence[ChainSetting],
  single: Outcomes,
  policy: Setting,
  board: Board,
  budget: float,
) -> Judgement:
  """Scores a chain.

  Args:
    chain: indices of settings.
    settings: all.
    single: their outcomes on `board.workloads`.
    policy: under which the outcomes are.
    board: what the chain is scored against.
    budget: as a multiple of the maximum runtime.
  """
  names = board.workloads
  reached = chain_outcomes(single, chain).reached[0]
  seconds = board_lib.within(reached, board, names, budget)
  fastest = board.fastest(names)
  times = board_lib.median(seconds)
  of_studies = board_lib.shares(seconds.T, fastest)[:, : len(board.base)]
  return Judgement(
    [settings[i] for i in chain],
    policy,
    budget,
    board_lib.official(dict(zip(names, times.tolist())), board),
    of_studies.mean(axis=1),
    seconds,
    board_lib.shares(times, fastest),
  )
