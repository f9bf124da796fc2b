"""The settings of the list one after the other, and then more of the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...schedules.cycle import Cycle
from ..history import UNBEGUN
from .further import Further, Start
from .policy import POLICIES, NextCycle, Situation, planned_next


@POLICIES.register(name='queue')
@dataclasses.dataclass(frozen=True)
class Queue(Further):
  """The next setting of the list; once the list is exhausted, see `Further`.

  A setting that is left early gives its steps to those to come.

  Attributes:
    then: the model that the settings after the first one start from: 'fresh'
      for a fresh one, 'current' for the current one untouched, 'best' for the
      best one evaluated, or '' for what the reset mode says. A setting's own
      start_from takes precedence.
  """

  then: Start = ''

  @property
  def keeps_best(self) -> bool:
    """See `Policy`."""
    return 'best' in (self.start, self.then)

  @property
  def makes_fresh(self) -> bool:
    """See `Policy`."""
    return bool({'fresh', 'current'} & {self.start, self.then})

  def next(self, situation: Situation) -> NextCycle:
    """See `Policy`."""
    s, count = situation, len(situation.cycles)
    is_beyond = any(one.state != UNBEGUN for one in s.history[count:])
    planned = None if is_beyond else planned_next(s)
    if planned is None:
      return self.further(s, count)
    start = s.cycles[planned.cycle].start_from or self.then
    return planned._replace(start_from=start, slot=planned.cycle)

  def num_slots(self, cycles: Sequence[Cycle]) -> int:
    """See `Policy`."""
    return len(cycles) + len(self.kinds)
