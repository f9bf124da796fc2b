"""Schedules of several pieces that optax lacks, as optax schedules.

The pieces are joined by `optax.join_schedules`, in which each piece counts from
its own start. As in `schedules`, lengths are in steps, whole or not, and values
are the same to the last bit in all compiled programs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable

import jax.numpy as jnp
import numpy as np
import optax

from .formulas import (
  Schedule,
  between,
  cosine_schedule,
  fall_schedule,
  polynomial_schedule,
  whole_periods,
)

CYCLIC_MODES = ('triangular', 'triangular2', 'exp_range')
ANNEALS = ('cosine', 'linear')


def joined(pieces: Sequence[tuple[Schedule, float]]) -> Schedule:
  """Pieces of (schedule, steps) in turn; the last one goes on for ever."""
  schedules, steps = zip(*pieces)
  return optax.join_schedules(list(schedules), np.cumsum(steps[:-1]).tolist())


def piecewise_constant_schedule(
  values: Sequence[float], boundaries: Sequence[float]
) -> Schedule:
  """values[i] from boundaries[i - 1] on; they may be zero.

  `optax.piecewise_constant_schedule` takes factors instead.
  """
  constants = [optax.constant_schedule(value) for value in values]
  return optax.join_schedules(constants, list(boundaries))


def chained_schedule(schedules: Sequence[Schedule]) -> Schedule:
  """The product of schedules: torch's ChainedScheduler, of factors."""
  return lambda count: math.prod(schedule(count) for schedule in schedules)


def multiplicative_schedule(
  init_value: float, factor_fn: Callable[[int], float], steps: int
) -> Schedule:
  """init * f(1) * f(2) * ... * f(t), as torch's MultiplicativeLR.

  Args:
    init_value: value at t = 0.
    factor_fn: called once per step, now, with a Python int.
    steps: how many factors there are; the value stays as it is after them, and
      between whole steps.

  Raises:
    ValueError: if the product does not stay finite.
  """
  factors = [float(factor_fn(t)) for t in range(1, steps + 1)]
  with np.errstate(over='ignore', invalid='ignore'):
    table = np.cumprod([init_value, *factors]).astype(np.float32)
  if not np.all(np.isfinite(table)):
    raise ValueError(
      f'factor_fn={factor_fn!r}: factor_fn must keep the product of its values '
      f'finite over {steps} steps.'
    )

  def schedule(count):
    whole = jnp.floor(jnp.asarray(count, jnp.float32)).astype(jnp.int32)
    return jnp.asarray(table)[jnp.clip(whole, 0, steps)]

  return schedule


def cosine_warm_restarts_schedule(
  init_value: float, end_value: float, periods: Sequence[float]
) -> Schedule:
  """A cosine from the initial to the end value in each period.

  `optax.sgdr_schedule` without warm-ups; torch's CosineAnnealingWarmRestarts
  with T_0 = periods[0]. After the last period the end value stays.

  Source: Loshchilov and Hutter 2017, "SGDR".
  """
  return joined(
    [(cosine_schedule(init_value, end_value, n), n) for n in periods]
  )


def cyclic_schedule(
  base_value: float,
  max_value: float,
  up_steps: float,
  down_steps: float,
  mode: str = 'triangular',
  gamma: float = 1.0,
) -> Schedule:
  """Straight up and down between two values, again and again.

  Args:
    base_value: value at the start of each period.
    max_value: value after up_steps, in the first period.
    up_steps: steps of the way up.
    down_steps: steps of the way down.
    mode: 'triangular' always goes up to max_value; in 'triangular2' the
      amplitude halves with each period; in 'exp_range' it is gamma^t of it.
    gamma: factor per step of 'exp_range'.

  Source: Smith 2017, "Cyclical learning rates"; torch's and Cerebras' CyclicLR.

  Raises:
    ValueError: for an unknown mode.
  """
  if mode not in CYCLIC_MODES:
    modes = ', '.join(CYCLIC_MODES)
    raise ValueError(f'mode={mode!r}: mode must be one of {modes}.')

  def schedule(count):
    whole, rest = whole_periods(count, up_steps + down_steps)
    rising = rest / up_steps
    falling = (up_steps + down_steps - rest) / down_steps
    amplitude = jnp.where(rest < up_steps, rising, falling)
    if mode == 'triangular2':
      amplitude *= jnp.exp2(-whole)
    elif mode == 'exp_range':
      # As a power of a gamma near 1, that of float32 would be off by 1 % after
      # 160,000 steps.
      amplitude *= jnp.exp(math.log(gamma) * jnp.maximum(count, 0.0))
    return between(max_value, base_value, amplitude)

  return schedule


