"""What a horizon is: the first step after the run."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from ...settings.named import Registry

HORIZONS = Registry('horizon')


class Timing(NamedTuple):
  """What is known of a run's speed at an evaluation."""

  step: int  # steps taken
  seconds: float  # accumulated submission time; NaN if unknown
  horizon: int  # first step after the run, as planned so far
  budget: float = math.nan  # seconds that the run may take; NaN if unknown


class Horizon(Protocol):
  """Says at every evaluation how many steps the run will have.

  Attributes:
    initial: state before the first evaluation, a NamedTuple of numbers.
    binds: whether the run is over at the horizon, so that a policy should plan
      for the steps up to it; else the policy may postpone the horizon.
  """

  initial: Any
  binds: bool

  def observe(self, state: Any, timing: Timing) -> tuple[Any, int]:
    """The new state, and the first step after the run."""
