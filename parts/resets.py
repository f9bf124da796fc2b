"""Resets beyond the soft one."""

from __future__ import annotations

import dataclasses

from ..soft_reset import FULL, Reset, ResetPlan


@dataclasses.dataclass(frozen=True)
class FullReset(Reset):
  """Replaces the parameters and empties the optimizer (thesis, 3.2.2)."""

  def plan(self, tau: float) -> ResetPlan:
    return FULL


@dataclasses.dataclass(frozen=True)
class KeptMomentum(Reset):
  """Replaces the parameters only (thesis, 3.2.2)."""

  def plan(self, tau: float) -> ResetPlan:
    return ResetPlan(1.0, 1.0, True)


@dataclasses.dataclass(frozen=True)
class Cyclic(Reset):
  """Touches nothing: a warm restart of the learning rate."""

  def plan(self, tau: float) -> ResetPlan:
    return ResetPlan(0.0, 1.0, True)
