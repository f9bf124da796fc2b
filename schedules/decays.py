"""Decays of one formula, each with its parameters, defaults and bounds.

A decay goes on from the warm-up over the cycle's other steps. Values are shares
of the cycle's peak, u is the share of the phase that has passed; lengths among
the parameters are shares of the phase. Counts below zero read as zero.

Sources: the PyTorch, Keras, Cerebras and pytorch-accelerated schedulers of
these names; each function says where it differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from ..settings.kinds import (
  BelowOne,
  Flag,
  Fraction01,
  NotNegative,
  Positive,
  Share,
  Shares,
)
from ..settings.named import Registry
from .formulas import (
  Fall,
  between,
  ends_of_parts,
  ends_passed,
  falling,
  half_cosine,
  joined,
  passed_share,
  rounded,
  share_left,
  straight,
)
from .phase import Phase, Schedule, as_written, floor_steps, share_steps

DECAYS = Registry('shape')

# Exclusive upper bound of W / L for the decays that hold the peak for another
# W + 0.2 L steps after the warm-up: 2 W + 0.2 L < L, or nothing would decay.
HOLDING_DECAYS = {'holding_exponential': 0.4, 'holding_linear': 0.4}
# More stairs than that are none that can be told from the curve.
MOST_STAIRS = 10_000


@DECAYS.register
def cosine(phase: Phase, *, floor: BelowOne = 0.0) -> Schedule:
  """Half a cosine: floor + (1 - floor) * (1 + cos(pi * u)) / 2.

  Args:
    floor: the end.

  Example: {'name': 'cosine', 'floor': 0.5} over 100 steps is 1 at 0, 0.75 at
  50, 0.5 at 100.

  Source: thesis, section 2.3; `optax.cosine_decay_schedule`.
  """
  return half_cosine(1.0, floor, phase.steps)


@DECAYS.register
def linear(phase: Phase, *, floor: BelowOne = 0.0) -> Schedule:
  """A straight line: floor + (1 - floor) * (1 - u).

  Args:
    floor: the end.

  Example: {'name': 'linear', 'floor': 0.5} over 100 steps is 1 at 0, 0.75 at
  50, 0.5 at 100.
  """
  return straight(1.0, floor, phase.steps)


@DECAYS.register
def exponential(
  phase: Phase,
  *,
  factor: Share = 0.01,
  share: Share = 1.0,
  staircase: Flag = False,
) -> Schedule:
  """A constant factor per step: factor^(u / share), or of the floor of that.

  Args:
    factor: what is left after each share.
    share: of the phase, for one factor.
    staircase: whether the factor comes all at once, at the end of each share.

  Example: {'name': 'exponential', 'factor': 0.25, 'share': 0.5} over 100 steps
  is 1 at 0, 0.5 at 25, 0.25 at 50, 0.0625 at 100.

  Source: `optax.exponential_decay`, whose staircase is up to a step late in a
  compiled program; torch's ExponentialLR and StepLR.
  """
  if not staircase or share * MOST_STAIRS < 1:
    return optax.exponential_decay(1.0, share_steps(share, phase.steps), factor)
  ends = ends_of_parts(share, phase.steps)
  stairs = optax.exponential_decay(1.0, 1, factor)
  return lambda count: stairs(ends_passed(ends, count, 'right'))


@DECAYS.register
def holding_exponential(phase: Phase) -> Schedule:
  """1 for W + 0.2 L steps, then a factor of 0.1 per 0.6 L steps.

  L is the length of the cycle and W that of its warm-up, after which the hold
  begins; within composites L is the length of the part and W is 0.

  Example: {'name': 'holding_exponential'} over 100 steps is 1 at 0, 1 at 20,
  0.1 at 80.

  Source: thesis, section 2.3 and its code's exponential decay.
  """
  length = phase.cycle_steps
  decay = optax.exponential_decay(1.0, 0.6 * length, 0.1)
  return lambda count: decay(_after_hold(count, phase))


@DECAYS.register
def holding_linear(phase: Phase) -> Schedule:
  """1 for W + 0.2 L steps, then straight down to 0 over 0.8 L - 2 W steps.

  L is the length of the cycle and W that of its warm-up, after which the hold
  begins; within composites L is the length of the part and W is 0.

  Example: {'name': 'holding_linear'} over 100 steps is 1 at 0, 1 at 20, 0.5 at
  60, 0 at 100.

  Source: thesis, section 2.3 and its code's linear decay.
  """
  steps = 0.8 * phase.cycle_steps - 2 * phase.warmup_steps
  return lambda count: share_left(_after_hold(count, phase), steps)


def _after_hold(count: ArrayLike, phase: Phase) -> jax.Array:
  """Steps since the end of a hold, which need not be a whole step.

  Rounded in between, since compilers make one subtraction of this one and that
  of the start of the phase.
  """
  hold = phase.warmup_steps + 0.2 * phase.cycle_steps
  return rounded(jnp.asarray(count, jnp.float32)) - hold


@DECAYS.register
def step(
  phase: Phase, *, factor: Share = 0.1, at: Shares = (0.5, 0.75)
) -> Schedule:
  """The factor once more from each of some shares of the phase on.

  Args:
    factor: of each drop.
    at: where the drops are, as shares of the phase. The default is that of He
      et al. 2016, "Deep residual learning": 32k and 48k of 64k iterations.

  Example: {'name': 'step', 'factor': 0.5, 'at': [0.25]} over 100 steps is 1 at
  24, 0.5 at 25, 0.5 at 100.

  Source: torch's MultiStepLR; `optax.piecewise_constant_schedule`.
  """
  drops = {share_steps(share, phase.steps): factor for share in at}
  return optax.piecewise_constant_schedule(1.0, drops)


@DECAYS.register
def constant(phase: Phase) -> Schedule:
  """1 throughout.

  Example: {'name': 'constant'} over 100 steps is 1 at 0, 1 at 100.
  """
  del phase
  return optax.constant_schedule(1.0)


def _has_few_periods(p: Mapping[str, Any]) -> str:
  if p['cycle'] and p['share'] * MOST_STAIRS < 1:
    return f'share must be at least {1 / MOST_STAIRS} if cycle is true'
  return ''


@DECAYS.register(check=_has_few_periods)
def polynomial(
  phase: Phase,
  *,
  start: Fraction01 = 1.0,
  end: Fraction01 = 0.0,
  power: Positive = 1.0,
  share: Share = 1.0,
  cycle: Flag = False,
) -> Schedule:
  """end + (start - end) * (1 - u / share)^power, over whole steps.

  `optax.polynomial_schedule` adds to a product twice, and does not reach the
  end in a compiled program if the power is below 1.

  Args:
    start: value at its first step; it may be the lower one.
    end: value from the share on.
    power: 1 is a straight line.
    share: of the phase, in which the end is reached.
    cycle: go on from there with a period twice as long, and so on, as Keras'
      PolynomialDecay does. (Cerebras' PolynomialLR takes the argument and
      ignores it.)

  Example: {'name': 'polynomial', 'power': 2, 'end': 0.2} over 100 steps is 1 at
  0, 0.4 at 50, 0.2 at 100.

  Source: torch's PolynomialLR; Keras' PolynomialDecay.
  """
  if cycle:
    return _cycling_polynomial(phase, start, end, power, share)
  steps = max(floor_steps(share, phase.steps), 1)
  return lambda count: between(start, end, share_left(count, steps) ** power)


def _cycling_polynomial(
  phase: Phase, start: float, end: float, power: float, share: float
) -> Schedule:
  ends = [max(math.floor(e), 1) for e in ends_of_parts(share, phase.steps)]
  # The last period may end beyond the phase.
  ends.append(math.ceil((len(ends) + 1) * as_written(share) * phase.steps))
  table = jnp.asarray(ends, jnp.float32)

  def schedule(count: ArrayLike) -> jax.Array:
    passed = ends_passed(ends, count, 'left')
    length = table[jnp.minimum(passed, len(ends) - 1)]
    left = share_left(jnp.maximum(count, 0.0), length)
    return between(start, end, left**power)

  return schedule


@DECAYS.register
def inverse_time(
  phase: Phase,
  *,
  rate: NotNegative = 9.0,
  exponent: Positive = 1.0,
  share: Share = 1.0,
  staircase: Flag = False,
) -> Schedule:
  """1 / (1 + rate * (u / share)^exponent), or with the floor of that power.

  Args:
    rate: the default leaves a tenth after the share.
    exponent: of the time.
    share: of the phase, in which the inverse rises by the rate.
    staircase: whether it rises by whole rates only.

  Example: {'name': 'inverse_time', 'rate': 1, 'share': 0.5} over 100 steps is 1
  at 0, 0.5 at 50.

  Source: Cerebras' InverseExponentialTimeDecayLR; with exponent 1 Keras'
  InverseTimeDecay.
  """
  length = share_steps(share, phase.steps)
  log_stairs = exponent * math.log(phase.steps / length)
  is_stepped = staircase and log_stairs <= math.log(MOST_STAIRS)
  if is_stepped and exponent == 1:
    ends = ends_of_parts(share, phase.steps)
  elif is_stepped:
    stairs = range(1, int(math.exp(log_stairs)) + 2)
    ends = [length * i ** (1 / exponent) for i in stairs]

  def schedule(count: ArrayLike) -> jax.Array:
    if is_stepped:
      periods = ends_passed(ends, count, 'right')
    else:
      periods = (jnp.maximum(count, 0.0) / length) ** exponent
    return 1.0 / (1.0 + rounded(rate * periods))

  return schedule


def _falls(p: Mapping[str, Any]) -> str:
  if p['cooldown'] == 0:
    return ''
  begin = max(1 - p['cooldown'], p['hold'])
  if p['floor'] > (p['hold'] / begin) ** p['exponent']:
    return 'floor must not be above where the cool-down starts'
  return has_floor_to_fall_to(p)


def has_floor_to_fall_to(p: Mapping[str, Any]) -> str:
  """What is wrong with an inverse fall to 0, whose limit is a jump."""
  if p['fall'] == 'inverse' and p['floor'] == 0:
    return 'floor must be above 0 for an inverse fall'
  return ''


@DECAYS.register(check=_falls)
def inverse_power(
  phase: Phase,
  *,
  exponent: Positive = 0.5,
  hold: Share = 0.05,
  cooldown: Fraction01 = 0.0,
  fall: Fall = 'linear',
  floor: BelowOne = 0.0,
) -> Schedule:
  """(hold / max(u, hold))^exponent, then down to the floor in the cool-down.

  Args:
    exponent: of the power law; 1/2 is the inverse square root.
    hold: share of the phase in which it is constant.
    cooldown: share of the phase, at its end, of the way down to the floor.
    fall: how it goes down, see `formulas.falling`.
    floor: the end of the cool-down.

  Example: {'name': 'inverse_power', 'hold': 0.04} over 100 steps is 1 at 0, 1
  at 4, 0.5 at 16, 0.25 at 64.

  Source: Vaswani et al. 2017, "Attention is all you need"; Cerebras'
  InverseSquareRootDecayLR(initial, scale, warmup_steps=h) has the initial value
  initial * scale / sqrt(h).
  """
  held = share_steps(hold, phase.steps)

  def power(count: ArrayLike) -> jax.Array:
    return (held / jnp.maximum(count, held)) ** exponent

  if cooldown == 0:
    return power
  begin = floor_steps(1 - as_written(cooldown), phase.steps)
  top = (held / max(begin, held)) ** exponent
  down = falling(top, floor, phase.steps - begin, fall)
  return joined([(power, begin), (down, phase.steps - begin)])


@DECAYS.register
def k_decay_cosine(
  phase: Phase,
  *,
  k: Positive = 1.0,
  floor: BelowOne = 0.0,
  cooldown: BelowOne = 0.0,
) -> Schedule:
  """Half a cosine of (u / (1 - cooldown))^k to the floor, then the floor.

  `optax.cosine_decay_schedule(exponent=...)` is something else: there, the
  cosine is raised to a power.

  Args:
    k: 1 is the cosine; a larger k stays near 1 for longer.
    floor: the end.
    cooldown: share of the phase, at its end, that stays at the floor.

  Example: {'name': 'k_decay_cosine', 'k': 2, 'floor': 0.5} over 100 steps is 1
  at 0, 0.75 at 70.7106781, 0.5 at 100.

  Source: Zhang and Li 2020, "k-decay: a new method for learning rate
  schedule"; pytorch-accelerated's CosineLrScheduler, whose cosine ends too
  early by the steps of the warm-up.
  """
  steps = float((1 - as_written(cooldown)) * phase.steps)

  def schedule(count: ArrayLike) -> jax.Array:
    share = passed_share(count, steps) ** k
    return between(1.0, floor, 0.5 * (1 + jnp.cos(jnp.pi * share)))

  return schedule


@DECAYS.register
def cosine_annealing(
  phase: Phase, *, floor: BelowOne = 0.0, share: Share = 0.5
) -> Schedule:
  """Half a cosine to the floor over the share, then up again, and so on.

  Args:
    floor: the lowest value.
    share: of the phase, for one way.

  Example: {'name': 'cosine_annealing', 'share': 0.25, 'floor': 0.5} over 100
  steps is 1 at 0, 0.5 at 25, 1 at 50, 0.5 at 75.

  Source: torch's CosineAnnealingLR, in closed form.
  """
  steps = share_steps(share, phase.steps)

  def schedule(count: ArrayLike) -> jax.Array:
    share = jnp.maximum(count, 0) / steps
    return between(1.0, floor, 0.5 * (1 + jnp.cos(jnp.pi * share)))

  return schedule
