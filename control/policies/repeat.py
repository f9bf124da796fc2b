"""The chain, and then its last cycle over and over."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

from ...schedules.cycle import Cycle
from .policy import POLICIES, NextCycle, Policy, Situation, planned_next


@POLICIES.register(name='repeat')
@dataclasses.dataclass(frozen=True)
class Repeat(Policy):
  """Repeats the last cycle until the runner ends the run.

  A further cycle takes as many steps as the last one was planned for, also after
  an early switch out of it: squeezed into what is left of the plan, it might
  get a step or two, at the rates of a warm-up. It postpones the horizon. If the
  horizon binds, the steps up to it are split into as many further cycles as
  bring them nearest to the last one's length, scaled with the horizon.
  """

  holds: ClassVar[bool] = False

  def next(self, situation: Situation) -> NextCycle | None:
    """See `Policy`."""
    s = situation
    planned = planned_next(s)
    if planned is not None:
      return planned
    last = len(s.cycles) - 1
    if s.binds and s.step < s.horizon:
      return NextCycle(last, s.step + _share_of_rest(s), s.horizon)
    end = s.step + s.cycles[last].steps
    return NextCycle(last, end, end)

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Works with every chain."""


def _share_of_rest(s: Situation) -> int:
  """Steps of the first of the equal cycles that fill the run."""
  rest, planned = s.horizon - s.step, sum(cycle.steps for cycle in s.cycles)
  length = s.cycles[-1].steps * s.horizon / planned
  return math.ceil(rest / max(round(rest / length), 1))
