"""Shapes over a phase: from shares of the phase and of the peak to schedules.

Each function takes the steps of the phase first and then the parameters that
the registry names, and returns an optax schedule over those steps for a peak of
1. A share of the phase becomes an exact number of steps here: 0.29 of 100 steps
are 29. Where one piece follows another, it is a whole one: compilers fold two
subtractions of constants into one, and would round other boundaries in one
program as they do not in another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Callable, NamedTuple

import jax.numpy as jnp
import optax

from . import formulas as schedules
from . import lr_shapes, schedule_chains
from .formulas import Schedule, scaled
from .lr_shapes import as_written, floor_steps

# A shape within a shape: from the steps of its part to its schedule.
Part = Callable[[int], Schedule]

# Both of the thesis' holding decays hold for this share. In a chain the hold is
# of whole steps, like all pieces.
_THESIS_HOLD = Fraction(1, 5)
_MOST_STAIRS = 10_000


class _Unit(NamedTuple):
  """The hyperparameters that the thesis' phases read."""

  learning_rate: float = 1.0
  warmup_factor: float = 0.0


def of_thesis(phase_fn: lr_shapes.PhaseFn) -> Callable[[int], Schedule]:
  """One of the thesis' phases, for a peak of 1 and without a warm-up."""
  return lambda steps: phase_fn(steps, _Unit(), 0.0, 0.0)


def _multiples(share: float, steps: int) -> list[float]:
  """The ends of as many whole parts of the share as the phase has."""
  part = as_written(share) * steps
  return [float(i * part) for i in range(1, int(steps / part) + 1)]


def _steps(share: float, steps: int) -> float:
  return float(as_written(share) * steps)


def _whole_parts(shares: Sequence[Fraction], steps: int) -> list[int]:
  """Whole steps of parts that end at the given shares; none is empty."""
  ends = [floor_steps(share, steps) for share in shares]
  parts = [end - start for start, end in zip([0, *ends], ends)]
  return [part for part in parts if part > 0]


# Warm-ups.


def polynomial_warmup(steps, start, power):
  """start + (1 - start) * u^power, exact also where u is small."""

  def schedule(count):
    rise = schedules.share_of(count, steps) ** power
    return schedules.between(1.0, start, rise)

  return schedule


def linear_warmup(steps, start):
  """A straight line from start to 1."""
  return polynomial_warmup(steps, start, 1)


def cosine_warmup(steps, start):
  """Half a cosine from start to 1."""
  return schedules.cosine_schedule(start, 1.0, steps)


def exponential_warmup(steps, start):
  """start^(1 - u): a constant factor per step."""
  return optax.exponential_decay(start, steps, 1.0 / start, end_value=1.0)


# Decays of one formula.


def holding_exponential(steps):
  """The thesis' decay: 1 for 0.2 of the phase, then 0.1 per 0.6 of it."""
  hold = floor_steps(_THESIS_HOLD, steps)
  return optax.exponential_decay(1.0, 0.6 * steps, 0.1, transition_begin=hold)


def holding_linear(steps):
  """The thesis' decay: 1 for 0.2 of the phase, then straight down to 0."""
  hold = floor_steps(_THESIS_HOLD, steps)
  return lambda count: schedules.share_left(
    jnp.maximum(count - hold, 0.0), steps - hold
  )


def polynomial(steps, start, end, power, share, cycle):
  """end + (start - end) * (1 - u / share)^power, over whole steps."""
  ends = [max(math.floor(end), 1) for end in _multiples(share, steps)]
  if not cycle:
    return schedules.polynomial_schedule(start, end, power, ends[0])
  # The last period may end beyond the phase.
  ends.append(math.ceil((len(ends) + 1) * as_written(share) * steps))
  table = jnp.asarray(ends, jnp.float32)

  def schedule(count):
    passed = schedules.ends_passed(ends, count, 'left')
    length = table[jnp.minimum(passed, len(ends) - 1)]
    left = schedules.share_left(jnp.maximum(count, 0.0), length)
    return schedules.between(start, end, left**power)

  return schedule


def cosine(steps, floor):
  """Half a cosine from 1 to the floor."""
  return schedules.cosine_schedule(1.0, floor, steps)


def cosine_annealing(steps, floor, share):
  """Half a cosine to the floor over the share, then up again, and so on."""
  return schedules.cosine_annealing_schedule(1.0, floor, _steps(share, steps))


def k_decay_cosine(steps, k, floor, cooldown):
  """Half a cosine of (u / (1 - cooldown))^k to the floor, then the floor."""
  falling = float((1 - as_written(cooldown)) * steps)
  return schedules.k_decay_cosine_schedule(1.0, floor, falling, k)


