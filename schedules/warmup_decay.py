"""One cycle's learning rate: a warm-up joined to a decay.

The names are the thesis'. With L = cycle_steps and W = warmup_steps, the
warm-up has the cycle's first W steps and the decay the other L - W.

Source: thesis, chapter 2.3 and section 3.1.
"""

from __future__ import annotations

import optax

from ..settings.named import Setting
from .decays import DECAYS
from .formulas import scaled
from .phase import Phase, Schedule
from .warmups import WARMUPS


def warmup_fn(warmup: Setting, warmup_steps: int, peak: float) -> Schedule:
  """peak * warm-up, over W steps."""
  return scaled(peak, WARMUPS.make(warmup, Phase(max(warmup_steps, 1))))


def decay_fn(
  decay: Setting, cycle_steps: int, warmup_steps: int, peak: float
) -> Schedule:
  """peak * decay, whose steps count from the end of the warm-up."""
  phase = Phase(max(cycle_steps - warmup_steps, 1), warmup_steps)
  return scaled(peak, DECAYS.make(decay, phase))


def combine_warmup_decay_fn(
  cycle_steps: int,
  warmup_steps: int,
  peak: float,
  warmup: Setting,
  decay: Setting,
) -> Schedule:
  """One cycle: the warm-up for W steps, then the decay; without W the decay.

  Args:
    cycle_steps: L, length of the cycle, steps.
    warmup_steps: W, as `warmups.warmup_steps` gives it.
    peak: learning rate at the end of the warm-up.
    warmup: a setting of `warmups.WARMUPS`.
    decay: a setting of `decays.DECAYS`.

  Returns:
    An optax schedule over the steps of the cycle.

  Raises:
    ValueError: if a function among the settings is none for a rate.
  """
  fall = decay_fn(decay, cycle_steps, warmup_steps, peak)
  if warmup_steps == 0:
    return fall
  rise = warmup_fn(warmup, warmup_steps, peak)
  return optax.join_schedules([rise, fall], [warmup_steps])
