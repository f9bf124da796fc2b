"""Which weights an evaluation sees: the protocol and registry of averages.

tau and the rules judge the weights that are evaluated; training goes on from
the raw ones. An average says when snapshots of the weights are taken and how
many it needs; `training.averaging` takes and averages them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from ..settings.kinds import Choice
from ..settings.named import Registry

AVERAGES = Registry('average')

# 'averaged': the average is evaluated as soon as there is one. 'alternate': the
# average and the raw weights take turns until one proves better; see
# `choosing`.
Evaluated = Choice('averaged', 'alternate')


class Plan(NamedTuple):
  """When snapshots are taken in a cycle, and how they are averaged.

  Attributes:
    first: step of the cycle before which the first one is taken, at least 1.
    every: steps between two snapshots.
    least: how many there must be before their average is evaluated.
    window: how many of the last ones are averaged; 0 for a running average of
      all since the cycle began.
    least_weight: least weight of the newest one in a running average.
  """

  first: int
  every: int
  least: int
  window: int = 0
  least_weight: float = 0.0


class Average(Protocol):
  """An average of the weights, which starts afresh with every cycle."""

  choice: str  # see `Evaluated`

  def plan(self, step_hint: int) -> Plan | None:
    """When a cycle's snapshots are taken; None if there are none.

    Args:
      step_hint: the workload's step_hint, steps; settings are shares of it.
    """


def share_in_steps(share: float, step_hint: int) -> int:
  """A share of step_hint in whole steps, at least 1."""
  return max(1, round(share * step_hint))


def weight(plan: Plan, count: int) -> float:
  """The weight of the newest snapshot in a running average, in (0, 1].

  At first 1 / count, the plain mean, so that no snapshot counts more than
  another; then least_weight, an exponential average.

  Args:
    plan: the running average.
    count: number of snapshots, including the newest; at least 1.
  """
  return max(1.0 / count, plan.least_weight)


def is_snapshot(plan: Plan, step_of_cycle: int) -> bool:
  """Whether a snapshot is taken before this step of a cycle, counted from 0."""
  since = step_of_cycle - plan.first
  return since >= 0 and since % plan.every == 0


def next_snapshot(plan: Plan, step_of_cycle: int) -> int:
  """The next step of a cycle, after this one, before which one is taken."""
  since = step_of_cycle - plan.first
  if since < 0:
    return plan.first
  return plan.first + (math.floor(since / plan.every) + 1) * plan.every
