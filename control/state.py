"""The run's small state: everything that decisions depend on.

Decisions are made with Python numbers, which are saved bit for bit, so that a
resumed run decides as an uninterrupted one would.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

NEVER = int(np.iinfo(np.int32).max)  # a step that no run reaches


class Target(NamedTuple):
  """A workload's validation target."""

  key: str  # of the metric among the evaluation results
  value: float
  rising: bool  # whether a larger metric is better


class Evaluation(NamedTuple):
  """What decisions need from one evaluation."""

  step: int  # steps taken when the model was evaluated
  loss: float  # validation loss
  metric: float  # validation target metric
  seconds: float = math.nan  # accumulated submission time, if known


class Control(NamedTuple):
  """Where the run stands; Python ints and floats.

  Attributes:
    cycle: index of the current cycle's setting in the chain, from 0.
    number: how many cycles have started, this one included.
    scale: factor on the cycle's learning rate.
    start: first step of the current cycle.
    cycle_end: first step after it; NEVER once the last one is held.
    horizon: first step after the run, as now planned.
    num_early_stops: cycles that were left early.
    num_evaluations: of the current cycle.
    last_eval_step: steps taken at the last evaluation; -1 before the first.
    last_loss, last_metric: of the last evaluation; NaN before the first.
    first_metric: of the run's first evaluation; NaN before it.
    switching: state of the switching rule, a NamedTuple of numbers.
    planning: state of the horizon, likewise.
    spacing: the most steps between two evaluations so far; 0 before the second.
    give_up: step at which waiting for an evaluation ends; -1 when not waiting.
    began: share of its full length that the current cycle had had at `start`.
    until: share that it is to have at `cycle_end`; below 1, it is paused there.
    slot: index of the current cycle in `history`; -1 if it is not in there.
    best: share of the way to the target of the best model, which is kept on the
      host; -inf if none is.
    history: a Standing for each of the policy's slots.
  """

  cycle: int
  number: int
  scale: float
  start: int
  cycle_end: int
  horizon: int
  num_early_stops: int
  num_evaluations: int
  last_eval_step: int
  last_loss: float
  last_metric: float
  first_metric: float
  switching: Any
  planning: Any
  spacing: int
  give_up: int
  began: float
  until: float
  slot: int
  best: float
  history: Any


def to_words(control: Control) -> np.ndarray:
  """All numbers of a control, each a float64 written as two int32 words.

  Returns:
    shape=(2 * numbers,), dtype=int32, which every checkpoint can hold. Whole
    numbers up to 2^53 are exact as well.
  """
  leaves = jax.tree_util.tree_leaves(control)
  return np.asarray(leaves, np.float64).view(np.int32)


def from_words(words: np.ndarray, like: Control) -> Control:
  """The control that `to_words` wrote.

  Args:
    words: shape=(2 * numbers,), dtype=int32.
    like: any control of the same rules; tells which numbers are whole.

  Raises:
    ValueError: if the words were written by a run with other rules.
  """
  leaves, treedef = jax.tree_util.tree_flatten(like)
  values = np.ascontiguousarray(words, np.int32).view(np.float64)
  if values.size != len(leaves):
    raise ValueError(
      f'The saved control has {values.size} numbers, but this run needs '
      f'{len(leaves)}: it was saved by a run with other rules.'
    )
  return jax.tree_util.tree_unflatten(
    treedef, [type(leaf)(v) for leaf, v in zip(leaves, values.tolist())]
  )
