"""The soft reset: how much of a model is replaced, and how.

  tau: the remaining share of the way from an untrained model to the target, in
    [0, 1]; where a reset fades, less the later it comes

  params  <- (1 - tau) * params + tau * fresh params
  moments <- (1 - tau * alpha) * moments

What a reset does to each leaf of a model is in `engine.model_reset`.

Source: thesis, section 3.3.2.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .core.checks import Checked, Level, NonNegative, check
from .core.evaluation import Way
from .core.schedules import OneShape


class ResetPlan(NamedTuple):
  """What a reset does to parameters, moments and the optimizer's counts."""

  tau: float  # share of fresh values in parameters and batch statistics
  keep_moments: float  # factor on the optimizer's moments
  keep_counts: bool  # whether the optimizer's counts go on

  @property
  def touches_nothing(self) -> bool:
    return self == (0.0, 1.0, True)


FULL = ResetPlan(1.0, 0.0, False)


class Reset(Protocol):
  """What the start of a further cycle does to the model.

  A reset inherits from this class. A reset that measures the way to the target
  says so by `needs_target`, and has a `tau` of its own.
  """

  needs_target: ClassVar[bool] = False

  def tau(self, way: Way) -> float:
    """The share of fresh values, in [0, 1]."""
    return 0.0

  def plan(self, tau: float) -> ResetPlan: ...


Scale = Annotated[str, ('log', 'linear')]


@dataclasses.dataclass(frozen=True)
class SoftReset(Checked, Reset):
  """Blends the model with a fresh one by tau; shrinks moments by alpha * tau.

    tau = min(max(remaining, 0), 1) * max(0, 1 - fade * share of the run over)

  With an `expected` progress e, the way is measured to the progress that is
  due, not to the target. e is a shape of the share f of the run that is over.
  It does not fall and stays in [0, 1]. The remaining way is 1 - (1 - remaining)
  / e(f), and 0 where e(f) is 0. For a metric that rises, the result is the way
  to a target of e(f) times the run's target.

  Source: thesis, section 3.3.2, whose outlook proposes the expected progress;
  fade is ours: the remaining steps would not make up for a late reset.
  """

  alpha: Level = 0.5  # share of tau that the moments get
  scale: Scale = 'log'  # of tau for a metric that falls
  fade: NonNegative = 0.0  # tau * max(0, 1 - fade * share of the run so far)
  expected: OneShape | None = None  # share of the way due by a share of the run

  needs_target: ClassVar[bool] = True

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.expected is not None:
      due = [self._due(f) for f in np.linspace(0.0, 1.0, 101).tolist()]
      must_be = 'a shape in [0, 1] that does not fall, such as LinearWarmup()'
      # A fall within rounding error does not count.
      is_rising = bool(np.all(np.diff(due) >= -1e-6))
      is_share = 0 <= min(due) and max(due) <= 1
      check(is_rising and is_share, 'expected', self.expected, must_be)

  def _due(self, passed: float) -> float:
    """The share of the way that is due; 1 without an `expected` progress."""
    due: Any = 1.0 if self.expected is None else self.expected(passed)
    return float(due)

  def remaining(self, way: Way) -> float:
    """The remaining share of the way that is due by now; NaN if unknown."""
    whole = way.remaining(self.scale)
    if self.expected is None or math.isnan(whole):
      return whole
    due = self._due(way.share_passed)
    return 1.0 - (1.0 - whole) / due if due > 0 else 0.0

  def tau(self, way: Way) -> float:
    """`remaining`, in [0, 1] and 1 for NaN; faded."""
    remaining = self.remaining(way)
    whole = 1.0 if math.isnan(remaining) else min(max(remaining, 0.0), 1.0)
    return whole * max(0.0, 1.0 - self.fade * way.share_passed)

  def plan(self, tau: float) -> ResetPlan:
    return ResetPlan(tau, 1.0 - tau * self.alpha, True)


@dataclasses.dataclass(frozen=True)
class FullReset(Reset):
  """Replaces the parameters and empties the optimizer (thesis, 3.2.2)."""

  def plan(self, tau: float) -> ResetPlan:
    return FULL


@dataclasses.dataclass(frozen=True)
class KeptMomentum(Reset):
  """Replaces the parameters only (thesis, 3.2.2)."""

  def plan(self, tau: float) -> ResetPlan:
    return ResetPlan(1.0, 1.0, True)


@dataclasses.dataclass(frozen=True)
class Cyclic(Reset):
  """Touches nothing: a warm restart of the learning rate."""

  def plan(self, tau: float) -> ResetPlan:
    return ResetPlan(0.0, 1.0, True)


def blend(
  old: jax.Array, fresh: jax.Array, keep: jax.Array, share: jax.Array
) -> jax.Array:
  """keep * old + share * fresh, which add up to 1; exact at both ends.

  A product could be 0 * NaN, so the ends are selected: share = 0 and keep = 1
  give old, keep = 0 gives fresh. Integers cannot be blended; they change at
  keep = 0 only. The result has old's shape and dtype; it is computed
  in that precision, but at least in float32.
  """
  new = fresh.astype(old.dtype)
  if not jnp.issubdtype(old.dtype, jnp.inexact):
    return jnp.where(keep > 0, old, new)
  precise = jnp.promote_types(old.dtype, jnp.float32)
  keep, share = keep.astype(precise), share.astype(precise)
  mixed = (keep * old + share * fresh).astype(old.dtype)
  mixed = jnp.where(share > 0, mixed, old)
  return jnp.where(keep > 0, mixed, new)
