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

# The learning rates between which a test rises: no optimizer here trains well
# above the highest, and every model moves at the lowest.
_LOWEST, _HIGHEST = 1e-4, 1.0


@dataclasses.dataclass(frozen=True)
class Geometric:
  """From a share of the peak up to the peak: lowest^(1 - x).

  Attributes:
    lowest: value at its first step.
  """

  lowest: float

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    """See `schedules.Shape`."""
    del warmup
    return jnp.power(self.lowest, 1.0 - jnp.asarray(x))


@dataclasses.dataclass(frozen=True)
class RangeTest:
  """Finds a peak before the first cycle, in so many steps.

    rate_i   = 1e-4 * (1 / 1e-4)^(i / steps)
    s_i      = (L_i + s_(i-1)) / 2,  s_0 = L_0, the training losses smoothed
    estimate = sqrt(rate at the steepest fall of s * rate at the least s)

  The estimate replaces the first cycle's peak only where the two differ by more
  than the tolerance: published rates are seldom far off, and the estimate is
  rough. The other cycles' peaks keep their ratios to the first.

  Attributes:
    steps: of the test, at least 4.
    tolerance: largest factor between the peak and the estimate that is let be.
  """

  steps: int = 12
  tolerance: float = 3.2

  def __post_init__(self) -> None:
    check_count('steps', self.steps, least=4)
    check_number('tolerance', self.tolerance, '[1, inf)')

  @property
  def cycle(self) -> PlannedCycle:
    """The test as a cycle that the clock can read."""
    rise = Geometric(_LOWEST / _HIGHEST)
    setting = Cycle(peak=_HIGHEST, warmup_factor=0.0, decay=rise)
    return PlannedCycle(self.steps, 0, setting)

  def estimate(self, losses: np.ndarray) -> float:
    """The peak that suits; NaN if the losses tell none.

    Args:
      losses: shape=(steps,), the training loss of each step, at the parameters
        before it. What follows one that is not finite is ignored.
    """
    smoothed = [float(losses[0])]
    for loss in losses[1:]:
      smoothed.append(0.5 * (float(loss) + smoothed[-1]))
    num_finite = int(np.cumprod(np.isfinite(smoothed)).sum())
    s = np.asarray(smoothed[:num_finite])
    if num_finite < 2 or not s.min() < s[0]:
      return math.nan
    # Loss i follows from the update of step i - 1.
    steepest, least = int(np.argmin(np.diff(s))), int(np.argmin(s)) - 1
    middle = 0.5 * (steepest + least) / self.steps
    return _LOWEST * (_HIGHEST / _LOWEST) ** middle

  def scale(self, estimate: float, peak: float) -> float:
    """The factor on the peaks: 1, or what makes the first one the estimate."""
    if math.isnan(estimate):
      return 1.0
    is_near = max(estimate / peak, peak / estimate) <= self.tolerance
    return 1.0 if is_near else estimate / peak
