"""The cycle: what a chain is made of, laid out once.

A cycle is a whole setting: its length, its warm-up joined to its decay, its
weight decay and its hyperparameters. Whoever needs to know of a cycle is handed
one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..settings.hparams import Hparams
from ..settings.named import Setting
from .phase import Schedule


class Cycle(NamedTuple):
  """One cycle of a chain, over its nominal steps: those that it was planned for.

  Attributes:
    steps: nominal steps.
    warmup_steps: how many of them are warm-up.
    peak: the learning rate at the end of the warm-up.
    rate: nominal step -> learning rate.
    weight_decay: nominal step -> weight decay; None for that of hparams
      throughout.
    hparams: the optimizer's hyperparameters in this cycle.
    length: relative to the lengths of the chain's other cycles, as written.
    optimizer: what steps inside the cycle, a setting of `optimizers.INNER`.
    averaging: which weights its evaluations see, of `averaging.AVERAGES`.
    start_from: the model that it starts from: '' for what the reset mode makes
      of the current one, 'fresh' for a full reset, 'current' for the current
      one untouched (or a fresh one, if that is not finite), 'best' for the run's best evaluated one.
  """

  steps: int
  warmup_steps: int
  peak: float
  rate: Schedule
  weight_decay: Schedule | None
  hparams: Hparams
  length: float
  optimizer: Setting = 'adamw'
  averaging: Setting = 'none'
  start_from: str = ''


def values_at_all_steps(schedule: Schedule, steps: int) -> np.ndarray:
  """shape=(steps + 1,), dtype=float32: a schedule at its nominal steps."""
  counts = jnp.arange(steps + 1, dtype=jnp.float32)
  read = jax.vmap(lambda t: jnp.asarray(schedule(t), jnp.float32))
  return np.asarray(read(counts))


def check_cycles(cycles: Sequence[Cycle]) -> None:
  """Refuses schedules with values that are negative or not finite.

  Raises:
    ValueError: if a learning rate or a weight decay is negative or not finite
      at a nominal step of its cycle.
  """
  for i, cycle in enumerate(cycles):
    _check_values(f'decays[{i}]', cycle.rate, cycle.steps)
    if cycle.weight_decay is not None:
      _check_values(f'weight_decays[{i}]', cycle.weight_decay, cycle.steps)


def _check_values(name: str, schedule: Schedule, steps: int) -> None:
  values = values_at_all_steps(schedule, steps)
  wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
  if wrong.size:
    step = int(wrong[0])
    raise ValueError(
      f'{name} is {values[step]} at step {step} of its cycle; it must be finite '
      'and at least 0 at every step.'
    )
