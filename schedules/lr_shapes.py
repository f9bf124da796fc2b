"""Shapes of the phases of a cycle: warm-ups and decays.

Every phase has the thesis' signature `(step_hint, hyperparameters,
alter_lr_by, alter_warmup_by)`, where `step_hint` is the length of the cycle in
steps, and returns an optax schedule over the steps of the phase. With
L = step_hint:

  peak = learning_rate + alter_lr_by
  W    = floor((warmup_factor + alter_warmup_by) * L)

A decay counts its steps from the end of the warm-up. Counts may be fractional.

No phase adds to a product. Compilers contract a * b + c in one program and not
in another, and a phase read by the static chain and by the cycle clock would
differ in its last bits; `optax.linear_schedule` is such a form, and its first
steps of a warm-up are off by up to W / 2 ulps as well.

Source: thesis, chapter 2.3 and section 3.1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Callable

import jax.numpy as jnp
import optax

from .formulas import Schedule

PhaseFn = Callable[[int, Any, float, float], Schedule]

# The exponential warm-up starts at this share of the peak, since it cannot start
# at zero. The share is our choice.
_EXPONENTIAL_WARMUP_START = 0.01

# The step decay drops by this factor at these shares of the decay phase, as in
# He et al. 2016, "Deep residual learning" (32k and 48k of 64k iterations).
_STEP_DECAY_FACTOR = 0.1
_STEP_DECAY_AT = (0.5, 0.75)


def as_written(number: float) -> Fraction:
  """The decimal number that was written, e.g. 1/10 for 0.1.

  Step counts are floors of products such as 0.29 * 100; in binary floating
  point that one is 28.999..., and a step would be lost.
  """
  return Fraction(repr(float(number)))


def floor_steps(factor: Fraction, steps: int) -> int:
  """floor(factor * steps), exactly."""
  return math.floor(factor * steps)


def warmup_steps(
  step_hint: int, hyperparameters: Any, alter_warmup_by: float
) -> int:
  """W, the steps of the warm-up in a cycle of step_hint steps."""
  factor = as_written(hyperparameters.warmup_factor) + as_written(
    alter_warmup_by
  )
  return floor_steps(factor, step_hint)


def _phase(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """Peak and W of a cycle."""
  peak = hyperparameters.learning_rate + alter_lr_by
  return peak, warmup_steps(step_hint, hyperparameters, alter_warmup_by)


def linear_warmup_fn(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """Straight line from 0 to the peak over W steps (the thesis' warm-up)."""
  peak, warmup = _phase(
    step_hint, hyperparameters, alter_lr_by, alter_warmup_by
  )
  return lambda count: peak * jnp.clip(count / max(warmup, 1), 0.0, 1.0)


def cosine_warmup_fn(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """peak * (1 - cos(pi * t / W)) / 2: the cosine decay upside down."""
  peak, warmup = _phase(
    step_hint, hyperparameters, alter_lr_by, alter_warmup_by
  )

  def schedule(count):
    share = jnp.clip(count / max(warmup, 1), 0.0, 1.0)
    return 0.5 * peak * (1.0 - jnp.cos(jnp.pi * share))

  return schedule


def exponential_warmup_fn(
  step_hint, hyperparameters, alter_lr_by, alter_warmup_by
):
  """peak * 0.01^(1 - t / W): a constant factor per step, from 1 % of the peak."""
  peak, warmup = _phase(
    step_hint, hyperparameters, alter_lr_by, alter_warmup_by
  )
  return optax.exponential_decay(
    _EXPONENTIAL_WARMUP_START * peak,
    max(warmup, 1),
    1.0 / _EXPONENTIAL_WARMUP_START,
    end_value=peak,
  )


def no_warmup_fn(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """No warm-up: W = 0 whatever the warm-up factor, the decay begins at once."""
  peak, _ = _phase(step_hint, hyperparameters, alter_lr_by, alter_warmup_by)
  return optax.constant_schedule(peak)


def cosine_decay_fn(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """Half a cosine from the peak to 0 over max(L - W, 1) steps (thesis)."""
  peak, warmup = _phase(
    step_hint, hyperparameters, alter_lr_by, alter_warmup_by
  )
  return optax.cosine_decay_schedule(peak, max(step_hint - warmup, 1))


def exponential_decay_fn(
  step_hint, hyperparameters, alter_lr_by, alter_warmup_by
):
  """Peak for W + 0.2 L steps, then a factor of 0.1 per 0.6 L steps (thesis)."""
  peak, warmup = _phase(
    step_hint, hyperparameters, alter_lr_by, alter_warmup_by
  )
  return optax.exponential_decay(
    peak,
    0.6 * step_hint,
    0.1,
    transition_begin=warmup + 0.2 * step_hint,
  )


def linear_decay_fn(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """Peak for W + 0.2 L steps, then to 0 over 0.8 L - 2 W steps (thesis)."""
  peak, warmup = _phase(
    step_hint, hyperparameters, alter_lr_by, alter_warmup_by
  )
  hold, fall = warmup + 0.2 * step_hint, 0.8 * step_hint - 2 * warmup

  def schedule(count):
    return peak * ((fall - jnp.clip(count - hold, 0.0, fall)) / fall)

  return schedule


def step_decay_fn(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """Peak, a tenth of it from 50 % and a hundredth from 75 % of L - W steps."""
  peak, warmup = _phase(
    step_hint, hyperparameters, alter_lr_by, alter_warmup_by
  )
  decay_steps = step_hint - warmup
  return optax.piecewise_constant_schedule(
    peak, {share * decay_steps: _STEP_DECAY_FACTOR for share in _STEP_DECAY_AT}
  )


def constant_decay_fn(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
  """The peak throughout."""
  peak, _ = _phase(step_hint, hyperparameters, alter_lr_by, alter_warmup_by)
  return optax.constant_schedule(peak)


WARMUPS: dict[str, PhaseFn] = {
  'linear': linear_warmup_fn,
  'cosine': cosine_warmup_fn,
  'exponential': exponential_warmup_fn,
  'none': no_warmup_fn,
}
DECAYS: dict[str, PhaseFn] = {
  'cosine': cosine_decay_fn,
  'exponential': exponential_decay_fn,
  'linear': linear_decay_fn,
  'step': step_decay_fn,
  'constant': constant_decay_fn,
}
# Exclusive upper bound of W / L for the decays that hold the peak for another
# W + 0.2 L steps after the warm-up: 2 W + 0.2 L < L, or nothing would decay.
HOLDING_DECAYS: dict[str, float] = {'exponential': 0.4, 'linear': 0.4}
