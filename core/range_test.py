"""A range test: which peak suits, from the training losses of rising rates.

The first steps of a run are taken at rates that rise geometrically. Where the
loss falls most steeply, the rate is about large enough; where it is least, it
is about too large. The model is thrown away.

Source: Smith 2017, "Cyclical learning rates", section 3.3, in short form.
"""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .checks import check_count, check_number
from .schedules import Cycle, PlannedCycle

_LOWEST = 1e-4  # learning rate of a test's first step; it rises to 1


class Geometric:
  """From a share of the peak up to the peak: 1e-4^(1 - x)."""

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return jnp.power(_LOWEST, 1.0 - jnp.asarray(x))


@dataclasses.dataclass(frozen=True)
class RangeTest:
  """Finds a peak before the first cycle, in so many steps.

    rate_i   = 1e-4 * (1 / 1e-4)^(i / steps)
    s_i      = (L_i + s_(i-1)) / 2,  s_0 = L_0, the training losses smoothed
    estimate = sqrt(rate at the steepest fall of s * rate at the least s)

  The estimate is rough: it replaces the first cycle's peak only where the two
  differ by more than the tolerance. The other peaks keep their ratios to it.
  """

  steps: int = 12  # of the test, at least 4
  tolerance: float = 5.0  # factor between peak and estimate that is let be

  def __post_init__(self) -> None:
    check_count('steps', self.steps, least=4)
    check_number('tolerance', self.tolerance, '[1, inf)')

  @property
  def cycle(self) -> PlannedCycle:
    """The test as a cycle that the clock can read."""
    setting = Cycle(1.0, warmup_factor=0.0, decay=Geometric())
    return PlannedCycle(self.steps, 0, setting)

  def estimate(self, losses: np.ndarray) -> float:
    """The peak that suits; NaN if the losses tell none.

    losses, of shape=(steps,), are those of training, each at the parameters
    before its step. What follows one that is not finite is ignored.
    """
    smoothed = [float(losses[0])]
    for loss in losses[1:]:
      smoothed.append(0.5 * (float(loss) + smoothed[-1]))
    s = np.asarray(smoothed)[np.cumprod(np.isfinite(smoothed)) > 0]
    if s.size < 2 or not s.min() < s[0]:
      return math.nan
    # Loss i follows from the update of step i - 1.
    steepest, least = int(np.argmin(np.diff(s))), int(np.argmin(s)) - 1
    middle = 0.5 * (steepest + least) / self.steps
    return _LOWEST * (1.0 / _LOWEST) ** middle

  def scale(self, estimate: float, peak: float) -> float:
    """The factor on the peaks: 1, or what makes the first one the estimate."""
    is_far = max(estimate / peak, peak / estimate) > self.tolerance
    return estimate / peak if is_far else 1.0
