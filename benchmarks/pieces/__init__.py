"""SOFT_RESET with one piece left out, or all, to measure what they bring."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...core.horizon import StepHorizon
from ...core.race import Race, Repeat
from ...core.state import Control, RunConfig
from ...parts.shapes import Constant
from ...schedule_params import SOFT_RESET, ScheduleParams
from ...soft_reset import Cyclic, FullReset

_RESET: Any = SOFT_RESET.reset
_RACE: Any = SOFT_RESET.policy


def _without(**changes: Any) -> ScheduleParams:
  return dataclasses.replace(SOFT_RESET, **changes)


def _with_cycles(**changes: Any) -> ScheduleParams:
  cycles = SOFT_RESET.cycles
  return _without(cycles=[dataclasses.replace(c, **changes) for c in cycles])


class SoftRace(Race):
  """A race in which a peak that is left is followed by a soft reset, by tau.

  The next peak and the ends of its cycles are the same. The chain is not a new
  one: a chain lasts from the last full reset to the horizon.
  """

  def next(
    self, control: Control, step: int, config: RunConfig, is_left: bool
  ) -> Control | None:
    """See `Policy`."""
    following = super().next(control, step, config, is_left)
    assert following is not None  # a race never ends a run
    return following._replace(chain_start=control.chain_start)


PIECES: dict[str, ScheduleParams] = {
  # Its optimizer alone: one cycle over the run, ended by its decay.
  'bare': _without(
    cycles=SOFT_RESET.cycles[:1],
    reset=Cyclic(),
    policy=Repeat(),
    early_switching=False,
  ),
  # Cycles begin with the model as it is: warm restarts of the rate.
  'without_soft': _without(reset=Cyclic()),
  # Cycles begin with a fresh model.
  'with_full': _without(reset=FullReset()),
  # A soft reset leaves the moments as they are.
  'with_alpha_0': _without(reset=dataclasses.replace(_RESET, alpha=0.0)),
  # Only the published peak.
  'without_race': _without(policy=Repeat()),
  # A peak that is left is followed by a soft reset, not by a full one.
  'soft_after_leaving': _without(policy=SoftRace(*dataclasses.astuple(_RACE))),
  # No cycle ends early, except in the race.
  'without_progress': _without(early_switching=False),
  # The rate is constant up to a cycle's end.
  'without_cooldown': _with_cycles(decay=Constant()),
  # Four cycles of equal length.
  'without_growth': _with_cycles(length=1.0),
  # One cycle over the whole run.
  'without_cycles': _without(cycles=SOFT_RESET.cycles[:1]),
  # A cycle ends with its last step, whether it was evaluated or not.
  'without_wait': _without(wait=False),
  # The run is planned for 1.5 step_hint, however long a step takes.
  'without_time': _without(horizon=StepHorizon()),
}
