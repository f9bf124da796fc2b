"""What a horizon is: the first step after the run."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ...settings.named import Registry

HORIZONS = Registry('horizon')


class Timing(NamedTuple):
  """What is known of a run's speed at an evaluation."""

  step: int  # steps taken
  seconds: float  # accumulated submission time; NaN if unknown
  horizon: int  # first step after the run, as it was planned until now


class Horizon(Protocol):
  """Says anew at every evaluation how many steps the run will have.

  Attributes:
    initial: state before the first evaluation, a NamedTuple of numbers.
  """

  initial: Any

  def observe(self, state: Any, timing: Timing) -> tuple[Any, int]:
    """The new state, and the first step after the run."""
