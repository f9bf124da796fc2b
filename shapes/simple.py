"""Warm-ups and decays of one formula; `composed` has shapes of several pieces.

A warm-up rises to the peak, a decay goes on from there over the other steps of
the cycle. x is the share of the phase that has passed. Values are shares of the
cycle's peak, lengths among the fields are shares of the phase.

Sources: the PyTorch, Keras, Cerebras and pytorch-accelerated schedulers of
these names; each class says where it differs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..core.checks import (
  Checked,
  Floor,
  Level,
  NonNegative,
  Positive,
  Share,
  check,
)
from .formulas import (
  SLACK,
  Fall,
  Shares,
  check_fall,
  falling,
  last_part,
  num_reached,
)

# Beyond this many, stairs cannot be told from the smooth curve.
MOST_STAIRS = 10_000


@dataclasses.dataclass(frozen=True)
class CosineWarmup(Checked):
  """Half a cosine: start + (1 - start) * (1 - cos(pi * x)) / 2.

  Attributes:
    start: value at its first step.

  Example: CosineWarmup(start=0.2) over 10 steps is 0.2 at 0, 0.6 at 5, 1 at 10.
  """

  start: Floor = 0.0

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    half = 0.5 * (1.0 - jnp.cos(jnp.pi * x))
    return self.start + (1.0 - self.start) * half


@dataclasses.dataclass(frozen=True)
class ExponentialWarmup(Checked):
  """A constant factor per step: start^(1 - x).

  Attributes:
    start: value at its first step, which cannot be 0; the default is ours.

  Example: ExponentialWarmup(start=0.25) over 10 steps is 0.25 at 0, 0.5 at 5,
  1 at 10.
  """

  start: Annotated[float, '[1e-38, 1)'] = 0.01

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    # Not a power of the start: the start may be too small for a float32.
    return jnp.exp(math.log(self.start) * (1.0 - x))


@dataclasses.dataclass(frozen=True)
class PolynomialWarmup(Checked):
  """A power of the share: start + (1 - start) * x^power.

  Attributes:
    start: value at its first step.
    power: 1 is a straight line.

  Example: PolynomialWarmup(power=2) over 10 steps is 0 at 0, 0.25 at 5, 1 at
  10.
  """

  start: Floor = 0.0
  power: Positive = 1.0

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return self.start + (1.0 - self.start) * x**self.power


@dataclasses.dataclass(frozen=True)
class Linear(Checked):
  """A straight line: floor + (1 - floor) * (1 - x).

  Attributes:
    floor: the end.

  Example: Linear(floor=0.5) over 100 steps is 1 at 0, 0.75 at 50, 0.5 at 100.
  """

  floor: Floor = 0.0

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return self.floor + (1.0 - self.floor) * (1.0 - x)


@dataclasses.dataclass(frozen=True)
class Exponential(Checked):
  """A constant factor per step: factor^(x / share), or factor^floor(x / share).

  Attributes:
    factor: what remains after each share.
    share: of the phase, for one factor.
    staircase: whether the factor comes all at once, at the end of each share.

  Example: Exponential(factor=0.25, share=0.5) over 100 steps is 1 at 0, 0.5 at
  25, 0.25 at 50, 0.0625 at 100.

  Source: torch's ExponentialLR and StepLR.
  """

  factor: Share = 0.01
  share: Share = 1.0
  staircase: bool = False

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    periods = x / self.share
    if self.staircase and self.share * MOST_STAIRS >= 1:
      periods = jnp.floor((x + SLACK) / self.share)
    return jnp.power(self.factor, periods)


def _check_warmup(value: ArrayLike, warmup: ArrayLike) -> jax.Array:
  """The value, or NaN where no step would remain in which a decay can fall."""
  return jnp.where(jnp.asarray(warmup) < 0.4, value, jnp.nan)


@dataclasses.dataclass(frozen=True)
class HoldingExponential:
  """1 for W + 0.2 L steps, then a factor of 0.1 per 0.6 L steps.

  L is the length of the cycle and W the length of its warm-up, after which the
  hold begins. Within composed shapes L is the length of the part and W is 0. W
  must be below 0.4 L, or nothing would decay: the rate is NaN, and the chain is
  refused.

  Example: HoldingExponential() over 100 steps is 1 at 0, 1 at 20, 0.1 at 80.

  Source: thesis, section 2.3 and its code's exponential decay.
  """

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    passed = ((1.0 - warmup) * x - warmup - 0.2) / 0.6
    return _check_warmup(jnp.power(0.1, jnp.maximum(passed, 0.0)), warmup)


@dataclasses.dataclass(frozen=True)
class HoldingLinear:
  """1 for W + 0.2 L steps, then straight down to 0 over 0.8 L - 2 W steps.

  L and W as for `HoldingExponential`.

  Example: HoldingLinear() over 100 steps is 1 at 0, 1 at 20, 0.5 at 60, 0 at
  100.

  Source: thesis, section 2.3 and its code's linear decay.
  """

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    remaining = (1.0 - warmup) * (1.0 - x) / (0.8 - 2.0 * warmup)
    return _check_warmup(jnp.minimum(remaining, 1.0), warmup)


@dataclasses.dataclass(frozen=True)
class Staircase(Checked):
  """A staircase: multiplied by the factor at each of some shares of the phase.

  Attributes:
    factor: of each drop.
    at: where the drops are. The default is from He et al. 2016, "Deep
      residual learning": 32k and 48k of 64k iterations.

  Example: Staircase(factor=0.5, at=(0.25,)) over 100 steps is 1 at 24, 0.5 at
  25, 0.5 at 100.

  Source: torch's MultiStepLR.
  """

  factor: Share = 0.1
  at: Shares = (0.5, 0.75)

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    return jnp.power(self.factor, num_reached(x, self.at))


@dataclasses.dataclass(frozen=True)
class Polynomial(Checked):
  """end + (start - end) * (1 - x / share)^power, then the end.

  Attributes:
    start: value at its first step; it may be the lower one.
    end: value from the share on.
    power: 1 is a straight line.
    share: of the phase, in which the end is reached.
    cycle: whether, after each end, the value jumps up to where it would be if
      the end were to be reached one share later: (1 - x / (share * n))^power in
      the n-th share. The jumps become smaller.

  Example: Polynomial(power=2, end=0.2) over 100 steps is 1 at 0, 0.4 at 50, 0.2
  at 100.

  Source: torch's and Cerebras' PolynomialLR; `cycle` as in Keras'
  PolynomialDecay.
  """

  start: Level = 1.0
  end: Level = 0.0
  power: Positive = 1.0
  share: Share = 1.0
  cycle: bool = False

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    x, share = jnp.asarray(x), jnp.asarray(self.share)
    if self.cycle:
      share *= jnp.maximum(jnp.ceil((x - SLACK) / share), 1.0)
    # The difference first: 0 at the end, whose root would show any rounding.
    remaining = jnp.maximum(share - x, 0.0) / share
    return self.end + (self.start - self.end) * remaining**self.power


@dataclasses.dataclass(frozen=True)
class InverseTime(Checked):
  """1 / (1 + rate * (x / share)^exponent), or with the floor of that power.

  Attributes:
    rate: the default leaves a tenth after the share.
    exponent: of the time.
    share: of the phase, in which the inverse rises by the rate.
    staircase: whether it rises by whole rates only.

  Example: InverseTime(rate=1, share=0.5) over 100 steps is 1 at 0, 0.5 at 50.

  Source: Cerebras' InverseExponentialTimeDecayLR; with exponent 1 Keras'
  InverseTimeDecay.
  """

  rate: NonNegative = 9.0
  exponent: Positive = 1.0
  share: Share = 1.0
  staircase: bool = False

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    periods = jnp.power(x / self.share, self.exponent)
    log_stairs = -self.exponent * math.log(self.share)
    if self.staircase and log_stairs <= math.log(MOST_STAIRS):
      late = jnp.power((x + SLACK) / self.share, self.exponent)
      periods = jnp.where(jnp.asarray(x) > 0, jnp.floor(late), 0.0)
    return 1.0 / (1.0 + self.rate * periods)


@dataclasses.dataclass(frozen=True)
class InversePower(Checked):
  """(hold / max(x, hold))^exponent, then down to the floor in the cool-down.

  Attributes:
    exponent: of the power law; 1/2 is the inverse square root.
    hold: share of the phase in which it is constant.
    cooldown: share of the phase, at its end, of the way down to the floor.
    fall: the way down, see `formulas.falling`.
    floor: the end of the cool-down.

  Example: InversePower(hold=0.04) over 100 steps is 1 at 0, 1 at 4, 0.5 at 16,
  0.25 at 64.

  Source: Vaswani et al. 2017, "Attention is all you need"; Cerebras'
  InverseSquareRootDecayLR(initial, scale, warmup_steps=h) has the initial value
  initial * scale / sqrt(h).
  """

  exponent: Positive = 0.5
  hold: Share = 0.05
  cooldown: Level = 0.0
  fall: Fall = 'linear'
  floor: Floor = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.cooldown > 0:
      must_be = f'at most {self._top():.4g}, where the cool-down starts'
      check(self.floor <= self._top(), 'floor', self.floor, must_be)
      check_fall(self.fall, self.floor)

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    power = (self.hold / jnp.maximum(x, self.hold)) ** self.exponent
    if self.cooldown == 0:
      return power
    passed = last_part(x, self.cooldown)
    down = falling(passed, self._top(), self.floor, self.fall)
    return jnp.where(passed > 0, down, power)

  def _top(self) -> float:
    """The value where the cool-down starts."""
    begin = max(1.0 - self.cooldown, self.hold)
    return float((self.hold / begin) ** self.exponent)


@dataclasses.dataclass(frozen=True)
class KDecayCosine(Checked):
  """Half a cosine of (x / (1 - cooldown))^k to the floor, then the floor.

  `optax.cosine_decay_schedule(exponent=...)` is something else: there, the
  cosine is raised to a power.

  Attributes:
    k: 1 is the cosine; a larger k stays near 1 for longer.
    floor: the end.
    cooldown: share of the phase, at its end, that stays at the floor.

  Example: KDecayCosine(k=2, floor=0.5) over 100 steps is 1 at 0, 0.75 at
  70.7106781, 0.5 at 100.

  Source: Zhang and Li 2020, "k-decay: a new method for learning rate
  schedule"; pytorch-accelerated's CosineLrScheduler, whose cosine ends too
  early by the steps of the warm-up.
  """

  k: Positive = 1.0
  floor: Floor = 0.0
  cooldown: Floor = 0.0

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    passed = jnp.minimum(x / (1.0 - self.cooldown), 1.0) ** self.k
    half = 0.5 * (1.0 + jnp.cos(jnp.pi * passed))
    return self.floor + (1.0 - self.floor) * half


@dataclasses.dataclass(frozen=True)
class CosineAnnealing(Checked):
  """Half a cosine to the floor over the share, then up again, and so on.

  Attributes:
    floor: the lowest value.
    share: of the phase, for one way.

  Example: CosineAnnealing(share=0.25, floor=0.5) over 100 steps is 1 at 0, 0.5
  at 25, 1 at 50, 0.5 at 75.

  Source: torch's CosineAnnealingLR, in closed form.
  """

  floor: Floor = 0.0
  share: Share = 0.5

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    half = 0.5 * (1.0 + jnp.cos(jnp.pi * (x / self.share)))
    return self.floor + (1.0 - self.floor) * half


@dataclasses.dataclass(frozen=True)
class Lambda:
  """function(x), a function that JAX can trace. No JSON can hold it.

  Attributes:
    function: from the share of the phase to the share of the peak.

  Raises:
    ValueError: if the function raises, cannot be traced, or gives anything but
      one real number.

  Source: torch's LambdaLR.
  """

  function: Callable[[Any], Any]

  def __post_init__(self) -> None:
    check(callable(self.function), 'function', self.function, 'a function')
    must_be = 'a function that JAX can trace, from a share to one real number'
    try:
      value = jax.eval_shape(self, jnp.float32(0))
    except Exception as error:
      raise ValueError(
        f'{self}: function must be {must_be}: {error}.'
      ) from error
    is_real = not jnp.issubdtype(value.dtype, jnp.complexfloating)
    check(value.shape == () and is_real, 'function', self.function, must_be)

  def __call__(self, x: ArrayLike, warmup: ArrayLike = 0.0) -> ArrayLike:
    value = self.function(x)
    if value is None:  # jax 0.4 would make it nan
      raise TypeError('None is not a number')
    return jnp.asarray(value)
