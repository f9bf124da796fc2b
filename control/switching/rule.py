"""What a switching rule is: whether the current cycle should be left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ...settings.named import Registry
from ..state import Evaluation, Target

SWITCHING_RULES = Registry('switching rule')


class Context(NamedTuple):
  """Where the run stands at an evaluation."""

  share_of_cycle: float  # steps taken, as a share of the cycle's
  share_of_run: float  # steps taken, as a share of the run's as now planned
  target: Target
  first_metric: float  # target metric of the run's first evaluation


class Verdict(NamedTuple):
  """What a rule says about an evaluation."""

  reason: str  # why the cycle should be left; empty if it should not
  terms: Mapping[str, float]  # the numbers behind it, a column each


class SwitchingRule(Protocol):
  """Judges a cycle by its evaluations, one after the other.

  Attributes:
    initial: state before a cycle's first evaluation, a NamedTuple of numbers.
    columns: names of the terms of its verdicts, as columns of cycles.csv.
  """

  initial: Any
  columns: tuple[str, ...]

  def observe(
    self, state: Any, evaluation: Evaluation, context: Context
  ) -> tuple[Any, Verdict]:
    """Takes in an evaluation: the new state, and whether to leave."""
