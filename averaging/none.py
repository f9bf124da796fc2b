"""No average: the trained weights are evaluated."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .average import AVERAGES, Plan


@AVERAGES.register(name='none')
@dataclasses.dataclass(frozen=True)
class NoAverage:
  """As in the thesis: the raw weights, or those that the optimizer provides."""

  choice: ClassVar[str] = 'averaged'

  def plan(self, step_hint: int) -> Plan | None:
    """See `Average`."""
    del step_hint
    return None
