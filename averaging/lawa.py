"""The average of the last k snapshots (LAWA)."""

from __future__ import annotations

import dataclasses

from ..settings.kinds import BelowOne, Count, Share
from .average import AVERAGES, Evaluated, Plan, share_in_steps


@AVERAGES.register(name='lawa')
@dataclasses.dataclass(frozen=True)
class Lawa:
  """The mean of the last k snapshots; raw weights until there are k.

  The snapshots lie on the host. A preemption loses them: for the following
  k * distance, the raw weights are evaluated. Source: Kaddour 2022, "Stop
  wasting my time! Saving days of ImageNet and BERT training with latest weight
  averaging"; k and distance are those of AlgoPerf's recorded runs lawa_queue.

  Attributes:
    k: number of snapshots.
    distance: distance between two snapshots, as a share of step_hint.
    start: time from a cycle's start to the first snapshot, likewise.
    choice: see `average.Evaluated`.
  """

  k: Count = 10
  distance: Share = 0.002
  start: BelowOne = 0.0
  choice: Evaluated = 'averaged'

  def plan(self, step_hint: int) -> Plan | None:
    """See `Average`."""
    every = share_in_steps(self.distance, step_hint)
    first = max(every, round(self.start * step_hint))
    return Plan(first, every, least=self.k, window=self.k)
