"""The thesis' policy: the chain, and then the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from ...schedules.cycle import Cycle
from .policy import POLICIES, NextCycle, Policy, Situation, planned_next


@POLICIES.register(name='finish')
@dataclasses.dataclass(frozen=True)
class Finish(Policy):
  """Ends the run when the cycles have run out, whatever budget is left."""

  holds: ClassVar[bool] = False

  def next(self, situation: Situation) -> NextCycle | None:
    """See `Policy`."""
    return planned_next(situation)

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Works with every chain."""
