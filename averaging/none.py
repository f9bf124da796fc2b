"""No average: what is trained is evaluated."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .average import AVERAGES, Plan


@AVERAGES.register(name='none')
@dataclasses.dataclass(frozen=True)
class NoAverage:
  """The thesis': the raw weights, or what the optimizer hands over itself."""

  choice: ClassVar[str] = 'averaged'

  def plan(self, step_hint: int) -> Plan | None:
    """See `Average`."""
    del step_hint
    return None
