"""The weight decay of each cycle, as schedules.

  update = -rate * (Adam's update + decay * parameters)

By default the decay is a constant, that of the hyperparameters. A cycle may give
it a shape of the registry, over all of the cycle's steps, or tie it to the
learning rate:

  decay = peak decay * rate / peak rate

Sources: `optax.add_decayed_weights`; Cerebras' weight-decay schedulers; for the
fixed ratio, Defazio 2025, "Why gradients rapidly increase near the end of
training".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optax

from .formulas import scaled
from .lr_shapes import Schedule
from .shape_registry import DECAYS, Family
from .shapes import Entry, unit_schedule

# In place of a shape: the ratio of decay and learning rate stays the same. It is
# built from the cycle's learning rate, not from the registry.
RATIO = 'ratio'
WEIGHT_DECAYS = {**DECAYS, RATIO: Family(build=optax.constant_schedule)}


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
    _one_cycle(
      shape,
      p.hparams.weight_decay + added[i],
      lengths[i],
      schedules[i],
      p.hparams.learning_rate + p.alter_lr[i],
    )
    for i, shape in enumerate(shapes)
  ]


def _one_cycle(
  shape: Entry, peak: float, length: int, rate: Schedule, peak_rate: float
) -> Schedule:
  if shape == RATIO:
    return scaled(peak / peak_rate, rate)
  return scaled(peak, unit_schedule(shape, length))
