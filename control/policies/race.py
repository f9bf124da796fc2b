"""Several settings, or peaks, for a short while each; on with the best."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

from ...schedules.cycle import Cycle
from ...settings.checks import check
from ..history import PAUSED, UNBEGUN
from .further import Factors, Further
from .policy import POLICIES, NextCycle, Situation
from .tournament import Tournament, Turn, wrong_rounds

_LEAST_REST = 0.5  # of the steps that are wanted, for which the horizon stays


@POLICIES.register(name='race', check=wrong_rounds)
@dataclasses.dataclass(frozen=True)
class Race(Tournament, Further):
  """A race of the list's settings, each with each factor on its peak.

  All begin with a fresh model. Who is paused lies on the host, with parameters,
  batch statistics and optimizer state (three times the parameters for Adam), up
  to `probes` - 1 at a time, and goes on from there. They are compared by their
  evaluations; see `Tournament`. Factors on the peak compile nothing, nor do
  settings with the same inner optimizer.

  A cycle's full length is that of its setting in the chain, in proportion where
  a horizon that binds has moved. A probe takes its share of it. Who goes on to
  its end takes the steps that are missing, or those up to the horizon if they
  are at least half of that or the horizon binds; else the horizon is put off.
  When all are over, see `Further`.

  A preemption loses the paused models: they are not compared anew, but whoever
  is to go on of them begins again from a fresh model.

  Attributes:
    scales: factors on the peak; those of the first one for all settings come
      first, then those of the second one.
  """

  scales: Factors = (1.0,)

  follows_chain: ClassVar[bool] = False

  def next(self, situation: Situation) -> NextCycle:
    """See `Policy`."""
    s, cyclists = situation, self._all(situation.cycles)
    turn = None
    if all(one.state == UNBEGUN for one in s.history[len(cyclists) :]):
      turn = self.turn(s.history[: len(cyclists)])
    if turn is None:
      return self.further(s, len(cyclists))
    return self._stint(s, turn, *cyclists[turn.entry])

  def _all(self, cycles: Sequence[Cycle]) -> list[tuple[int, float]]:
    """(index of the setting, factor on its peak) of those in the race."""
    return [
      (i, float(factor)) for factor in self.scales for i in range(len(cycles))
    ]

  def _stint(
    self, s: Situation, turn: Turn, cycle: int, scale: float
  ) -> NextCycle:
    standing = s.history[turn.entry]
    goes_on = standing.state == PAUSED
    began = standing.share if goes_on else 0.0
    # A round that an evaluation has come late in may be over when it begins: a
    # step, and then the next evaluation.
    least = began + 1.0 / s.cycles[cycle].steps
    until = min(max(turn.until, least), 1.0)
    end, horizon = _end_of(s, cycle, until - began, until == 1.0)
    start = 'paused' if goes_on else 'fresh'
    return NextCycle(
      cycle, end, horizon, scale, start, began, until, turn.entry
    )

  def num_slots(self, cycles: Sequence[Cycle]) -> int:
    """See `Policy`."""
    return len(self._all(cycles)) + len(self.kinds)

  def num_fresh(self, cycles: Sequence[Cycle]) -> int:
    """See `Policy`."""
    return max(min(self.probes, len(self._all(cycles))) - 1, 1)

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Refuses a race of one."""
    count = len(self._all(cycles))
    right = 'so many that with the settings of the list there are two to race'
    check(count > 1, 'policy.scales', self.scales, right)


def _end_of(
  s: Situation, cycle: int, share: float, is_last_stint: bool
) -> tuple[int, int]:
  """(first step after a stint, first step after the run)."""
  full = float(s.cycles[cycle].steps)
  if s.binds:
    full *= s.horizon / sum(cycle.steps for cycle in s.cycles)
  steps = max(math.ceil(share * full), 1)
  rest = s.horizon - s.step
  fits = rest >= (1 if s.binds else _LEAST_REST * steps)
  if is_last_stint and fits:
    steps = min(steps, rest)
  return s.step + steps, max(s.horizon, s.step + steps)
