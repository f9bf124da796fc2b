"""The thesis' horizon: as many steps as were planned."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .horizon import HORIZONS, Timing


@HORIZONS.register(name='steps')
@dataclasses.dataclass(frozen=True)
class Steps:
  """budget_factor * step_hint steps, however long they take."""

  initial: ClassVar[tuple[()]] = ()
  binds: ClassVar[bool] = False

  def observe(self, state: tuple[()], timing: Timing) -> tuple[tuple[()], int]:
    """See `Horizon`."""
    return state, timing.horizon
