"""The half of the optimizer state that is not saved.

It has host copies of the small state, so that no step reads from a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax

from ..control.state import Control
from ..schedules.cycle_clock import CycleClock
from .averaging import Averaged
from .forecast import Forecast
from .set_up import Setup
from .snapshots import Kept

StepMetrics = Mapping[str, jax.Array]  # see step.train_step


class Run(NamedTuple):
  """The half that is not saved: the set-up, and host copies of small state."""

  setup: Setup
  control: Control | None = None  # None until the first train step
  clock: CycleClock | None = None  # as of when it was last anchored
  due: int = 0  # the step before which there is something to do
  evaluations_seen: int = 0
  step_metrics: StepMetrics | None = None  # of the last step
  drawn: int = 0  # first step whose learning rate is not in TensorBoard yet
  kept: Mapping[int, Kept] = MappingProxyType({})  # models on the host, by slot
  averaged: Averaged | None = None  # None: the trained weights are evaluated
  forecast: Forecast | None = None  # only if evaluations must be predicted
