"""No average: what is trained is evaluated."""

from __future__ import annotations

import dataclasses

from .average import AVERAGES


@AVERAGES.register(name='none')
@dataclasses.dataclass(frozen=True)
class NoAverage:
  """The thesis': the raw weights, or what the optimizer hands over itself."""
