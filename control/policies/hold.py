"""The chain, and then its final learning rate."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from ...schedules.cycle import Cycle
from .policy import POLICIES, NextCycle, Policy, Situation, planned_next


@POLICIES.register(name='hold')
@dataclasses.dataclass(frozen=True)
class Hold(Policy):
  """Trains on at the last cycle's final rate until the benchmark ends the run.

  The last cycle is never left early, since nothing follows it.
  """

  holds: ClassVar[bool] = True

  def next(self, situation: Situation) -> NextCycle | None:
    """See `Policy`."""
    return planned_next(situation)

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Refuses a chain whose final learning rate is 0: nothing would change."""
    last = cycles[-1]
    final = float(last.rate(float(last.steps)))
    if not final > 0:
      raise ValueError(
        f"policy='hold': the last cycle's learning rate ends at {final:g}, and "
        'training on at rate 0 changes nothing; policy must be repeat or '
        "finish, or the last of decays must end above 0, as 'constant' does."
      )
