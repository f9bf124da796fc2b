"""The weight decay of a cycle, as a schedule over all of its steps.

  update = -rate * (Adam's update + decay * parameters)

By default the decay is a constant, that of the hyperparameters. A cycle may
give it a shape, or tie it to the learning rate.

Sources: `optax.add_decayed_weights`; Cerebras' weight-decay schedulers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def decay_schedules(
  schedules: Sequence[Schedule], lengths: Sequence[int], schedule_params: Any
) -> list[Schedule] | None:
  """Each cycle's weight decay over its own nominal steps.

  Args:
    schedules: each cycle's learning rate over the same steps.
    lengths: nominal steps of each cycle.
    schedule_params: a ScheduleParams.

  Returns:
    An optax schedule per cycle, or None if nothing is scheduled: the decay is
    that of the hyperparameters throughout.
  """
  p, n = schedule_params, schedule_params.num_cycles
  if not (p.weight_decays or p.alter_weight_decay):
    return None
  shapes = p.weight_decays or ('constant',) * n
  added = p.alter_weight_decay or (0.0,) * n
  return [
    decay_schedule(
      shape,
      p.hparams.weight_decay + added[i],
      lengths[i],
      schedules[i],
      p.hparams.learning_rate + p.alter_lr[i],
    )
    for i, shape in enumerate(shapes)
  ]
