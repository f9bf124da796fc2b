"""Schedules of one formula that optax lacks, as optax schedules.

Each function returns a map from a step count, whole or fractional, traced or
not, to a value. Lengths are in steps and need not be whole numbers. Counts
below zero read as zero. Chains of several pieces are in `schedule_chains`.

A value may be read by two compiled programs, the static chain and the cycle
clock, and has to be the same to the last bit. Hence two rules:

- Nothing is added to a bare product. A compiler may contract a * b + c to one
  operation with one rounding, and does so in one program and not in another;
  `rounded` prevents it.
- No quotient decides where a jump is. Compilers replace a division by a
  constant by a product with its reciprocal: floor(7 * 115 / 115) is then 6, as
  in `optax.exponential_decay(staircase=True)`. A remainder is exact.

Sources: the PyTorch, Keras, Cerebras and pytorch-accelerated schedulers of
these names; each function says where it differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import jax.numpy as jnp
import numpy as np
import optax

Schedule = Callable[[Any], Any]

FALLS = ('linear', 'sqrt', 'inverse')

_LARGEST = float(np.finfo(np.float32).max)


def rounded(product: Any) -> Any:
  """The product as it is, rounded before anything is added to it.

  Clipping to the largest floats changes nothing, and no compiler can know that.
  Of a product whose sign it knows, it drops one of the two bounds.
  """
  return jnp.clip(product, -_LARGEST, _LARGEST)


def between(init_value: float, end_value: float, share_left: Any) -> Any:
  """end_value + (init_value - end_value) * share_left, with two roundings."""
  return end_value + rounded((init_value - end_value) * share_left)


def scaled(factor: float, schedule: Schedule) -> Schedule:
  """factor * schedule."""
  return lambda count: factor * schedule(count)


def share_of(count: Any, steps: float) -> Any:
  """count / steps, at least 0 and at most 1."""
  return jnp.clip(count / steps, 0.0, 1.0)


def whole_periods(count: Any, period: float) -> tuple[Any, Any]:
  """How many periods have passed, and the steps since the last one.

  Exact if float32 holds the period; `ends_passed` is for others.
  """
  count = jnp.maximum(jnp.asarray(count, jnp.float32), 0.0)
  rest = jnp.fmod(count, jnp.float32(period))
  return jnp.round((count - rest) / period), rest


def ends_passed(ends: Sequence[float], count: Any, side: str) -> Any:
  """How many of some steps have been passed, compared one by one.

  Args:
    ends: shape=(n,), ascending.
    count: the step.
    side: 'right' counts an end that is just reached, 'left' does not.
  """
  return jnp.searchsorted(
    jnp.asarray(ends, jnp.float32),
    jnp.asarray(count, jnp.float32),
    side=side,
    method='compare_all',
  )


def share_left(count: Any, steps: Any) -> Any:
  """1 - count / steps between 0 and 1, and no more than 0 at the end.

  A quotient of the difference: compilers make a product of a division by a
  constant, and 1 - 41 * (1 / 41) is 2^-24, whose tenth root is 0.19.
  """
  return jnp.clip(steps - count, 0.0, steps) / steps


def polynomial_schedule(
  init_value: float,
  end_value: float,
  power: float,
  transition_steps: float,
  cycle: bool = False,
) -> Schedule:
  """end + (init - end) * (1 - t / N)^power, as optax has it.

  Written out here, since optax's own form adds to a product twice, and does not
  reach the end value in a compiled program if the power is below 1.

  Args:
    init_value: value at t = 0. It may be the lower one: a warm-up.
    end_value: value from t = N on.
    power: 1 is a straight line.
    transition_steps: N, steps.
    cycle: go on from t = N with N twice as large, and so on, as Keras'
      PolynomialDecay does. (Cerebras' PolynomialLR takes the argument and
      ignores it.)
  """

  def schedule(count):
    steps = transition_steps
    if cycle:
      whole, rest = whole_periods(count, transition_steps)
      steps = transition_steps * jnp.maximum(whole + (rest > 0), 1.0)
    return between(init_value, end_value, share_left(count, steps) ** power)

  return schedule


def cosine_schedule(
  init_value: float, end_value: float, decay_steps: float
) -> Schedule:
  """end + (init - end) * (1 + cos(pi * t / N)) / 2, then the end value.

  `optax.cosine_decay_schedule`, with the end value added here for the reason
  that the module gives.
  """
  unit = optax.cosine_decay_schedule(1.0, decay_steps)
  return lambda count: between(
    init_value, end_value, unit(jnp.maximum(count, 0))
  )


def cosine_annealing_schedule(
  init_value: float, end_value: float, half_period: float
) -> Schedule:
  """end + (init - end) * (1 + cos(pi * t / N)) / 2, rising again after N.

  Torch's CosineAnnealingLR(T_max=N), in closed form.
  """

  def schedule(count):
    share = jnp.maximum(count, 0) / half_period
    return between(init_value, end_value, 0.5 * (1 + jnp.cos(jnp.pi * share)))

  return schedule


def k_decay_cosine_schedule(
  init_value: float, end_value: float, decay_steps: float, k: float
) -> Schedule:
  """end + (init - end) * (1 + cos(pi * (t / N)^k)) / 2, then the end value.

  k = 1 is the cosine; a larger k stays near the initial value for longer.
  `optax.cosine_decay_schedule(exponent=...)` is something else: there, the
  cosine is raised to a power.

  Source: Zhang and Li 2020, "k-decay: a new method for learning rate
  schedule"; pytorch-accelerated's CosineLrScheduler, whose cosine ends
  too early by the steps of the warm-up.
  """

  def schedule(count):
    share = share_of(count, decay_steps) ** k
    return between(init_value, end_value, 0.5 * (1 + jnp.cos(jnp.pi * share)))

  return schedule


def exponential_schedule(
  init_value: float,
  transition_steps: float,
  decay_rate: float,
  staircase: bool = False,
) -> Schedule:
  """init * rate^(t / N), or rate^floor(t / N): `optax.exponential_decay`.

  The staircase is climbed on exact numbers of whole periods; as an option of
  optax's it is up to a step late in a compiled program.
  """
  if not staircase:
    return optax.exponential_decay(init_value, transition_steps, decay_rate)
  steps = optax.exponential_decay(init_value, 1, decay_rate)
  return lambda count: steps(whole_periods(count, transition_steps)[0])


def inverse_time_schedule(
  init_value: float,
  transition_steps: float,
  decay_rate: float,
  exponent: float = 1.0,
  staircase: bool = False,
) -> Schedule:
  """init / (1 + rate * t^exponent / N), or the floor of that quotient.

  Cerebras' InverseExponentialTimeDecayLR; with exponent 1 Keras'
  InverseTimeDecay.
  """

  # The power of a quotient: that of a count may be too large for float32.
  scale = transition_steps ** (1.0 / exponent)

  def schedule(count):
    count = jnp.maximum(count, 0.0)
    periods = (
      whole_periods(count**exponent, transition_steps)[0]
      if staircase
      else (count / scale) ** exponent
    )
    return inverse_time(init_value, decay_rate, periods)

  return schedule


def inverse_time(init_value: float, decay_rate: float, periods: Any) -> Any:
  """init / (1 + rate * periods)."""
  return init_value / (1.0 + rounded(decay_rate * periods))


def inverse_power_schedule(
  init_value: float, hold_steps: float, exponent: float = 0.5
) -> Schedule:
  """init * (h / max(t, h))^exponent: constant for h steps, then a power law.

  With exponent 1/2 the inverse square root of Vaswani et al. 2017; Cerebras'
  InverseSquareRootDecayLR(initial, scale, warmup_steps=h) has the initial value
  initial * scale / sqrt(h).
  """
  return lambda count: (
    init_value * (hold_steps / jnp.maximum(count, hold_steps)) ** exponent
  )


def fall_schedule(
  init_value: float, end_value: float, decay_steps: float, kind: str
) -> Schedule:
  """How a stable rate comes down: over N steps, then the end value.

  With r = t / N:
    linear   end + (init - end) * (1 - r)
    sqrt     end + (init - end) * (1 - sqrt(r))
    inverse  1 / (r / end + (1 - r) / init)

  Sources: linear and sqrt, Hägele et al. 2024, "Scaling laws and
  compute-optimal training beyond fixed training durations"; inverse, Wen et al.
  2024, "Understanding warmup-stable-decay learning rates".

  Raises:
    ValueError: for an unknown kind, or an inverse fall to zero, which has no
      limit but a jump.
  """
  if kind not in FALLS:
    raise ValueError(f'kind={kind!r}: kind must be one of {", ".join(FALLS)}.')
  if kind == 'inverse' and not end_value > 0:
    raise ValueError(
      f'end_value={end_value!r}: end_value must be above 0 for an inverse fall, '
      'whose rate is the inverse of a straight line between the inverse ends.'
    )

  def schedule(count):
    share = share_of(count, decay_steps)
    if kind == 'inverse':
      ratio = init_value / end_value
      return init_value / (rounded(ratio * share) + (1.0 - share))
    left = 1.0 - (jnp.sqrt(share) if kind == 'sqrt' else share)
    return between(init_value, end_value, left)

  return schedule
