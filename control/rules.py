"""A run's rules, and the decisions that follow from them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..schedules.cycle import Cycle
from ..schedules.cycle_clock import CycleClock
from .goals import Goal
from .horizons import Horizon
from .policies import Policy
from .state import Control, Target
from .switching import SwitchingRule

# What to do before the next train step. WAIT trains on at the cycle's final rate
# until the model has been evaluated.
GO_ON, RE_ANCHOR, RESET, FINISH = 'go_on', 're_anchor', 'reset', 'finish'
WAIT = 'wait'

Event = dict[str, Any]


class Rules(NamedTuple):
  """What decides; it stays the same throughout a run."""

  cycles: tuple[Cycle, ...]
  target: Target
  switching: SwitchingRule
  early_switching: bool  # whether a verdict ends a cycle, or is logged only
  goal: Goal
  horizon: Horizon
  policy: Policy
  reset_mode: str  # what the start of a cycle does to the model
  alpha: float  # moments shrink by alpha * tau
  wait: bool = False  # whether a cycle's end waits for its evaluation
  distance: str = 'log'  # scale of tau for a metric that falls: log or linear
  budget: float = math.nan  # seconds that the run may take; NaN if unknown

  @property
  def keeps_best(self) -> bool:
    """Whether a cycle may start from the best model that was evaluated."""
    starts = {cycle.start_from for cycle in self.cycles}
    return self.policy.keeps_best or 'best' in starts


class Decision(NamedTuple):
  """The outcome of `decide`."""

  control: Control
  clock: CycleClock  # a new one with RE_ANCHOR and RESET
  action: str  # GO_ON, WAIT, RE_ANCHOR, RESET or FINISH
  events: list[Event]  # in the order in which they happened
  # For RESET: whether the cycle that has ended was ever evaluated.
  was_evaluated: bool = True
  # For RESET: what the cycle starts from; see `NextCycle`.
  start_from: str = ''
  # For RESET: the slot of the cycle that is paused, whose model is to be kept;
  # -1 if none is paused.
  paused: int = -1
