"""The run's small state: everything that decisions depend on.

Decisions are made with Python numbers, which are saved bit for bit, so that a
resumed run decides as an uninterrupted one would.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from .evaluation import Evaluation, Intervals


class Control(NamedTuple):
  """Where the run stands; Python numbers. The defaults are for its first step."""

  cycle: int = 0  # index in the chain
  number: int = 1  # how many cycles have started, this one included
  scale: float = 1.0  # factor on the cycle's learning rate
  start: int = 0  # first step of the current cycle
  chain_start: int = 0  # first step of the chain; a full reset begins it
  end: int = 0  # first step after the current cycle
  horizon: int = 0  # first step after the run, as now planned
  num_evaluations: int = 0  # of the current cycle
  last: Evaluation = Evaluation()  # the last one
  first: Evaluation = Evaluation()  # of the run
  switching: Any = ()  # state of the switching rule
  intervals: Intervals = Intervals()  # between evaluations


def to_words(control: Control) -> np.ndarray:
  """All numbers of a control, each a float64 written as two int32 words.

  Every checkpoint can hold them. Whole numbers up to 2^53 are exact as well.
  """
  leaves = jax.tree_util.tree_leaves(control)
  return np.asarray(leaves, np.float64).view(np.int32)


def from_words(words: np.ndarray, like: Control) -> Control:
  """The control that `to_words` wrote; `like` tells which numbers are whole.

  Raises:
    ValueError: if the words were written by a run with other settings.
  """
  leaves, treedef = jax.tree_util.tree_flatten(like)
  values = np.ascontiguousarray(words, np.int32).view(np.float64)
  if values.size != len(leaves):
    raise ValueError(
      f'The saved control has {values.size} numbers, but this run needs '
      f'{len(leaves)}: it was saved by a run with other settings.'
    )
  numbers = [type(leaf)(v) for leaf, v in zip(leaves, values.tolist())]
  return jax.tree_util.tree_unflatten(treedef, numbers)
