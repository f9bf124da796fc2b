"""Intervals between evaluations, and the steps that fit a time budget."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import NamedTuple, Protocol

from .checks import Checked, Level, NonNegative
from .evaluation import Evaluation

_NONE = (math.nan,) * 9  # of the intervals that are remembered


class Intervals(NamedTuple):
  """The intervals between evaluations, the newest one last."""

  steps: tuple[float, ...] = _NONE  # of each interval; NaN where there was none
  durations: tuple[float, ...] = _NONE  # seconds, likewise; NaN if unknown

  @property
  def most_steps(self) -> int:
    """The most steps between two evaluations; 0 if no interval is known."""
    return int(max(self._known, default=0.0))

  @property
  def newest_steps(self) -> float:
    """The steps between the last two evaluations; 0 if no interval is known."""
    return 0.0 if math.isnan(self.steps[-1]) else self.steps[-1]

  @property
  def median_steps(self) -> float:
    """The median of steps between two evaluations; 0 if none is known."""
    return statistics.median(self._known or [0.0])

  @property
  def _known(self) -> list[float]:
    return [steps for steps in self.steps if not math.isnan(steps)]

  def after(self, last: Evaluation, new: Evaluation) -> Intervals:
    """The intervals after a new evaluation.

    Both runners evaluate after the first step. The time before that evaluation
    is mostly compilation and is not an interval.
    """
    steps, duration = new.step - last.step, new.seconds - last.seconds
    if last.step < 0 or steps < 1 or duration <= 0:
      return self
    durations = (*self.durations[1:], duration)
    return Intervals((*self.steps[1:], float(steps)), durations)


class Horizon(Protocol):
  """Says at every evaluation how many steps the run will have."""

  def steps_to_come(self, intervals: Intervals, seconds_left: float) -> int:
    """Steps up to the horizon; 0 to leave it as planned."""


@dataclasses.dataclass(frozen=True)
class TimeHorizon(Checked):
  """The run ends just before the last evaluation that the budget has room for.

    k       = 1 + floor((B - t - d_max - slack * d) / d)
    horizon = n + (k - 1) d r + (1 - margin) d r_min

  At an evaluation after n steps and t seconds of a budget of B: d and r are the
  median duration and rate (steps per second) of the last 9 intervals between
  evaluations, d_max the longest duration, but at most 1.5 d, and r_min the
  lowest rate. k evaluations still fit; the horizon lies before the last of
  them, so that it sees the annealed model. Runners evaluate by the clock, so
  that evaluations are far easier to predict than steps.

  The horizon stays as planned if the budget or the time is unknown, before the
  second evaluation (there is no interval) and once no further one fits.

  Source: ours, by the conditions of the benchmark's runners: v0.5.0 ends a run
  after the step that exceeds the budget; main checks when an evaluation is due.
  """

  slack: NonNegative = 0.03  # share of an interval that is kept free at the end
  margin: Level = 0.1  # share of the last interval's steps not relied on

  def steps_to_come(self, intervals: Intervals, seconds_left: float) -> int:
    pairs = zip(intervals.steps, intervals.durations)
    known = [pair for pair in pairs if pair[1] > 0]
    if not known or not math.isfinite(seconds_left):
      return 0
    durations = [duration for _, duration in known]
    rates = [steps / duration for steps, duration in known]
    usual, rate = map(statistics.median, (durations, rates))
    longest = min(max(durations), 1.5 * usual)
    # NaN or infinite where a clock gives infinite or denormal durations.
    more = (seconds_left - longest - self.slack * usual) / usual
    if not math.isfinite(more) or more < 0:
      return 0
    steps = math.floor(more) * usual * rate
    steps += (1.0 - self.margin) * usual * min(rates)
    return max(int(steps), 1) if math.isfinite(steps) else 0
