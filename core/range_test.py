"""A range test: which peak suits, from the losses of one batch at rising rates.

The first steps of a run are taken on one batch, at rates that rise
geometrically. The loss of that batch falls until the rate is too large for the
model: with one batch, no other one's noise hides it. The model is the one that
the first cycle begins with, and it is made anew for that.

Source: after Smith 2017, "Cyclical learning rates", section 3.3; one batch and
the estimate are ours.
"""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .checks import check_count, check_number
from .schedules import Cycle, PlannedCycle

_BROKEN = 0.1  # a larger rise above the first loss, relative, is no noise


@dataclasses.dataclass(frozen=True)
class Ladder:
  """Multiples of the peak, from 1 / reach at the first step to reach at the last."""

  steps: int
  reach: float

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    i = self.steps * jnp.asarray(x)
    return jnp.power(self.reach, 2.0 * i / (self.steps - 1) - 1.0)


@dataclasses.dataclass(frozen=True)
class RangeTest:
  """Finds the scale of the peaks before the first cycle, in so many steps.

    rate_i   = peak * reach^(2 i / (steps - 1) - 1),  i = 0 .. steps - 1
    estimate = rate_(j - 1/2), where L_j is the least loss

  L_j follows from the rate before it, and rises with its own: the estimate lies
  between the two. Where a loss is a tenth above the first one, the model is
  broken, and what follows says nothing. The peaks are moved, all by one factor,
  no farther than until the first one lies within a factor `tolerance` of the
  estimate.
  """

  steps: int = 8  # of the test, at least 4
  reach: float = 32.0  # factor to either side of the peak that is tried
  tolerance: float = 2.0  # factor between peak and estimate that remains

  def __post_init__(self) -> None:
    check_count('steps', self.steps, least=4)
    check_number('reach', self.reach, '(1, inf)')
    check_number('tolerance', self.tolerance, '[1, inf)')

  def cycle(self, peak: float) -> PlannedCycle:
    """The test around a peak, as a cycle that the clock can read."""
    ladder = Ladder(self.steps, self.reach)
    return PlannedCycle(self.steps, 0, Cycle(peak, 1.0, 0.0, decay=ladder))

  def estimate(self, losses: np.ndarray, peak: float) -> float:
    """The peak that suits; NaN if the first loss is not finite.

    losses, of shape=(steps,), are those of training, each at the parameters
    before its step; peak is the one around which the test was taken.
    """
    limit = losses[0] + _BROKEN * abs(losses[0])
    is_whole = np.isfinite(losses) & (losses <= limit)
    whole = losses[: int(np.cumprod(is_whole).sum())]
    if not whole.size:
      return math.nan
    j = int(np.argmin(whole))
    return peak * self.reach ** ((2.0 * j - 1.0) / (self.steps - 1) - 1.0)

  def scale(self, estimate: float, peak: float) -> float:
    """The factor on the peaks; 1 if there is no estimate."""
    if math.isnan(estimate):
      return 1.0
    ratio = estimate / peak
    return min(max(1.0, ratio / self.tolerance), ratio * self.tolerance)
