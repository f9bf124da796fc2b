"""Cycles beyond the list of settings: like the best so far, by what they bring."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

from ...settings.kinds import Choice, Flag, ListOf, Positive, Share
from ..history import UNBEGUN, Standing
from .policy import NextCycle, Policy, Situation

Start = Choice('', 'fresh', 'current', 'best')
Factors = ListOf(Positive, 'a list of at least one number above 0', least=1)
Lengths = ListOf(Share, 'a list of at least one number above 0, up to 1', 1)


@dataclasses.dataclass(frozen=True)
class Further(Policy):
  """Goes on when the settings have been tried, for as long as there is time.

  A further cycle has the setting, and a factor times the peak, of the cycle that
  has come the largest share of the way to the target. There are as many kinds of
  further cycles as pairs of `peaks` and `lengths`. Each is tried once, in order;
  from then on that one follows which has last brought the largest share of the
  way per step, over the best of the run before it. A further cycle that diverges
  is left as any other, and another kind follows. Nothing stops before the runner
  stops it.

  A horizon that does not bind is put off. Where it binds, the steps up to it are
  split over as many cycles as come nearest to the length that is wanted.

  Attributes:
    peaks: factors on the best cycle's peak.
    lengths: shares of the steps of a whole cycle of the best one's setting.
    start: the model that a further cycle starts from: the best one that was
      evaluated, the current one untouched, a fresh one, or '' for what the
      setting and the reset mode say. After a preemption the best one is not
      known any more, up to the next evaluation: '' takes its place.
    patient: whether the switching rule leaves a cycle only for one that is not
      known yet: never a further cycle, and none of the list once all of them
      have begun.
  """

  peaks: Factors = (0.3, 1.0)
  lengths: Lengths = (0.5, 1.0)
  start: Start = 'best'
  patient: Flag = False

  holds: ClassVar[bool] = False

  @property
  def keeps_best(self) -> bool:
    """See `Policy`."""
    return self.start == 'best'

  @property
  def makes_fresh(self) -> bool:
    """See `Policy`."""
    return self.start in ('fresh', 'current')

  def may_leave(self, history: Sequence[Standing], slot: int) -> bool:
    """See `Policy`."""
    if not self.patient:
      return True
    entries = history[: len(history) - len(self.kinds)]
    return any(one.state == UNBEGUN for one in entries)

  @property
  def kinds(self) -> tuple[tuple[float, float], ...]:
    """(factor on the peak, share of the steps) of each kind."""
    return tuple((p, n) for n in self.lengths for p in self.peaks)

  def full_steps(self, situation: Situation, cycle: int) -> float:
    """Steps of a whole cycle: its nominal ones, in proportion to the run's.

    Args:
      situation: where the run stands.
      cycle: index of the cycle's setting.
    """
    s, steps = situation, situation.cycles[cycle].steps
    if not s.binds:
      return float(steps)
    return steps * s.horizon / sum(one.steps for one in s.cycles)

  def further(self, situation: Situation, first_slot: int) -> NextCycle:
    """The further cycle that follows.

    Args:
      situation: with a history of `first_slot` cycles and one of each kind.
      first_slot: of the first kind.
    """
    s = situation
    tried = s.history[first_slot:]
    kind = _choose(tried)
    best = max(s.history[:first_slot], key=lambda one: one.now.best)
    if not math.isfinite(best.now.best):  # nothing to go by
      best = s.history[first_slot - 1]
    factor, length = self.kinds[kind]
    steps = max(math.ceil(length * self.full_steps(s, best.cycle)), 1)
    end = s.step + steps
    if s.binds and s.step < s.horizon:
      rest = s.horizon - s.step
      end = s.step + math.ceil(rest / max(round(rest / steps), 1))
    return NextCycle(
      best.cycle,
      end,
      max(s.horizon, end),
      best.scale * factor,
      self.start,
      slot=first_slot + kind,
    )


def _choose(tried: Sequence[Standing]) -> int:
  """The first kind that has not been tried, or that with the largest gain."""
  for i, standing in enumerate(tried):
    if standing.state == UNBEGUN:
      return i
  return max(range(len(tried)), key=lambda i: tried[i].gain)
