"""The exponential moving average (EMA)."""

from __future__ import annotations

import dataclasses
import math

from ..settings.kinds import BelowOne, Share
from .average import AVERAGES, Evaluated, Plan, share_in_steps


@AVERAGES.register(name='ema')
@dataclasses.dataclass(frozen=True)
class Ema:
  """Snapshots weighted by exp(-age / span); raw weights until span is over.

  It lies on the devices and is saved, so a preemption does not lose it. Source:
  Polyak and Juditsky 1992, in the exponential form.

  Attributes:
    span: the age at which a weight has fallen to 1/e, as a share of step_hint.
    distance: distance between two snapshots, as a share of step_hint.
    start: time from a cycle's start to the first snapshot, likewise.
    choice: see `average.Evaluated`.
  """

  span: Share = 0.01
  distance: Share = 0.0005
  start: BelowOne = 0.0
  choice: Evaluated = 'averaged'

  def plan(self, step_hint: int) -> Plan | None:
    """See `Average`."""
    every = share_in_steps(self.distance, step_hint)
    span = share_in_steps(self.span, step_hint)
    return Plan(
      first=max(every, round(self.start * step_hint)),
      every=every,
      least=math.ceil(span / every),
      least_weight=-math.expm1(-every / span),
    )
