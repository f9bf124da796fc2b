"""As many steps as the time budget allows."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import ClassVar, NamedTuple

from ...settings.kinds import Fraction01, NotNegative
from ..state import NEVER
from .horizon import HORIZONS, Timing

_NUM_KEPT = 9  # intervals between evaluations that are remembered
_NONE = (math.nan,) * _NUM_KEPT


class Pace(NamedTuple):
  """The last evaluation and the intervals before it, the newest one last."""

  step: float  # of the last evaluation; NaN before the first
  seconds: float  # its accumulated submission time
  steps: tuple[float, ...]  # of each interval; NaN where there was none
  durations: tuple[float, ...]  # seconds, likewise


@HORIZONS.register(name='time')
@dataclasses.dataclass(frozen=True)
class Time:
  """The run ends just before the last evaluation that the budget has room for.

    k       = 1 + floor((B - t - d_max - slack * d) / d)
    horizon = n + (k - 1) d r + (1 - margin) d r_min

  At an evaluation after n steps and t seconds of a budget of B: d and r are the
  median duration and the median rate (steps per second) of the last 9 intervals
  between evaluations, d_max the longest duration, but at most 1.5 d, and r_min
  the lowest rate. k evaluations still fit; the horizon lies before the last of
  them, so that it sees the annealed model. Runners evaluate by the clock, every
  so many seconds, so evaluations are far easier to predict than steps.

  The time up to the first evaluation, most of it compilation, counts as spent,
  but not as an interval; resets, snapshots and later compilations count in t
  as well, and are too rare to move a median. A slow stretch that is shorter
  than half of the remembered intervals leaves the forecast of all but one
  interval unchanged.

  The horizon stays as planned (at first budget_factor * step_hint) if the
  budget or the time is unknown, before the third evaluation (there is no
  interval) and once no further evaluation fits.

  Source: ours. The conditions are those of the benchmark's runners: v0.5.0 ends
  a run after the step that exceeds the budget; main checks only when an
  evaluation is due, and skips it if the budget is exceeded. `studies.clocks`
  checks the constants against recorded runs.

  Attributes:
    slack: share of an interval that is kept free before the end of the budget.
    margin: share of the last interval's steps that is not relied on.
  """

  slack: NotNegative = 0.03
  margin: Fraction01 = 0.1

  binds: ClassVar[bool] = True
  initial: ClassVar[Pace] = Pace(math.nan, math.nan, _NONE, _NONE)

  def observe(self, state: Pace, timing: Timing) -> tuple[Pace, int]:
    """See `Horizon`."""
    if not math.isfinite(timing.seconds):
      return state, timing.horizon
    pace = _walk(state, timing)
    steps = self._steps_to_come(pace, timing.budget - timing.seconds)
    if not steps:
      return pace, timing.horizon
    return pace, min(timing.step + steps, NEVER - 1)

  def _steps_to_come(self, pace: Pace, left: float) -> int:
    """Steps up to just before the last evaluation that fits; 0 if none fits.

    Args:
      pace: the intervals so far.
      left: seconds left of the budget.
    """
    known = [
      (steps, duration)
      for steps, duration in zip(pace.steps, pace.durations)
      if not math.isnan(duration)
    ]
    if not known or not math.isfinite(left):
      return 0
    durations = [duration for _, duration in known]
    rates = [steps / duration for steps, duration in known]
    usual, rate = statistics.median(durations), statistics.median(rates)
    longest = min(max(durations), 1.5 * usual)
    fit = 1 + math.floor((left - longest - self.slack * usual) / usual)
    if fit < 1:
      return 0
    steps = (fit - 1) * usual * rate
    return max(int(steps + (1.0 - self.margin) * usual * min(rates)), 1)


def _walk(pace: Pace, timing: Timing) -> Pace:
  """The pace after an evaluation."""
  steps, duration = timing.step - pace.step, timing.seconds - pace.seconds
  kept = pace.steps, pace.durations
  if steps > 0 and duration > 0:  # not the first, whose interval is NaN
    kept = (*pace.steps[1:], steps), (*pace.durations[1:], duration)
  return Pace(float(timing.step), timing.seconds, *kept)
