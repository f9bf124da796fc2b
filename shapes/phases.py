"""The phases of a plan, warm-up, stable rate and decay, and its checkpoints.

A checkpoint is a count of steps: where a decay ends, and the model is annealed.
Source: pytorch-accelerated's WSDLrScheduler; `periods` is its get_decay_info,
`period_at` its get_phase_info, `checkpoint_steps` its get_checkpoint_steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from ..core.chain import Chain
from ..core.checks import check_count
from ..core.schedules import Constant, Cooldown, PlannedCycle, Shape
from .composed import WSD, CosineWarmRestarts, Sequential
from .simple import HoldingExponential, HoldingLinear, InversePower

# A share of a step: rounding of shares makes no phase a step longer.
_SLACK = 1e-6


class Period(NamedTuple):
  """The steps up to a checkpoint, or to the end of a cycle without a decay."""

  cycle: int  # in which cycle of the chain it lies, from 1
  start: int  # its first step, from 0
  warmup_end: int  # first step after its warm-up
  pre_decay_step: int  # first step of its decay; as many steps come before
  end: int  # first step after it

  @property
  def decay_steps(self) -> int:
    """The steps of its decay; 0 without a decay."""
    return self.end - self.pre_decay_step

  def phase(self, step: int) -> str:
    """'warm-up', 'stable' or 'decay': where a step lies, counted from 0."""
    if step < self.warmup_end:
      return 'warm-up'
    return 'stable' if step < self.pre_decay_step else 'decay'


def periods(chain: Chain) -> tuple[Period, ...]:
  """All periods of a plan, in order; together they have all of its steps.

  What lies between the decays of a cycle counts as stable. The cycle's decay
  shape counts as one decay from its first step on. The exceptions are the
  shapes with a stable rate or with several decays: Constant, Cooldown, WSD,
  InversePower, HoldingLinear, HoldingExponential, CosineWarmRestarts, and a
  Sequential of such shapes.
  """
  starts = itertools.accumulate((c.steps for c in chain.cycles), initial=0)
  planned = zip(itertools.count(1), starts, chain.cycles)
  return tuple(period for cycle in planned for period in _of_cycle(*cycle))


def checkpoint_steps(chain: Chain) -> tuple[int, ...]:
  """How many steps have been taken where each decay of a plan ends."""
  return tuple(p.end for p in periods(chain) if p.decay_steps)


def period_at(chain: Chain, step: int) -> Period:
  """The period of a step, counted from 0; ValueError if the plan lacks it."""
  check_count('step', step, 0, chain.steps - 1)
  return next(p for p in periods(chain) if step < p.end)


def _of_cycle(
  number: int, start: int, planned: PlannedCycle
) -> Iterator[Period]:
  steps, warmup, cycle, _ = planned
  last, warmup_end = start + steps, start + warmup

  def at(share: float) -> int:
    return last - math.floor((1 - share) * (steps - warmup) + _SLACK)

  for x, y in _decays(cycle.decay, warmup / steps) if warmup < steps else ():
    yield Period(number, start, warmup_end, at(x), at(y))
    start = warmup_end = at(y)
  if start < last:
    yield Period(number, start, warmup_end, last, last)


def _decays(shape: Shape, warmup: float = 0.0) -> list[tuple[float, float]]:
  """Where decays begin and end, in shares of the shape's phase."""
  match shape:
    case Constant():
      return []
    case Cooldown(share=share):
      return [(1.0 - share, 1.0)]
    case WSD(checkpoints=num, decay=decay):
      ends = [0.5**i for i in range(num)][::-1]
      pairs = zip([0.0, *ends], ends)
      return [(end - decay * (end - start), end) for start, end in pairs]
    case InversePower(hold=hold):
      return [(hold, 1.0)]
    case HoldingLinear() | HoldingExponential():
      return [((warmup + 0.2) / (1.0 - warmup), 1.0)]
    case CosineWarmRestarts():
      return list(itertools.pairwise([0.0, *shape.starts(), 1.0]))
    case Sequential(shapes=shapes, at=at):
      edges = itertools.pairwise([0.0, *at, 1.0])
      return [
        (start + x * (end - start), start + y * (end - start))
        for (start, end), part in zip(edges, shapes)
        for x, y in _decays(part)
      ]
  return [(0.0, 1.0)]