def geometric(steps, factor, share, staircase):
  """factor^(u / share), or factor^floor(u / share)."""
  if not staircase:
    return optax.exponential_decay(1.0, _steps(share, steps), factor)
  ends, stairs = (
    _multiples(share, steps),
    optax.exponential_decay(1.0, 1, factor),
  )
  return lambda count: stairs(schedules.ends_passed(ends, count, 'right'))


def inverse_time(steps, rate, exponent, share, staircase):
  """1 / (1 + rate * (u / share)^exponent), or with the floor of that power."""
  length = _steps(share, steps)
  # More stairs than that are none that can be told from the curve.
  log_stairs = exponent * math.log(steps / length)
  is_stepped = staircase and log_stairs <= math.log(_MOST_STAIRS)
  if is_stepped and exponent == 1:
    ends = _multiples(share, steps)
  elif is_stepped:
    stairs = range(1, int(math.exp(log_stairs)) + 2)
    ends = [length * i ** (1 / exponent) for i in stairs]

  def schedule(count):
    periods = (
      schedules.ends_passed(ends, count, 'right')
      if is_stepped
      else (jnp.maximum(count, 0.0) / length) ** exponent
    )
    return schedules.inverse_time(1.0, rate, periods)

  return schedule


def inverse_power(steps, exponent, hold, cooldown, fall, floor):
  """(hold / max(u, hold))^exponent, then down to the floor in the cool-down."""
  power = schedules.inverse_power_schedule(1.0, _steps(hold, steps), exponent)
  if cooldown == 0:
    return power
  begin = floor_steps(1 - as_written(cooldown), steps)
  held = _steps(hold, steps)
  top = (held / max(begin, held)) ** exponent
  down = schedules.fall_schedule(top, floor, steps - begin, fall)
  return optax.join_schedules([power, down], [begin])


def step(steps, factor, at):
  """The factor once more from each share of the phase on."""
  return optax.piecewise_constant_schedule(
    1.0, {_steps(share, steps): factor for share in at}
  )


def piecewise_constant(steps, values, at):
  """values[i] from the share at[i - 1] on."""
  return schedule_chains.piecewise_constant_schedule(
    values, [_steps(share, steps) for share in at]
  )


def of_function(steps, function):
  """function(u), a Python function that JAX can trace.

  It may differ in the last bits between programs if it adds to a bare product;
  see `schedules.rounded`.
  """
  return lambda count: function(schedules.share_of(count, steps))


def multiplicative(steps, function):
  """function(1) * ... * function(t); it is called once per step, now."""
  return schedule_chains.multiplicative_schedule(1.0, function, steps)


# Chains.


def cosine_warm_restarts(steps, periods, multiplier, floor):
  """Cosines to the floor, each `multiplier` times as long as the last one."""
  lengths = [as_written(multiplier) ** i for i in range(periods)]
  ends = [sum(lengths[: i + 1]) / sum(lengths) for i in range(periods)]
  return schedule_chains.cosine_warm_restarts_schedule(
    1.0, floor, _whole_parts(ends, steps)
  )


def cyclic(steps, periods, rise, floor, mode, gamma):
  """Up and down `periods` times; gamma is the last amplitude of exp_range."""
  period = Fraction(steps, periods)
  up = as_written(rise) * period
  return schedule_chains.cyclic_schedule(
    floor, 1.0, float(up), float(period - up), mode, gamma ** (1 / steps)
  )


def one_cycle(steps, start, end, rise, three_phase, anneal):
  """From start up to 1 over the share `rise`, and down to the end."""
  # Every way takes a step at least, be the phase ever so short.
  up = max(floor_steps(as_written(rise), steps), 1)
  return schedule_chains.one_cycle_schedule(
    start, 1.0, end, up, max(steps, 3), three_phase, anneal
  )


def wsd(steps, checkpoints, decay, fall, floor):
  """Stable, then down to the floor, before each of the checkpoints."""
  periods = schedule_chains.geometric_periods(
    steps, checkpoints, as_written(decay)
  )
  return schedule_chains.wsd_schedule(
    1.0, floor, [period for period in periods if period[0] > 0], fall
  )


def chained(steps, shapes: Sequence[Part]):
  """The product of the shapes."""
  return schedule_chains.chained_schedule([shape(steps) for shape in shapes])


def sequential(
  steps: int,
  shapes: Sequence[Part],
  at: Sequence[float],
  peaks: Sequence[float],
):
  """One shape after the other, each over its part and with its own peak."""
  ends = [floor_steps(as_written(share), steps) for share in at] + [steps]
  peaks = peaks or (1.0,) * len(shapes)
  parts = []
  for shape, peak, start, end in zip(shapes, peaks, [0, *ends], ends):
    if end > start:
      parts.append((scaled(peak, shape(end - start)), end - start))
  return schedule_chains.joined(parts)
