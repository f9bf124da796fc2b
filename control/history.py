"""How far the cycles of a run have come: what a policy compares them by."""

from __future__ import annotations

import math
from typing import NamedTuple

from .state import Evaluation, Target
from .way import linear_share

MOST_STINTS = 3  # of one cycle, whose ends are kept apart

# How it stands with a cycle.
UNBEGUN, OPEN, PAUSED, OVER = 0, 1, 2, 3


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
    state: UNBEGUN, OPEN, PAUSED or OVER.
    share: of its full length, had at the last evaluation.
    spacing: the longest way between two of its evaluations, as such a share.
    stints: how often it was paused or came to an end.
    now: as of its last evaluation.
    marks: `now` at the end of each of the first stints.
  """

  cycle: int = 0
  scale: float = 1.0
  state: int = UNBEGUN
  share: float = 0.0
  spacing: float = 0.0
  stints: int = 0
  now: Mark = Mark()
  marks: tuple[Mark, ...] = (Mark(),) * MOST_STINTS


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
