"""Warm-ups and decays of one formula; `composed_shapes` has those of several.

Warm-ups and decays beyond the core's: a warm-up rises to the peak over W steps,
a decay goes on from there over the cycle's other steps. Values are shares of
the cycle's peak, u = t / N is the share of the phase that has passed; lengths
among the fields are shares of the phase. Counts below zero read as zero.

Sources: the PyTorch, Keras, Cerebras and pytorch-accelerated schedulers of
these names; each class says where it differs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from ..core.checks import check, check_choice, check_flag, check_number
from ..core.cycle import (
  Phase,
  Schedule,
  as_written,
  between,
  passed_share,
  rounded,
)
from .shape_formulas import (
  FALLS,
  check_fall,
  check_shares,
  ends_of_parts,
  ends_passed,
  falling,
  floor_steps,
  joined,
  share_left,
  share_steps,
  straight,
)

# More stairs than that are none that can be told from the curve.
MOST_STAIRS = 10_000


@dataclasses.dataclass(frozen=True)
class Constant:
  """The peak throughout.

  Example: Constant() over 10 steps is 1 at 0, 1 at 5, 1 at 10.
  """

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    del phase
    return optax.constant_schedule(1.0)


@dataclasses.dataclass(frozen=True)
class CosineWarmup:
  """Half a cosine: start + (1 - start) * (1 - cos(pi * u)) / 2.

  Attributes:
    start: value at its first step.

  Example: CosineWarmup(start=0.2) over 10 steps is 0.2 at 0, 0.6 at 5, 1 at 10.
  """

  start: float = 0.0

  def __post_init__(self) -> None:
    check_number('start', self.start, '[0, 1)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""

    def share(count: ArrayLike) -> jax.Array:
      passed = passed_share(count, phase.steps)
      return between(1.0, self.start, 0.5 * (1.0 - jnp.cos(jnp.pi * passed)))

    return share


@dataclasses.dataclass(frozen=True)
class ExponentialWarmup:
  """A constant factor per step: start^(1 - u).

  Attributes:
    start: value at its first step, which cannot be 0; the default is ours.

  Example: ExponentialWarmup(start=0.25) over 10 steps is 0.25 at 0, 0.5 at 5,
  1 at 10.
  """

  start: float = 0.01

  def __post_init__(self) -> None:
    check_number('start', self.start, '[1e-38, 1)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    return optax.exponential_decay(
      self.start, phase.steps, 1.0 / self.start, end_value=1.0
    )


@dataclasses.dataclass(frozen=True)
class PolynomialWarmup:
  """A power of the share: start + (1 - start) * u^power.

  Exact also where u is small.

  Attributes:
    start: value at its first step.
    power: 1 is a straight line.

  Example: PolynomialWarmup(power=2) over 10 steps is 0 at 0, 0.25 at 5, 1 at
  10.
  """

  start: float = 0.0
  power: float = 1.0

  def __post_init__(self) -> None:
    check_number('start', self.start, '[0, 1)')
    check_number('power', self.power, '(0, inf)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    return lambda count: between(
      1.0, self.start, passed_share(count, phase.steps) ** self.power
    )


@dataclasses.dataclass(frozen=True)
class Linear:
  """A straight line: floor + (1 - floor) * (1 - u).

  Attributes:
    floor: the end.

  Example: Linear(floor=0.5) over 100 steps is 1 at 0, 0.75 at 50, 0.5 at 100.
  """

  floor: float = 0.0

  def __post_init__(self) -> None:
    check_number('floor', self.floor, '[0, 1)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    return straight(1.0, self.floor, phase.steps)


@dataclasses.dataclass(frozen=True)
class Exponential:
  """A constant factor per step: factor^(u / share), or of the floor of that.

  Attributes:
    factor: what is left after each share.
    share: of the phase, for one factor.
    staircase: whether the factor comes all at once, at the end of each share.

  Example: Exponential(factor=0.25, share=0.5) over 100 steps is 1 at 0, 0.5 at
  25, 0.25 at 50, 0.0625 at 100.

  Source: `optax.exponential_decay`, whose staircase is up to a step late in a
  compiled program; torch's ExponentialLR and StepLR.
  """

  factor: float = 0.01
  share: float = 1.0
  staircase: bool = False

  def __post_init__(self) -> None:
    check_number('factor', self.factor, '(0, 1]')
    check_number('share', self.share, '(0, 1]')
    check_flag('staircase', self.staircase)

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    if not self.staircase or self.share * MOST_STAIRS < 1:
      steps: Any = share_steps(self.share, phase.steps)
      return optax.exponential_decay(1.0, steps, self.factor)
    ends = ends_of_parts(self.share, phase.steps)
    stairs = optax.exponential_decay(1.0, 1, self.factor)
    return lambda count: stairs(ends_passed(ends, count, 'right'))


@dataclasses.dataclass(frozen=True)
class HoldingExponential:
  """1 for W + 0.2 L steps, then a factor of 0.1 per 0.6 L steps.

  L is the length of the cycle and W that of its warm-up, after which the hold
  begins; within composed shapes L is the length of the part and W is 0. W must
  be below 0.4 L, or nothing would decay.

  Example: HoldingExponential() over 100 steps is 1 at 0, 1 at 20, 0.1 at 80.

  Source: thesis, section 2.3 and its code's exponential decay.
  """

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    length, hold = _hold(phase)
    steps: Any = 0.6 * length
    decay = optax.exponential_decay(1.0, steps, 0.1)
    return lambda count: decay(_whole(count) - hold)


@dataclasses.dataclass(frozen=True)
class HoldingLinear:
  """1 for W + 0.2 L steps, then straight down to 0 over 0.8 L - 2 W steps.

  L and W as for `HoldingExponential`.

  Example: HoldingLinear() over 100 steps is 1 at 0, 1 at 20, 0.5 at 60, 0 at
  100.

  Source: thesis, section 2.3 and its code's linear decay.
  """

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    length, hold = _hold(phase)
    steps = 0.8 * length - 2 * phase.warmup_steps
    return lambda count: share_left(_whole(count) - hold, steps)


def _hold(phase: Phase) -> tuple[int, float]:
  """L, and how long the peak is held, which need not be a whole step."""
  length = phase.warmup_steps + phase.steps
  right = 'fewer than 0.4 of the cycle, since the decay holds the peak as long'
  check(
    phase.warmup_steps < 0.4 * length, 'warmup_steps', phase.warmup_steps, right
  )
  return length, phase.warmup_steps + 0.2 * length


def _whole(count: ArrayLike) -> jax.Array:
  """The count, rounded before a hold is subtracted.

  Compilers make one subtraction of that and of the start of the phase.
  """
  return rounded(jnp.asarray(count, jnp.float32))


@dataclasses.dataclass(frozen=True)
class Step:
  """The factor once more from each of some shares of the phase on.

  Attributes:
    factor: of each drop.
    at: where the drops are. The default is that of He et al. 2016, "Deep
      residual learning": 32k and 48k of 64k iterations.

  Example: Step(factor=0.5, at=(0.25,)) over 100 steps is 1 at 24, 0.5 at 25,
  0.5 at 100.

  Source: torch's MultiStepLR; `optax.piecewise_constant_schedule`.
  """

  factor: float = 0.1
  at: tuple[float, ...] = (0.5, 0.75)

  def __post_init__(self) -> None:
    check_number('factor', self.factor, '(0, 1]')
    object.__setattr__(self, 'at', check_shares('at', self.at))

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    drops: Any = {share_steps(s, phase.steps): self.factor for s in self.at}
    return optax.piecewise_constant_schedule(1.0, drops)


@dataclasses.dataclass(frozen=True)
class Polynomial:
  """end + (start - end) * (1 - u / share)^power, over whole steps.

  `optax.polynomial_schedule` adds to a product twice, and does not reach the
  end in a compiled program if the power is below 1.

  Attributes:
    start: value at its first step; it may be the lower one.
    end: value from the share on.
    power: 1 is a straight line.
    share: of the phase, in which the end is reached.

  Example: Polynomial(power=2, end=0.2) over 100 steps is 1 at 0, 0.4 at 50, 0.2
  at 100.

  Source: torch's and Cerebras' PolynomialLR.
  """

  start: float = 1.0
  end: float = 0.0
  power: float = 1.0
  share: float = 1.0

  def __post_init__(self) -> None:
    check_number('start', self.start, '[0, 1]')
    check_number('end', self.end, '[0, 1]')
    check_number('power', self.power, '(0, inf)')
    check_number('share', self.share, '(0, 1]')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    steps = max(floor_steps(self.share, phase.steps), 1)
    return lambda count: between(
      self.start, self.end, share_left(count, steps) ** self.power
    )


@dataclasses.dataclass(frozen=True)
class InverseTime:
  """1 / (1 + rate * (u / share)^exponent), or with the floor of that power.

  Attributes:
    rate: the default leaves a tenth after the share.
    exponent: of the time.
    share: of the phase, in which the inverse rises by the rate.
    staircase: whether it rises by whole rates only.

  Example: InverseTime(rate=1, share=0.5) over 100 steps is 1 at 0, 0.5 at 50.

  Source: Cerebras' InverseExponentialTimeDecayLR; with exponent 1 Keras'
  InverseTimeDecay.
  """

  rate: float = 9.0
  exponent: float = 1.0
  share: float = 1.0
  staircase: bool = False

  def __post_init__(self) -> None:
    check_number('rate', self.rate, '[0, inf)')
    check_number('exponent', self.exponent, '(0, inf)')
    check_number('share', self.share, '(0, 1]')
    check_flag('staircase', self.staircase)

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    length = share_steps(self.share, phase.steps)
    log_stairs = self.exponent * math.log(phase.steps / length)
    ends: list[float] = []
    if self.staircase and log_stairs <= math.log(MOST_STAIRS):
      stairs = range(1, int(math.exp(log_stairs)) + 2)
      ends = [length * i ** (1 / self.exponent) for i in stairs]
      if self.exponent == 1:
        ends = ends_of_parts(self.share, phase.steps)

    def share(count: ArrayLike) -> jax.Array:
      if ends:
        periods: Any = ends_passed(ends, count, 'right')
      else:
        periods = (jnp.maximum(count, 0.0) / length) ** self.exponent
      return 1.0 / (1.0 + rounded(self.rate * periods))

    return share


@dataclasses.dataclass(frozen=True)
class InversePower:
  """(hold / max(u, hold))^exponent, then down to the floor in the cool-down.

  Attributes:
    exponent: of the power law; 1/2 is the inverse square root.
    hold: share of the phase in which it is constant.
    cooldown: share of the phase, at its end, of the way down to the floor.
    fall: how it goes down, see `shape_formulas.falling`.
    floor: the end of the cool-down.

  Example: InversePower(hold=0.04) over 100 steps is 1 at 0, 1 at 4, 0.5 at 16,
  0.25 at 64.

  Source: Vaswani et al. 2017, "Attention is all you need"; Cerebras'
  InverseSquareRootDecayLR(initial, scale, warmup_steps=h) has the initial value
  initial * scale / sqrt(h).
  """

  exponent: float = 0.5
  hold: float = 0.05
  cooldown: float = 0.0
  fall: str = 'linear'
  floor: float = 0.0

  def __post_init__(self) -> None:
    check_number('exponent', self.exponent, '(0, inf)')
    check_number('hold', self.hold, '(0, 1]')
    check_number('cooldown', self.cooldown, '[0, 1]')
    check_choice('fall', self.fall, FALLS)
    check_number('floor', self.floor, '[0, 1)')
    if self.cooldown > 0:
      begin = (self.hold / max(1 - self.cooldown, self.hold)) ** self.exponent
      right = f'at most {begin:.4g}, where the cool-down starts'
      check(self.floor <= begin, 'floor', self.floor, right)
      check_fall(self.fall, self.floor)

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    held = share_steps(self.hold, phase.steps)

    def power(count: ArrayLike) -> jax.Array:
      return (held / jnp.maximum(count, held)) ** self.exponent

    if self.cooldown == 0:
      return power
    begin = floor_steps(1 - as_written(self.cooldown), phase.steps)
    top = (held / max(begin, held)) ** self.exponent
    down = falling(top, self.floor, phase.steps - begin, self.fall)
    return joined([(power, begin), (down, phase.steps - begin)])


@dataclasses.dataclass(frozen=True)
class KDecayCosine:
  """Half a cosine of (u / (1 - cooldown))^k to the floor, then the floor.

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

  k: float = 1.0
  floor: float = 0.0
  cooldown: float = 0.0

  def __post_init__(self) -> None:
    check_number('k', self.k, '(0, inf)')
    check_number('floor', self.floor, '[0, 1)')
    check_number('cooldown', self.cooldown, '[0, 1)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    steps = float((1 - as_written(self.cooldown)) * phase.steps)

    def share(count: ArrayLike) -> jax.Array:
      passed = passed_share(count, steps) ** self.k
      return between(1.0, self.floor, 0.5 * (1 + jnp.cos(jnp.pi * passed)))

    return share


@dataclasses.dataclass(frozen=True)
class CosineAnnealing:
  """Half a cosine to the floor over the share, then up again, and so on.

  Attributes:
    floor: the lowest value.
    share: of the phase, for one way.

  Example: CosineAnnealing(share=0.25, floor=0.5) over 100 steps is 1 at 0, 0.5
  at 25, 1 at 50, 0.5 at 75.

  Source: torch's CosineAnnealingLR, in closed form.
  """

  floor: float = 0.0
  share: float = 0.5

  def __post_init__(self) -> None:
    check_number('floor', self.floor, '[0, 1)')
    check_number('share', self.share, '(0, 1]')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    steps = share_steps(self.share, phase.steps)

    def value(count: ArrayLike) -> jax.Array:
      ways = jnp.maximum(count, 0) / steps
      return between(1.0, self.floor, 0.5 * (1 + jnp.cos(jnp.pi * ways)))

    return value


@dataclasses.dataclass(frozen=True)
class Lambda:
  """function(u), a function that JAX can trace. No JSON can hold it.

  It may differ in the last bits between programs if it adds to a bare product;
  see `core.cycle.rounded`.

  Attributes:
    function: from the share of the phase to the share of the peak.

  Source: torch's LambdaLR.
  """

  function: Callable[[jax.Array], Any]

  def __post_init__(self) -> None:
    check(callable(self.function), 'function', self.function, 'a function')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`.

    Raises:
      ValueError: if the function raises, cannot be traced, or gives anything
        but one real number.
    """

    def value(count: ArrayLike) -> jax.Array:
      found = self.function(passed_share(count, phase.steps))
      if found is None:  # jax 0.4 would make it nan
        raise TypeError('None is not a number')
      return jnp.asarray(found)

    right = 'a function that JAX can trace, from a share to one real number'
    try:
      found = jax.eval_shape(value, np.float32(0))
    except Exception as error:
      raise ValueError(f'{self}: function must be {right}: {error}.') from error
    is_real = not jnp.issubdtype(found.dtype, jnp.complexfloating)
    check(found.shape == () and is_real, 'function', self.function, right)
    return value


@dataclasses.dataclass(frozen=True)
class Multiplicative:
  """function(1) * ... * function(t); it is called once per step, beforehand.

  The value stays as it is after the phase, and between whole steps.

  Attributes:
    function: from a step, a whole number from 1 on, to a factor.

  Source: torch's MultiplicativeLR.
  """

  function: Callable[[int], float]

  def __post_init__(self) -> None:
    check(callable(self.function), 'function', self.function, 'a function')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`.

    Raises:
      ValueError: if the function raises, gives no number, or if the product
        does not stay finite.
    """
    right = 'a function from a step (1, 2, ...) to one number, its factor'
    try:
      factors = [float(self.function(t + 1)) for t in range(phase.steps)]
    except Exception as error:
      raise ValueError(f'{self}: function must be {right}: {error}.') from error
    with np.errstate(over='ignore', invalid='ignore'):
      table = np.cumprod([1.0, *factors]).astype(np.float32)
    is_finite = bool(np.isfinite(table).all())
    check(
      is_finite,
      'function',
      self.function,
      f'{right}, whose product stays finite',
    )

    def share(count: ArrayLike) -> jax.Array:
      whole = jnp.floor(jnp.asarray(count, jnp.float32)).astype(jnp.int32)
      return jnp.asarray(table)[jnp.clip(whole, 0, phase.steps)]

    return share
