"""What a policy is: what follows a cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ... import early_switching
from ...schedules.cycle import Cycle
from ...settings.named import Registry

POLICIES = Registry('policy')


class Situation(NamedTuple):
  """A run at the end of a cycle."""

  cycles: Sequence[Cycle]  # the chain
  cycle: int  # index of the cycle that ends
  step: int  # the step about to be taken, the first after it
  horizon: int  # first step after the run, as planned now
  binds: bool = False  # whether nothing comes after it; see `Horizon`


class NextCycle(NamedTuple):
  """The cycle that starts now."""

  cycle: int  # index of its setting in the chain
  end: int  # first step after it
  horizon: int  # first step after the run, which it may put off
  scale: float = 1.0  # factor on its learning rate


class Policy(Protocol):
  """What follows when a cycle is over, or has been left.

  Attributes:
    holds: whether a run that nothing follows goes on at its final rate; else it
      ends.
  """

  holds: bool

  def next(self, situation: Situation) -> NextCycle | None:
    """The next cycle; None if nothing follows."""

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Raises ValueError for a chain that the policy cannot serve."""


def planned_next(situation: Situation) -> NextCycle | None:
  """The chain's next cycle; None if no cycle or no step is left.

  The remaining steps are split over the cycles still to do.
  """
  s = situation
  lengths = [cycle.length for cycle in s.cycles[s.cycle + 1 :]]
  starts = early_switching.starts_to_come(s.step, s.horizon, lengths)
  if not starts:
    return None
  ends = starts[1:] + (s.horizon,)
  return NextCycle(s.cycle + 1, ends[0], s.horizon)
