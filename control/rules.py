"""What decides in a run, and what comes of a decision."""

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
  """What decides; the same through a run."""

  cycles: tuple[Cycle, ...]
  target: Target
  switching: SwitchingRule
  early_switching: bool  # whether a verdict ends a cycle, or is logged only
  goal: Goal
  horizon: Horizon
  policy: Policy
  reset_mode: str  # what the start of a cycle does to the model
  alpha: float  # share of tau that the moments get
  wait: bool = False  # whether a cycle's end waits for its evaluation
  distance: str = 'log'  # scale of tau where the metric falls
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
  # With RESET, whether the cycle that has ended was ever evaluated.
  was_evaluated: bool = True
  # With RESET, what the cycle starts from; see `NextCycle`.
  start_from: str = ''
  # With RESET, the slot of the cycle that is paused, -1 if none is: its model
  # is to be kept.
  paused: int = -1
