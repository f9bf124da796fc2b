"""Further cycles after the list of settings, modelled on the best so far."""

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
  """Goes on after all settings have been tried, for as long as there is time.

  A further cycle has the setting, and a factor times the peak, of the cycle that
  has come the largest share of the way to the target. Each pair of `peaks` and
  `lengths` is one kind of further cycle. Each kind is tried once, in order;
  from then on the kind follows whose last cycle gained the most per step over
  the run's best before it, as a share of the way. A further cycle that diverges
  is left like any other, and another kind follows. The run goes on until the
  runner stops it.

  A horizon that does not bind is postponed. If it binds, the steps up to it are
  split into as many cycles as bring them nearest to the wanted length.

  Attributes:
    peaks: factors on the best cycle's peak.
    lengths: shares of the steps of a whole cycle with the best one's setting.
    start: the model that a further cycle starts from: 'best' for the best one
      evaluated, 'current' for the current one untouched, 'fresh' for a fresh
      one, or '' for what the setting and the reset mode say. After a preemption
      the best one is lost until the next evaluation: '' takes its place.
    patient: whether the switching rule may end a cycle only while the list has
      settings that have not begun, and never ends a further cycle.
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
    is_of_list = slot < len(entries)
    return is_of_list and any(one.state == UNBEGUN for one in entries)

  @property
  def kinds(self) -> tuple[tuple[float, float], ...]:
    """(factor on the peak, share of the steps) of each kind."""
    return tuple((p, n) for n in self.lengths for p in self.peaks)

  def full_steps(self, situation: Situation, cycle: int) -> float:
    """Steps of a whole cycle: its nominal steps, scaled with the run.

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
      situation: its history has `first_slot` cycles, then one of each kind.
      first_slot: slot of the first kind.
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
  """Index of the first untried kind, or else of that with the largest gain."""
  for i, standing in enumerate(tried):
    if standing.state == UNBEGUN:
      return i
  return max(range(len(tried)), key=lambda i: tried[i].gain)
