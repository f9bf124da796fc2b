"""What decides in a run, and where the run stands.

Decisions are made with Python numbers, which are saved bit for bit, so that a
resumed run decides as an uninterrupted one would.
"""

from __future__ import annotations

import math
import zlib
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core.chain import Chain
from ..core.checks import check
from ..core.clock import CycleClock, anchored_clock, packed
from ..core.evaluation import Evaluation, Target
from ..core.horizon import Intervals
from ..early_switching import SmoothedLoss
from ..optimizers.average import Averaged
from ..schedule_params import ScheduleParams

_SET_UP = 'set up the run that was saved'


class Fingerprint(NamedTuple):
  """What tells one run from another."""

  steps: int = 0  # of the whole chain
  mark: int = 0  # a checksum of the cycles' peaks, lengths and warm-ups
  # Where the gradient is taken: in a loop, the parameters do not tell the
  # average without it. 1 without an average.
  one_minus_beta1: float = 1.0


class RunConfig(NamedTuple):
  """What decides; the same throughout a run, once a batch has been seen."""

  settings: ScheduleParams
  chain: Chain  # over the steps of the run
  target: Target
  budget: float = math.nan  # seconds that the run may take; NaN if unknown
  most_steps: float = math.inf  # that the runner allows; infinite if unknown

  @property
  def is_timed(self) -> bool:
    """Whether cycles follow the evaluations and fill a horizon."""
    return self.settings.horizon is not None


def fingerprint_of(config: RunConfig) -> Fingerprint:
  """The fingerprint of a run; the same on all machines."""
  cycles = [planned.cycle for planned in config.chain.cycles]
  numbers = [(c.peak, c.length, c.warmup_factor) for c in cycles]
  mark = zlib.crc32(np.asarray(numbers, '<f8').tobytes())
  optimizer: Any = config.settings.optimizer
  is_average = isinstance(optimizer, Averaged)
  share = optimizer.one_minus_beta1 if is_average else 1.0
  return Fingerprint(config.chain.steps, mark, float(share))


class Control(NamedTuple):
  """Where a run stands, in Python numbers; the defaults are its first step."""

  setting: int = 0  # index of the current cycle in the chain
  cycle: int = 1  # how many cycles have started, the current one included
  rate_factor: float = 1.0  # on the cycle's learning rate
  size: float = 1.0  # of the weights, as the run began; see `Step.size`
  start: int = 0  # first step of the current cycle
  chain_start: int = 0  # first step of the chain; a full reset begins it
  # First step of the stage, 0 in a submission; see `control.next_stage`.
  stage_start: int = 0
  end: int = 0  # first step after the current cycle
  planned_end: int = 0  # first step after the stage, as now planned
  anchor_step: int = 0  # step at which the clock was set
  anchor_nominal: float = (
    0.0  # nominal step there; the clock has a float32 of it
  )
  is_waiting: bool = False  # for the evaluation of the cycle's annealed model
  num_evaluations: int = 0  # of the current cycle
  num_early_stops: int = 0  # how many cycles have been abandoned
  last: Evaluation = Evaluation()  # the last one
  # The run's first with a finite metric; until there is one, the newest.
  first: Evaluation = Evaluation()
  best: Evaluation = Evaluation()  # of the stage, by the metric
  switching: Any = ()  # state of the switching rule
  smoothed: SmoothedLoss = SmoothedLoss()  # of S(t) beside it, if it is logged
  intervals: Intervals = Intervals()  # between evaluations
  fingerprint: Fingerprint = Fingerprint()  # of the run, as the stage began


def clock_of(
  control: Control, config: RunConfig, count: int | None = None
) -> CycleClock:
  """The clock as of `count` steps; None: as of the step at which it was set."""
  clock = anchored_clock(
    control.anchor_step,
    control.anchor_nominal,
    control.end,
    control.setting,
    config.chain.cycles,
    control.rate_factor,
    control.size,
  )
  return clock if count is None else clock._replace(count=np.int32(count))


def words_of(
  control: Control, config: RunConfig, count: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """Clock and control, as the optimizer's state has them."""
  return packed(clock_of(control, config, count)), to_words(control)


def to_words(control: Control) -> np.ndarray:
  """All numbers of a control, each a float64 written as two int32 words.

  Every checkpoint can hold them. Whole numbers up to 2^53 are exact as well.
  """
  leaves = jax.tree_util.tree_leaves(control)
  return np.asarray(leaves, np.float64).view(np.int32)


def from_words(
  words: np.ndarray, like: Control, is_any_chain: bool = False
) -> Control:
  """The control that `to_words` wrote; `like` tells which numbers are whole.

  Its fingerprint is that of `like`, but for the chain where any will do.

  Raises:
    ValueError: if the words were written by a run with another chain or other
      settings.
  """
  leaves, treedef = jax.tree_util.tree_flatten(like)
  values = np.ascontiguousarray(words, np.int32).view(np.float64)
  if values.size != len(leaves):
    raise ValueError(
      f'The saved control has {values.size} numbers, but this run needs '
      f'{len(leaves)}: it was saved by a run with other settings, or by '
      'another version.'
    )
  numbers = [type(leaf)(v) for leaf, v in zip(leaves, values.tolist())]
  control: Control = jax.tree_util.tree_unflatten(treedef, numbers)
  saved, own = control.fingerprint, like.fingerprint
  share = saved.one_minus_beta1
  must_be = f'{own.one_minus_beta1}, as in this run: {_SET_UP}'
  name = 'one_minus_beta1 of the saved run'
  check(share == own.one_minus_beta1, name, share, must_be)
  if is_any_chain:
    return control
  must_be = f'{own.steps}, as in this run: {_SET_UP}'
  check(
    saved.steps == own.steps, 'steps of the saved run', saved.steps, must_be
  )
  is_same = saved == own
  must_be = f'those of this run: {_SET_UP}'
  cycles = 'others'
  check(is_same, 'peaks, lengths or warm-ups of the saved run', cycles, must_be)
  return control
