"""The weight decay of a cycle, as a schedule over all of its steps.

  update = -rate * (Adam's update + decay * parameters)

By default the decay is a constant, that of the hyperparameters. A cycle may
give it a shape, or tie it to the learning rate.

Sources: `optax.add_decayed_weights`; Cerebras' weight-decay schedulers.
"""

from __future__ import annotations

from ..settings.named import Registry, Setting
from .decays import DECAYS
from .formulas import scaled
from .phase import Phase, Schedule

WEIGHT_DECAYS = Registry('weight decay', DECAYS)


@WEIGHT_DECAYS.register
def ratio(peak: float, rate: Schedule, peak_rate: float) -> Schedule:
  """peak * rate / peak rate: the ratio to the learning rate stays the same.

  Built from the cycle's learning rate, where a shape is from a phase.

  Source: Defazio 2025, "Why gradients rapidly increase near the end of
  training".
  """
  return scaled(peak / peak_rate, rate)


def decay_schedule(
  setting: Setting,
  peak: float,
  cycle_steps: int,
  rate: Schedule,
  peak_rate: float,
) -> Schedule:
  """One cycle's weight decay.

  Args:
    setting: of WEIGHT_DECAYS.
    peak: the weight decay where the shape is 1.
    cycle_steps: nominal steps of the cycle, warm-up included.
    rate: the cycle's learning rate over the same steps.
    peak_rate: its peak.

  Returns:
    An optax schedule over the steps of the cycle.
  """
  if setting == 'ratio':
    return ratio(peak, rate, peak_rate)
  return scaled(peak, WEIGHT_DECAYS.make(setting, Phase(cycle_steps)))
