"""How far the cycles of a run have come; policies compare them by this."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .state import Evaluation, Target
from .way import linear_share

MOST_STINTS = 3  # of one cycle, at whose ends a Mark is kept

# The state of a cycle. LOST: it was paused, and its model is gone.
UNBEGUN, OPEN, PAUSED, OVER, LOST = 0, 1, 2, 3, 4


class Mark(NamedTuple):
  """A cycle at one of its evaluations."""

  best: float = -math.inf  # largest share of the way to the target so far
  last: float = -math.inf  # newest share of the way; -inf if not finite
  loss: float = math.inf  # validation loss; inf if not finite


class Standing(NamedTuple):
  """A cycle and how far it has come; only numbers, so that it can be saved.

  Attributes:
    cycle: index of its setting in the chain.
    scale: factor on its learning rate.
    state: UNBEGUN, OPEN, PAUSED, OVER or LOST.
    share: share of its full length that it has had: at its last evaluation
      while it is OPEN, else in all.
    spacing: the largest distance between two of its evaluations, as a share of
      its full length.
    stints: how often it was paused or came to an end.
    now: as of its last evaluation.
    marks: `now` at the end of each of the first stints.
    steps: steps taken in all of its stints.
    before: the run's largest share of the way when it began; 0 without one.
    switching: state of the switching rule, when it is not OPEN.
  """

  cycle: int = 0
  scale: float = 1.0
  state: int = UNBEGUN
  share: float = 0.0
  spacing: float = 0.0
  stints: int = 0
  now: Mark = Mark()
  marks: tuple[Mark, ...] = (Mark(),) * MOST_STINTS
  steps: int = 0
  before: float = 0.0
  switching: Any = ()

  @property
  def gain(self) -> float:
    """The mean gain per step, as a share of the way to the target."""
    return (self.now.best - self.before) / max(self.steps, 1)


def observe(
  entry: Standing,
  evaluation: Evaluation,
  share: float,
  target: Target,
  first_metric: float,
) -> Standing:
  """A cycle's Standing after an evaluation.

  Args:
    entry: the Standing before it.
    evaluation: the evaluation.
    share: share of its full length that the cycle had had.
    target: the workload's target.
    first_metric: that of the run's first evaluation.
  """
  way = linear_share(evaluation.metric, target, first_metric)
  is_loss = math.isfinite(evaluation.loss)
  now = Mark(
    # Python's max keeps its first argument where the other is NaN.
    max(entry.now.best, way),
    -math.inf if math.isnan(way) else way,
    evaluation.loss if is_loss else math.inf,
  )
  spacing = max(entry.spacing, share - entry.share)
  return entry._replace(state=OPEN, share=share, spacing=spacing, now=now)


def is_nearest(entry: Standing, until: float) -> bool:
  """Whether no later evaluation is expected to be nearer to a share.

  If so, a stint that is to take a cycle to this share ends: cycles can only be
  compared at evaluations, and the benchmark decides when those take place.

  Args:
    entry: the cycle's Standing after an evaluation.
    until: share of the cycle's full length.
  """
  return entry.share + entry.spacing / 2 >= until


def end_stint(entry: Standing, state: int) -> Standing:
  """The Standing after a stint, which leaves the cycle PAUSED or OVER."""
  marks = list(entry.marks)
  if entry.stints < len(marks):
    marks[entry.stints] = entry.now
  return entry._replace(
    state=state, stints=entry.stints + 1, marks=tuple(marks)
  )


def best_share(history: Sequence[Standing]) -> float:
  """The largest share of the way that any of the cycles has come; at least 0."""
  return max([0.0, *(standing.now.best for standing in history)])


def without_models(history: Sequence[Standing]) -> tuple[Standing, ...]:
  """The history after a preemption, which no paused model survives."""
  return tuple(
    one._replace(state=LOST, share=0.0) if one.state == PAUSED else one
    for one in history
  )