def one_cycle_schedule(
  init_value: float,
  max_value: float,
  end_value: float,
  rise_steps: float,
  total_steps: float,
  three_phase: bool = False,
  anneal: str = 'cosine',
) -> Schedule:
  """Up to the maximum and down to the end value, where it stays.

  Torch's OneCycleLR(pct_start=p, total_steps=n) has its maximum at step
  p * n - 1 and its end at n - 1. `optax.cosine_onecycle_schedule` differs from
  it by up to 1.6 % of the maximum; Cerebras' rises again after the end.

  Args:
    init_value: value at step 0.
    max_value: value at rise_steps.
    end_value: value from total_steps on.
    rise_steps: steps of the way up.
    total_steps: steps in all.
    three_phase: come down to init_value first, in as many steps as it took up.
    anneal: 'cosine' or 'linear', the shape of each way.

  Source: Smith and Topin 2018, "Super-convergence".

  Raises:
    ValueError: for an unknown shape, or ways that don't fit in.
  """
  if anneal not in ANNEALS:
    raise ValueError(
      f'anneal={anneal!r}: anneal must be one of {", ".join(ANNEALS)}.'
    )
  turns = [(0.0, init_value), (rise_steps, max_value)]
  if three_phase:
    turns.append((2 * rise_steps, init_value))
  if not 0 < rise_steps <= turns[-1][0] < total_steps:
    raise ValueError(
      f'rise_steps={rise_steps!r}: rise_steps must be above 0 and, '
      f'{"twice" if three_phase else "once"}, below {total_steps} total_steps.'
    )
  turns.append((total_steps, end_value))

  def way(start, end):
    steps = end[0] - start[0]
    if anneal == 'cosine':
      return cosine_schedule(start[1], end[1], steps), steps
    return polynomial_schedule(start[1], end[1], 1, steps), steps

  return joined([way(*pair) for pair in zip(turns, turns[1:])])


def wsd_schedule(
  stable_value: float,
  end_value: float,
  periods: Sequence[tuple[float, float]],
  kind: str = 'sqrt',
) -> Schedule:
  """Stable, then down to the end value, in each period: warm-up-stable-decay.

  A checkpoint is the end of a period. The rate is back at the stable value
  there, since the next period starts from the state before or after the decay;
  a continued run is one more period. The last end value stays.

  Args:
    stable_value: the rate of the stable parts.
    end_value: value at the end of each period.
    periods: steps of each period, and how many of them, at its end, decay.
    kind: one of schedules.FALLS.

  Source: Wen et al. 2024 (WSD-S); pytorch-accelerated's WSDLrScheduler, which
  misplaces checkpoints and cannot go on from one.
  """
  pieces = []
  for steps, decay_steps in periods:
    stable = optax.constant_schedule(stable_value)
    pieces.append((stable, steps - decay_steps))
    if decay_steps > 0:
      fall = fall_schedule(stable_value, end_value, decay_steps, kind)
      pieces.append((fall, decay_steps))
  return joined(pieces)


def geometric_periods(
  total_steps: int, num_checkpoints: int, decay_share: Any
) -> list[tuple[int, int]]:
  """Periods of `wsd_schedule` with checkpoints at total / 2^(n - 1), ..., total.

  Each decays over the floor of decay_share times its steps, but over one step
  at least if it has two.
  """
  ends = [
    total_steps // 2 ** (num_checkpoints - i)
    for i in range(1, num_checkpoints + 1)
  ]
  periods = [end - start for start, end in zip([0, *ends], ends)]
  return [
    (steps, max(math.floor(decay_share * steps), min(steps - 1, 1)))
    for steps in periods
  ]
