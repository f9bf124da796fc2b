"""Leaving cycles that fail: smoothed loss, the rule S(t), the new plan.

All of it is plain arithmetic on host numbers in float64, a few dozen times in a
run. Source: thesis, section 3.3.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .schedules import lr_schedule


class SmoothedLoss(NamedTuple):
  """The smoothed validation loss of the current cycle."""

  t: int  # evaluations in this cycle, 0 before the first
  value: float  # l(t)
  derivative: float  # l'(t), 0 at t = 1
  minimum: float  # min of l(1..t)
  argmin: int  # the first t at which it was reached


NO_LOSS_YET = SmoothedLoss(0, 0.0, 0.0, math.inf, 0)


def smooth_loss(
  previous: SmoothedLoss, loss: float, lam: float
) -> SmoothedLoss:
  """Takes in one validation loss.

    l(1) = L(1),  l(t) = lam * L(t) + (1 - lam) * l(t - 1)
    l'(t) = l(t) - l(t - 1)

  Args:
    previous: state after the cycle's evaluation t - 1; NO_LOSS_YET at first.
    loss: L(t), the validation loss of evaluation t.
    lam: lambda in (0, 1], the weight of the newest loss. A larger lambda
      smooths LESS; the thesis calls it momentum and uses 0.5 to 0.7.

  Returns:
    The state after evaluation t. A non-finite loss makes the value non-finite
    for the rest of the cycle and leaves the minimum as it was.
  """
  t, value, derivative = previous.t + 1, float(loss), 0.0
  if t > 1:
    value = lam * value + (1.0 - lam) * previous.value
    derivative = value - previous.value
  if value < previous.minimum:
    return SmoothedLoss(t, value, derivative, value, t)
  return SmoothedLoss(t, value, derivative, previous.minimum, previous.argmin)


class Stopping(NamedTuple):
  """S(t) and its terms."""

  stopping: bool  # S(t) = 1
  case1: bool  # l'(t) >= eps1
  case2: bool  # no new minimum for k, and none in sight
  non_finite: bool  # the loss is NaN or infinite

  @property
  def reason(self) -> str:
    """Why the cycle should be left; empty if it should not."""
    if self.non_finite:
      return 'loss is not finite'
    if self.case1:
      return 'loss rises'
    return 'minimum out of reach' if self.case2 else ''


def is_stopping_early(
  smoothed: SmoothedLoss, eps1: float, eps2: float, k: int, m: int
) -> Stopping:
  """The thesis' rule for leaving a cycle.

    S(t) = 1  if l'(t) >= eps1                                      (case 1)
              or t - argmin l >= k and
                 m * l'(t) + l(t) >= min l + eps2                   (case 2)
    S(t) = 0  otherwise, and S(1) = 0.

  A loss that is not finite stops at once, also at t = 1; in the thesis every
  comparison with it is false and a diverged cycle runs to its end.

  Args:
    smoothed: state after evaluation t.
    eps1: rise of the smoothed loss from one evaluation to the next.
    eps2: how far above its minimum the smoothed loss may be expected to be.
    k: evaluations without a new minimum before eps2 counts.
    m: evaluations to look ahead.

  Returns:
    S(t) with its terms.

  Source: thesis, section 3.3.1.
  """
  t, value, derivative, minimum, argmin = smoothed
  if not math.isfinite(value):
    return Stopping(True, False, False, True)
  if t < 2:
    return Stopping(False, False, False, False)
  case1 = derivative >= eps1
  case2 = t - argmin >= k and m * derivative + value >= minimum + eps2
  return Stopping(case1 or case2, case1, case2, False)


def starts_to_come(
  global_step: int, horizon: int, lengths_to_do: Sequence[float]
) -> tuple[int, ...]:
  """Steps at which the cycles still to do start, if one starts now.

  The remaining steps are split over them, equally for cycles of equal length.
  There is no boundary at the last step of the run.

  Args:
    global_step: the step about to be taken; the next cycle starts with it.
    horizon: first step after the whole chain.
    lengths_to_do: relative lengths of the cycles still to do.

  Returns:
    One step per cycle, the first being global_step. Fewer if the steps do not
    suffice; none if no cycle or no step is left.
  """
  if not lengths_to_do or global_step >= horizon:
    return ()
  ends = lr_schedule.cycle_ends(global_step, horizon, lengths_to_do)
  starts = (global_step,) + ends[:-1]
  return tuple(start for start in starts if start < horizon)


def early_stopping(
  num_early_stops: int,
  global_step: int,
  horizon: int,
  lengths_to_do: Sequence[float],
) -> tuple[int, tuple[int, ...], bool]:
  """Stops the current cycle now and divides the rest of the run anew.

  Args:
    num_early_stops: early stops so far.
    global_step, horizon, lengths_to_do: see `starts_to_come`.

  Returns:
    The new num_early_stops, reinit_steps (the steps at which the cycles still
    to do start) and currently_stopping, which is True.

  Source: thesis, figure 3.2.
  """
  reinit_steps = starts_to_come(global_step, horizon, lengths_to_do)
  return num_early_stops + 1, reinit_steps, True
