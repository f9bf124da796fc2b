"""Times to the targets of recorded runs, for their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..scores.times import TrialTimes
from .reading import RecordedRun


def trial_times(
  runs: Sequence[RecordedRun], board: str = 'v05', ruleset: str = 'self'
) -> list[TrialTimes]:
  """The runs of a board as `studies.scores` takes them.

  Args:
    runs: of any kind.
    board: as in runs.csv.
    ruleset: likewise.

  Raises:
    ValueError: if there are no such runs.
  """
  found = [run for run in runs if (run.board, run.ruleset) == (board, ruleset)]
  if not found:
    known = sorted({f'{run.board} {run.ruleset}' for run in runs})
    raise ValueError(
      f'there are no runs of board={board} with ruleset={ruleset}, but of '
      f'{", ".join(known)}.'
    )
  return [
    TrialTimes(run.submission, run.study, run.workload.name, _seconds(run))
    for run in found
  ]


def _seconds(run: RecordedRun) -> float:
  return math.inf if run.reached is None else float(run.seconds[run.reached])
