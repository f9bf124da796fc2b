"""Several settings, or peaks, are tried briefly; the best goes on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

from ...schedules.cycle import Cycle
from ...settings.checks import check
from ...settings.kinds import Number, OrNone, Share
from ..history import OVER, PAUSED, UNBEGUN, Standing
from .further import Factors, Further
from .policy import POLICIES, NextCycle, Situation
from .tournament import Tournament, Turn, wrong_rounds

_WHOLE = 0.99  # share of a full cycle that counts as all, given float rounding
_LEAST_REST = 0.5  # share of the wanted steps for which the horizon stays


@POLICIES.register(name='race', check=wrong_rounds)
@dataclasses.dataclass(frozen=True)
class Race(Tournament, Further):
  """A race of the list's settings, each with every factor on its peak.

  All begin with a fresh model. A paused one is kept on the host, with
  parameters, batch statistics and optimizer state (three times the parameters
  for Adam), up to `probes` - 1 at a time, and resumes from there. They are
  compared by their evaluations; see `Tournament`. Factors on the peak compile
  nothing, nor do settings with the same inner optimizer.

  A cycle's full length is that of its setting in the chain, scaled if a binding
  horizon has moved, or the share `full` of the run. A probe takes its share of
  it. A cycle that goes on to its end takes the steps it lacks, or those up to
  the horizon if these are at least half as many or the horizon binds; else the
  horizon is postponed. When all are over, or one that came to its end is `near`
  the target, see `Further`.

  A preemption loses the paused models. They are not compared again; one that is
  to go on starts over from a fresh model.

  Attributes:
    scales: factors on the peak; all settings come with the first factor, then
      all with the second, and so on.
    full: share of the run's steps that a whole cycle takes; None for as many
      steps as its setting has in the chain.
    near: share of the way to the target. Once a cycle has come to its end and
      this far, only further cycles follow, no others of the race. None: all
      others have their turn first.
  """

  scales: Factors = (1.0,)
  full: OrNone(Share) = None
  near: OrNone(Number) = None

  follows_chain: ClassVar[bool] = False

  def next(self, situation: Situation) -> NextCycle:
    """See `Policy`."""
    s, cyclists = situation, self._all(situation.cycles)
    turn, racing = None, s.history[: len(cyclists)]
    is_beyond = any(one.state != UNBEGUN for one in s.history[len(cyclists) :])
    if not is_beyond and not any(map(self._is_near, racing)):
      turn = self.turn(racing)
    if turn is None:
      return self.further(s, len(cyclists))
    return self._stint(s, turn, *cyclists[turn.entry])

  def _is_near(self, standing: Standing) -> bool:
    """Whether a cycle has come to its end and near the target."""
    is_over = standing.state == OVER and standing.share > _WHOLE
    return is_over and self.near is not None and standing.now.best >= self.near

  def _all(self, cycles: Sequence[Cycle]) -> list[tuple[int, float]]:
    """(index of the setting, factor on its peak) of each cycle in the race."""
    return [
      (i, float(factor)) for factor in self.scales for i in range(len(cycles))
    ]

  def _stint(
    self, s: Situation, turn: Turn, cycle: int, scale: float
  ) -> NextCycle:
    standing = s.history[turn.entry]
    goes_on = standing.state == PAUSED
    began = standing.share if goes_on else 0.0
    # If evaluations came late, a round may be over when it begins: it gets one
    # step, and then the next evaluation.
    least = began + 1.0 / s.cycles[cycle].steps
    until = min(max(turn.until, least), 1.0)
    steps = self.full_steps(s, cycle)
    end, horizon = _end_of(s, (until - began) * steps, until == 1.0)
    start = 'paused' if goes_on else 'fresh'
    return NextCycle(
      cycle, end, horizon, scale, start, began, until, turn.entry
    )

  def full_steps(self, situation: Situation, cycle: int) -> float:
    """See `Further`; with `full`, that share of the run."""
    if self.full is None:
      return super().full_steps(situation, cycle)
    s = situation
    planned = sum(one.steps for one in s.cycles)
    return self.full * (s.horizon if s.binds else planned)

  def num_slots(self, cycles: Sequence[Cycle]) -> int:
    """See `Policy`."""
    return len(self._all(cycles)) + len(self.kinds)

  def num_fresh(self, cycles: Sequence[Cycle]) -> int:
    """See `Policy`."""
    return max(min(self.probes, len(self._all(cycles))) - 1, 1)

  @property
  def num_spare(self) -> int:
    """See `Policy`; one if the first cycle may go on without a race.

    Resuming also counts as the start of a cycle, which has its own model.
    """
    return int(self.enough is not None)

  def check(self, cycles: Sequence[Cycle]) -> None:
    """Raises ValueError unless two or more race, all from a fresh model."""
    count = len(self._all(cycles))
    right = 'longer, as a race needs two cycles: scales times settings'
    check(count > 1, 'policy.scales', self.scales, right)
    right = "'' or 'fresh': in a race all cycles begin with a fresh model"
    for i, cycle in enumerate(cycles):
      start = cycle.start_from
      check(start in ('', 'fresh'), f'cycles[{i}].start_from', start, right)


def _end_of(
  s: Situation, wanted: float, is_last_stint: bool
) -> tuple[int, int]:
  """(first step after a stint, first step after the run).

  Args:
    s: where the run stands.
    wanted: length of the stint, steps.
    is_last_stint: whether it goes on to the cycle's end.
  """
  # Rounding in the clock's float32 must not add a step.
  steps, rest = max(math.ceil(wanted - 1e-3), 1), s.horizon - s.step
  fits = rest >= (1 if s.binds else _LEAST_REST * steps)
  if is_last_stint and fits:
    steps = min(steps, rest)
  return s.step + steps, max(s.horizon, s.step + steps)
