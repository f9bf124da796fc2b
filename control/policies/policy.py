"""What a policy is: what follows a cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from ... import early_switching
from ...schedules.cycle import Cycle
from ...settings.named import Registry
from ..history import Standing

POLICIES = Registry('policy')


class Situation(NamedTuple):
  """A run at the end of a cycle, or before its first step."""

  cycles: Sequence[Cycle]  # the chain
  cycle: int  # index of the setting of the cycle that ends; -1 before the first
  step: int  # the step about to be taken, the first after it
  horizon: int  # first step after the run, as planned now
  binds: bool = False  # whether nothing comes after it; see `Horizon`
  history: Sequence[Standing] = ()  # a Standing for each of the policy's slots


class NextCycle(NamedTuple):
  """The cycle that starts or resumes now.

  Attributes:
    cycle: index of its setting in the chain.
    end: first step after it, or the step before which it is to be paused.
    horizon: first step after the run, which it may postpone.
    scale: factor on its learning rate.
    start_from: the model that it starts from: '' for what its setting says,
      'fresh' for a full reset, 'current' for the current one untouched (a
      fresh one if it is not finite), 'best' for the best one evaluated,
      'paused' for that of its slot.
    began: share of its full length that it has had already.
    until: share that it is to have at `end`; below 1, it is paused there.
    slot: index of its Standing in the history; -1 if none is kept.
  """

  cycle: int
  end: int
  horizon: int
  scale: float = 1.0
  start_from: str = ''
  began: float = 0.0
  until: float = 1.0
  slot: int = -1


class Policy(Protocol):
  """What follows when a cycle is over, or has been left.

  A policy that goes through the chain and compares nothing only needs `next`.

  Attributes:
    holds: whether the run goes on at its final learning rate when no cycle
      follows; else it ends.
    follows_chain: whether the chain's cycles follow one another in order, so
      that the remaining steps are planned for those to come.
    keeps_best: whether a cycle may start from the best evaluated model.
    makes_fresh: whether a cycle may start from a fresh model, whatever the
      settings and the reset mode say.
    num_spare: how many fresh models beyond `num_fresh` are also made before the
      first step, if the policy does not follow the chain.
  """

  holds: ClassVar[bool] = False
  follows_chain: ClassVar[bool] = True
  keeps_best: ClassVar[bool] = False
  makes_fresh: ClassVar[bool] = False
  num_spare: ClassVar[int] = 0

  def next(self, situation: Situation) -> NextCycle | None:
    """The next cycle; None if nothing follows."""

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Raises ValueError for a chain that the policy cannot work with."""

  def may_leave(self, history: Sequence[Standing], slot: int) -> bool:
    """Whether the switching rule may end the current cycle.

    A cycle whose loss is not finite is left in any case.

    Args:
      history: a Standing per slot.
      slot: that of the current cycle; -1 for none.
    """
    return True

  def num_slots(self, cycles: Sequence[Cycle]) -> int:
    """How many Standings the history has to hold for it."""
    return 0

  def num_fresh(self, cycles: Sequence[Cycle]) -> int:
    """How many fresh models to make before the first step, if any at all."""
    return max(len(cycles) - 1, 1)


def planned_next(situation: Situation) -> NextCycle | None:
  """The chain's next cycle; None if no cycle or no step is left.

  The remaining steps are split over the cycles still to come.
  """
  s = situation
  lengths = [cycle.length for cycle in s.cycles[s.cycle + 1 :]]
  starts = early_switching.starts_to_come(s.step, s.horizon, lengths)
  if not starts:
    return None
  ends = starts[1:] + (s.horizon,)
  return NextCycle(s.cycle + 1, ends[0], s.horizon)
