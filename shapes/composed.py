"""Shapes of several pieces: restarts, ways up and down, shapes of shapes.

As in `shapes`, x is the share of the phase that has passed, values are shares
of the cycle's peak and lengths shares of the phase. Each piece starts at 0.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..core.checks import (
  Checked,
  Floor,
  Level,
  NonNegative,
  Positive,
  Share,
  check,
  check_count,
  check_number,
)
from ..core.schedules import Cosine
from .formulas import (
  SLACK,
  Fall,
  Shapes,
  Shares,
  check_fall,
  falling,
  last_part,
  num_reached,
  part_of,
)
from .simple import MOST_STAIRS, Linear


@dataclasses.dataclass(frozen=True)
class PiecewiseConstant(Checked):
  """values[i] from the share at[i - 1] on.

  Attributes:
    values: one more than there are changes.
    at: where the changes are.

  Example: PiecewiseConstant(values=(1, 0, 0.2), at=(0.29, 0.57)) over 100 steps
  is 1 at 28, 0 at 29, 0.2 at 57.

  Source: Cerebras' PiecewiseConstantLR.
  """

  values: tuple[NonNegative, ...] = (1.0, 0.5, 0.2)
  at: Shares = (0.4, 0.7)

  def __post_init__(self) -> None:
    super().__post_init__()
    must_be = f'one more than the {len(self.at)} in at'
    is_right = len(self.values) == len(self.at) + 1
    check(is_right, 'values', self.values, must_be)

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return jnp.asarray(self.values, jnp.float32)[num_reached(x, self.at)]


@dataclasses.dataclass(frozen=True)
class Multiplicative(Checked):
  """factors[0] * ... * factors[i - 1] from the share i / n on, of n factors.

  Attributes:
    factors: as many as there are steps, or fewer for a staircase.

  Example: Multiplicative(factors=(0.5, 1.6, 0.5, 1)) over 100 steps is 1 at 24,
  0.5 at 25, 0.8 at 50, 0.4 at 75.

  Source: torch's MultiplicativeLR, whose factor per step is a function:
  Multiplicative(tuple(function(i) for i in range(1, steps + 1))).
  """

  factors: tuple[NonNegative, ...]

  def __post_init__(self) -> None:
    super().__post_init__()
    num = len(self.factors)
    check_count('number of factors', num, most=MOST_STAIRS)
    values = self._values()
    must_be = 'factors whose product stays finite in float32'
    check(bool(np.isfinite(values).all()), 'factors', self.factors, must_be)

  def _values(self) -> np.ndarray:
    with np.errstate(over='ignore', invalid='ignore'):
      return np.cumprod([1.0, *self.factors]).astype(np.float32)

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    num, values = len(self.factors), jnp.asarray(self._values())
    index = jnp.floor((jnp.asarray(x) + SLACK) * num).astype(jnp.int32)
    return values[jnp.minimum(index, num)]


@dataclasses.dataclass(frozen=True)
class CosineWarmRestarts(Checked):
  """Half cosines to the floor, each `multiplier` times as long as the last.

  Attributes:
    periods: how many.
    multiplier: 1 makes them equal.
    floor: the end of each.

  Example: CosineWarmRestarts(periods=2, multiplier=3) over 100 steps is 1 at 0,
  1 at 25, 0.5 at 62.5, 0 at 100.

  Source: Loshchilov and Hutter 2017, "SGDR"; `optax.sgdr_schedule` without
  warm-ups.
  """

  periods: Annotated[int, '[1, 100]'] = 3
  multiplier: Annotated[float, '[1, inf)'] = 1.0
  floor: Floor = 0.0

  def starts(self) -> list[float]:
    """Where the second and the following begin."""
    # From the last period, which is 1 long: no power of a large number.
    lengths = [self.multiplier**-i for i in range(self.periods)][::-1]
    total = math.fsum(lengths)
    return [math.fsum(lengths[:i]) / total for i in range(1, self.periods)]

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return Cosine(self.floor)(part_of(x, self.starts())[1])


@dataclasses.dataclass(frozen=True)
class Triangular(Checked):
  """Straight up from the floor and down to it, again and again.

  Attributes:
    periods: how many.
    rise: share of a period on the way up.
    floor: value at the start of each period.
    mode: 'triangular' always goes up to 1; in 'triangular2' the amplitude
      halves with each period; in 'exp_range' it falls by powers of gamma.
    gamma: of 'exp_range'.
    scale_mode: of 'exp_range', what its power counts: gamma^x with
      'iterations', so that gamma is the last amplitude; gamma^n in the n-th
      period with 'cycle'.

  Example: Triangular(periods=2, rise=0.2) over 100 steps is 0 at 0, 0.5 at 5, 1
  at 10, 0.5 at 30, 0 at 50.

  Source: Smith 2017, "Cyclical learning rates"; torch's and Cerebras' CyclicLR.
  """

  periods: Annotated[int, '[1, 100]'] = 3
  rise: Annotated[float, '(0, 1)'] = 0.5
  floor: Floor = 0.0
  mode: Annotated[str, ('triangular', 'triangular2', 'exp_range')] = (
    'triangular'
  )
  gamma: Share = 0.1
  scale_mode: Annotated[str, ('iterations', 'cycle')] = 'iterations'

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    starts = [i / self.periods for i in range(1, self.periods)]
    passed, rest = part_of(x, starts)
    up, down = rest / self.rise, (1.0 - rest) / (1.0 - self.rise)
    amplitude = jnp.minimum(up, down)
    if self.mode == 'triangular2':
      amplitude *= jnp.exp2(-passed.astype(jnp.float32))
    elif self.mode == 'exp_range':
      is_per_period = self.scale_mode == 'cycle'
      amplitude *= jnp.power(self.gamma, passed + 1 if is_per_period else x)
    return self.floor + (1.0 - self.floor) * amplitude


@dataclasses.dataclass(frozen=True)
class OneCycle(Checked):
  """From the start up to 1 over the share `rise`, and down to the end.

  Attributes:
    start: value at the first step.
    end: value at the last step.
    rise: share of the phase on the way up.
    three_phase: come down to the start first, over the same share again.
    anneal: 'cosine' or 'linear', the form of each way.

  Example: OneCycle(rise=0.2, start=0.5, end=0.1) over 100 steps is 0.5 at 0,
  0.75 at 10, 1 at 20, 0.55 at 60, 0.1 at 100.

  Source: Smith and Topin 2018, "Super-convergence"; torch's OneCycleLR, whose n
  steps end at step n - 1. `optax.cosine_onecycle_schedule` differs from it by
  up to 1.6 % of the peak; Cerebras' rises again after the end.
  """

  start: Level = 0.04
  end: Level = 4e-6
  rise: float = 0.3
  three_phase: bool = False
  anneal: Annotated[str, ('cosine', 'linear')] = 'cosine'

  def __post_init__(self) -> None:
    super().__post_init__()
    check_number('rise', self.rise, '(0, .5)' if self.three_phase else '(0, 1)')

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    back = self.three_phase
    turns = [self.rise, 2 * self.rise] if back else [self.rise]
    values = [self.start, 1.0, *([self.start] if back else []), self.end]
    index, passed = part_of(x, turns)
    way = Cosine() if self.anneal == 'cosine' else Linear()
    levels = jnp.asarray(values, jnp.float32)
    begin, end = levels[index], levels[index + 1]
    return end + (begin - end) * way(passed)


@dataclasses.dataclass(frozen=True)
class WSD(Checked):
  """Warm-up-stable-decay: 1, then down to the floor, before each checkpoint.

  The rate is back at 1 after a checkpoint, since a run goes on from the state
  before or after the decay.

  Attributes:
    checkpoints: how many; they are at 1 / 2^(n - 1), ..., 1/2 and 1.
    decay: share of the way up to a checkpoint, from the one before, in which
      the rate comes down.
    fall: the way down, see `formulas.falling`.
    floor: value at each checkpoint.

  Example: WSD(checkpoints=2) over 100 steps is 1 at 39, 0.5 at 45, 1 at 50, 0.5
  at 95, 0 at 100.

  Source: Wen et al. 2024 (WSD-S); pytorch-accelerated's WSDLrScheduler, which
  misplaces checkpoints and cannot go on from one.
  """

  checkpoints: Annotated[int, '[1, 30]'] = 1
  decay: Share = 0.2
  fall: Fall = 'linear'
  floor: Floor = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    check_fall(self.fall, self.floor)

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    starts = [0.5**i for i in range(self.checkpoints - 1, 0, -1)]
    down = last_part(part_of(x, starts)[1], self.decay)
    return falling(down, 1.0, self.floor, self.fall)


@dataclasses.dataclass(frozen=True)
class Sequential(Checked):
  """One shape after the other, each over its part and with its own peak.

  Attributes:
    shapes: in their order.
    at: where the second and the following begin.
    peaks: one per shape, or none for peaks of 1.

  Example: Sequential((Cosine(), Linear()), at=(0.6,), peaks=(1, 0.5)) over 100
  steps is 1 at 0, 0.5 at 30, 0.5 at 60, 0.25 at 80, 0 at 100.

  Source: torch's SequentialLR; `optax.join_schedules`.
  """

  shapes: Shapes
  at: Shares = ()
  peaks: tuple[Positive, ...] = ()

  def __post_init__(self) -> None:
    super().__post_init__()
    num = len(self.shapes)
    must_be = f'{num - 1} shares, one fewer than the shapes'
    check(len(self.at) == num - 1, 'at', self.at, must_be)
    must_be = f'{num} numbers, one per shape, or none for peaks of 1'
    check(len(self.peaks) in (0, num), 'peaks', self.peaks, must_be)

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    index, passed = part_of(x, self.at)
    peaks = self.peaks or (1.0,) * len(self.shapes)
    values = [peak * shape(passed) for peak, shape in zip(peaks, self.shapes)]
    return jnp.select([index == i for i in range(len(values))], values)


@dataclasses.dataclass(frozen=True)
class Chained(Checked):
  """The product of the shapes, each over the whole phase.

  Attributes:
    shapes: the factors.

  Example: Chained((Linear(), Linear())) over 100 steps is 1 at 0, 0.25 at 50, 0
  at 100.

  Source: torch's ChainedScheduler, of factors.
  """

  shapes: Shapes

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return math.prod(jnp.asarray(shape(x)) for shape in self.shapes)
