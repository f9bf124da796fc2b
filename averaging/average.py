"""Which weights an evaluation sees: the registry of averages, and what one is.

What is evaluated is what tau and the rules judge; training goes on from the raw
weights. An average says when a snapshot of the weights is taken and how many
there must be; `training.averaging` takes and averages them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from ..settings.kinds import Choice
from ..settings.named import Registry

AVERAGES = Registry('average')

# Evaluated is the average as soon as there is one, or, in turn until one has
# proved better, the average and the raw weights: see `choosing`.
Evaluated = Choice('averaged', 'alternate')


class Plan(NamedTuple):
  """When snapshots are taken in a cycle, and what is made of them.

  Attributes:
    first: step of the cycle before which the first one is taken, at least 1.
    every: steps between two.
    least: how many there must be before their average is evaluated.
    window: how many of the last ones are averaged; 0 for a running average of
      all since the cycle began.
    least_weight: of the newest one in a running average.
  """

  first: int
  every: int
  least: int
  window: int = 0
  least_weight: float = 0.0


class Average(Protocol):
  """An average of the weights, begun anew with every cycle."""

  choice: str  # see `Evaluated`

  def plan(self, step_hint: int) -> Plan | None:
    """The snapshots of a cycle in a run over so many steps; None: there are none.

    Args:
      step_hint: the workload's, steps: what shares are shares of.
    """


def share_in_steps(share: float, step_hint: int) -> int:
  """A share of step_hint in whole steps, at least 1."""
  return max(1, round(share * step_hint))


def weight(plan: Plan, count: int) -> float:
  """The share of the newest snapshot in a running average.

  The plain mean first, 1 / count, so that no snapshot counts more than another;
  then an exponential average.

  Args:
    plan: the running average.
    count: snapshots, the newest included, from 1.
  """
  return max(1.0 / count, plan.least_weight)


def is_snapshot(plan: Plan, step_of_cycle: int) -> bool:
  """Whether a snapshot is taken before this step of a cycle, counted from 0."""
  since = step_of_cycle - plan.first
  return since >= 0 and since % plan.every == 0


def next_snapshot(plan: Plan, step_of_cycle: int) -> int:
  """The first step of a cycle after this one before which one is taken."""
  since = step_of_cycle - plan.first
  if since < 0:
    return plan.first
  return plan.first + (math.floor(since / plan.every) + 1) * plan.every
