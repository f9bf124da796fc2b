"""How far the cycles of a run have come: what a policy compares them by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .state import Evaluation, Target
from .way import linear_share

MOST_STINTS = 3  # of one cycle, whose ends are kept apart

# How it stands with a cycle. LOST: it was paused, and its model is gone.
UNBEGUN, OPEN, PAUSED, OVER, LOST = 0, 1, 2, 3, 4


class Mark(NamedTuple):
  """A cycle at one of its evaluations."""

  best: float = -math.inf  # largest share of the way to the target so far
  last: float = -math.inf  # the newest one; -inf where it is not finite
  loss: float = math.inf  # validation loss; inf where it is not finite


class Standing(NamedTuple):
  """A cycle and how far it has come; numbers alone, so that it can be saved.

  Attributes:
    cycle: index of its setting in the chain.
    scale: factor on its learning rate.
    state: UNBEGUN, OPEN, PAUSED, OVER or LOST.
    share: of its full length that it has had, at its last evaluation or, when
      it is not OPEN, in all.
    spacing: the longest way between two of its evaluations, as such a share.
    stints: how often it was paused or came to an end.
    now: as of its last evaluation.
    marks: `now` at the end of each of the first stints.
    steps: taken in it, in all of its stints.
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
    """What a step has brought on the mean: a share of the way."""
    return (self.now.best - self.before) / max(self.steps, 1)


def observe(
  entry: Standing,
  evaluation: Evaluation,
  share: float,
  target: Target,
  first_metric: float,
) -> Standing:
  """Takes in an evaluation.

  Args:
    entry: of the cycle that was evaluated.
    evaluation: what was found.
    share: of the cycle's full length that it had had.
    target: the workload's.
    first_metric: of the run's first evaluation.
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

  Where a stint ends that is to take a cycle to this share: evaluations come when
  the benchmark likes, and cycles can be compared by them alone.

  Args:
    entry: after an evaluation.
    until: share of the cycle's full length.
  """
  return entry.share + entry.spacing / 2 >= until


def end_stint(entry: Standing, state: int) -> Standing:
  """After a stint, which leaves the cycle PAUSED or OVER."""
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
  """After a preemption, which no paused model survives."""
  return tuple(
    one._replace(state=LOST, share=0.0) if one.state == PAUSED else one
    for one in history
  )
