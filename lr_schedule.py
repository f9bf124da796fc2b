"""Learning-rate cycles: shapes of phases, one cycle, the chain of cycles.

A cycle is a warm-up joined to a decay; a run is a chain of cycles (thesis
chapter 2.3 and section 3.1). `jax_lr_schedule` is the static chain, fixed before
the run; `cycle_clock` reads the same cycles in a run that may leave them early.

Every phase has the thesis' signature `(step_hint, hyperparameters,
alter_lr_by, alter_warmup_by)`, where `step_hint` is the length of the cycle in
steps. With L = step_hint:

  peak = learning_rate + alter_lr_by
  W    = floor((warmup_factor + alter_warmup_by) * L)

A decay counts its steps from the end of the warm-up. Counts may be fractional.

No phase adds to a product. Compilers contract a * b + c in one program and not
in another, and a phase read by the static chain and by the cycle clock would
differ in its last bits; `optax.linear_schedule` is such a form, and its first
steps of a warm-up are off by up to W / 2 ulps as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Callable

import jax.numpy as jnp
import optax

Schedule = Callable[[Any], Any]
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


def horizon_steps(step_hint: int, schedule_params: Any) -> int:
  """Steps that the whole chain is planned for: budget_factor * step_hint.

  Raises:
    ValueError: if there are more cycles than steps.
  """
  horizon = floor_steps(as_written(schedule_params.budget_factor), step_hint)
  if horizon < schedule_params.num_cycles:
    raise ValueError(
      f'{schedule_params.num_cycles} cycles do not fit into {horizon} steps '
      f'(budget_factor={schedule_params.budget_factor} * '
      f'step_hint={step_hint}): at least one step per cycle is needed.'
    )
  return horizon


def cycle_ends(
  start: int, horizon: int, lengths: Sequence[float]
) -> tuple[int, ...]:
  """Splits the steps from start to horizon over cycles.

  Each cycle in turn takes the ceiling of its share of what is left, so that
  equal cycles differ by at most one step, the longer ones first, and a plan
  made at any boundary of a plan is the rest of that plan.

  Args:
    start: first step of the first cycle.
    horizon: first step after the last cycle.
    lengths: relative length of each cycle (any unit).

  Returns:
    For each cycle the first step after it. The last one is the horizon.
  """
  shares = [as_written(length) for length in lengths]
  ends = []
  for i, share in enumerate(shares):
    start += math.ceil((horizon - start) * share / sum(shares[i:]))
    ends.append(start)
  return tuple(ends)


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


def combine_warmup_decay_fn(
  step_hint: int,
  hyperparameters: Any,
  warmup_fn: PhaseFn,
  decay_fn: PhaseFn,
  alter_lr_by: float,
  alter_warmup_by: float,
) -> Schedule:
  """One cycle: the warm-up for W steps, then the decay.

  Args:
    step_hint: length of the cycle, steps.
    hyperparameters: has learning_rate and warmup_factor (a fraction).
    warmup_fn: one of WARMUPS.
    decay_fn: one of DECAYS.
    alter_lr_by: added to learning_rate for this cycle.
    alter_warmup_by: added to warmup_factor for this cycle.

  Returns:
    An optax schedule over the steps of the cycle.

  Source: thesis, section 3.1.
  """
  if warmup_fn is no_warmup_fn:
    alter_warmup_by = -hyperparameters.warmup_factor
  phase = (step_hint, hyperparameters, alter_lr_by, alter_warmup_by)
  warmup = warmup_steps(step_hint, hyperparameters, alter_warmup_by)
  if warmup == 0:
    return decay_fn(*phase)
  return optax.join_schedules([warmup_fn(*phase), decay_fn(*phase)], [warmup])


def cycle_lengths(step_hint: int, schedule_params: Any) -> tuple[int, ...]:
  """Steps of each cycle when nothing is switched.

  Raises:
    ValueError: if a cycle would get no step.
  """
  horizon = horizon_steps(step_hint, schedule_params)
  ends = cycle_ends(0, horizon, schedule_params.lengths)
  steps = tuple(end - start for start, end in zip((0,) + ends, ends))
  if 0 in steps:
    raise ValueError(
      f'lengths={schedule_params.lengths}: over {horizon} steps the cycles get '
      f'{", ".join(map(str, steps))} of them, and each needs at least one.'
    )
  return steps


def cycle_schedules(
  step_hint: int, hyperparameters: Any, schedule_params: Any
) -> list[Schedule]:
  """Each cycle's schedule over its own steps, when nothing is switched.

  Raises:
    ValueError: if a cycle would get no step.
  """
  return [
    combine_warmup_decay_fn(
      length, hyperparameters, WARMUPS[warmup], DECAYS[decay], lr, factor
    )
    for length, warmup, decay, lr, factor in zip(
      cycle_lengths(step_hint, schedule_params),
      schedule_params.warmups,
      schedule_params.decays,
      schedule_params.alter_lr,
      schedule_params.alter_warmup,
    )
  ]


def jax_lr_schedule(
  step_hint: int, hyperparameters: Any, schedule_params: Any
) -> tuple[Schedule, bool, tuple[int, ...]]:
  """The static chain: what the learning rate is when nothing is switched.

  Args:
    step_hint: the workload's step_hint, steps; the chain lasts
      budget_factor * step_hint of them.
    hyperparameters: has learning_rate and warmup_factor.
    schedule_params: a ScheduleParams, which has refused lists of different
      lengths when it was made.

  Returns:
    The schedule (step -> learning rate), whether there is more than one cycle
    (has_multiple), and the steps at which a new cycle starts (reinit_steps).
    The end of the run is not among them: there, the thesis reset a finished
    model to noise.

  Raises:
    ValueError: if a cycle would get no step.

  Source: thesis, section 3.1 and figure 3.2.
  """
  schedules = cycle_schedules(step_hint, hyperparameters, schedule_params)
  horizon = horizon_steps(step_hint, schedule_params)
  reinit_steps = cycle_ends(0, horizon, schedule_params.lengths)[:-1]
  chain = optax.join_schedules(schedules, list(reinit_steps))
  return chain, len(schedules) > 1, reinit_steps
