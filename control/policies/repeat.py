"""The chain, and then its last cycle again and again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from ...schedules.cycle import Cycle
from .policy import POLICIES, NextCycle, Situation, planned_next


@POLICIES.register(name='repeat')
@dataclasses.dataclass(frozen=True)
class Repeat:
  """Goes on while the runner lets it, with further cycles like the last one.

  A further cycle takes the planned steps that are left, after an early switch
  out of the last cycle; when there are none, as many as the last cycle was
  planned for.
  """

  holds: ClassVar[bool] = False

  def next(self, situation: Situation) -> NextCycle | None:
    """See `Policy`."""
    s = situation
    planned = planned_next(s)
    if planned is not None:
      return planned
    last = len(s.cycles) - 1
    end = s.horizon if s.step < s.horizon else s.step + s.cycles[last].steps
    return NextCycle(last, end, end)

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Serves every chain."""
