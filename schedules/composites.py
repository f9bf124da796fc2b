"""Shapes of several pieces: restarts, ways up and down, shapes of shapes.

As in `decays`, values are shares of the cycle's peak and lengths shares of the
phase. Each piece counts from its own start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Callable

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from ..settings.kinds import (
  AtLeastOne,
  BelowOne,
  Choice,
  CountTo,
  Flag,
  Fraction01,
  Inner,
  ListOf,
  NotNegative,
  Positive,
  Share,
  Shares,
)
from .decays import DECAYS, has_floor_to_fall_to
from .formulas import (
  Fall,
  between,
  falling,
  half_cosine,
  joined,
  scaled,
  straight,
  whole_periods,
)
from .phase import Phase, Schedule, as_written, floor_steps, share_steps

Shapes = ListOf(DECAYS.as_kind(), 'a list of at least one shape', least=1)
Mode = Choice('triangular', 'triangular2', 'exp_range')
Anneal = Choice('cosine', 'linear')


def _one_more(longer: str, shorter: str) -> Callable[[Mapping[str, Any]], str]:
  def check(p: Mapping[str, Any]) -> str:
    if len(p[longer]) == len(p[shorter]) + 1:
      return ''
    return (
      f'{longer} has {len(p[longer])} entries and {shorter} {len(p[shorter])}; '
      f'{longer} must have one more than {shorter}'
    )

  return check


@DECAYS.register(check=_one_more('values', 'at'))
def piecewise_constant(
  phase: Phase,
  *,
  values: ListOf(NotNegative) = (1.0, 0.5, 0.2),
  at: Shares = (0.4, 0.7),
) -> Schedule:
  """values[i] from the share at[i - 1] on.

  `optax.piecewise_constant_schedule` takes factors instead, so that no value
  may be zero.

  Args:
    values: one more than there are changes.
    at: where the changes are.

  Example: {'name': 'piecewise_constant', 'values': [1, 0, 0.2], 'at': [0.29,
  0.57]} over 100 steps is 1 at 28, 0 at 29, 0.2 at 57.

  Source: Cerebras' PiecewiseConstantLR.
  """
  constants = [optax.constant_schedule(value) for value in values]
  ends = [share_steps(share, phase.steps) for share in at]
  return optax.join_schedules(constants, ends)


@DECAYS.register
def cosine_warm_restarts(
  phase: Phase,
  *,
  periods: CountTo(100) = 3,
  multiplier: AtLeastOne = 1.0,
  floor: BelowOne = 0.0,
) -> Schedule:
  """Half cosines to the floor, each `multiplier` times as long as the last.

  Args:
    periods: how many.
    multiplier: 1 makes them equal.
    floor: the end of each.

  Example: {'name': 'cosine_warm_restarts', 'periods': 2, 'multiplier': 3} over
  100 steps is 1 at 0, 1 at 25, 0.5 at 62.5, 0 at 100.

  Source: Loshchilov and Hutter 2017, "SGDR"; `optax.sgdr_schedule` without
  warm-ups.
  """
  lengths = [as_written(multiplier) ** i for i in range(periods)]
  ends = [sum(lengths[: i + 1]) / sum(lengths) for i in range(periods)]
  parts = [n for n in _whole_parts(ends, phase.steps) if n > 0]
  return joined([(half_cosine(1.0, floor, n), n) for n in parts])


def _whole_parts(shares: Sequence[Fraction | float], steps: int) -> list[int]:
  """Whole steps of the parts that end at the given shares."""
  ends = [floor_steps(share, steps) for share in shares]
  return [end - start for start, end in zip([0, *ends], ends)]


@DECAYS.register
def cyclic(
  phase: Phase,
  *,
  periods: CountTo(100) = 3,
  rise: Inner = 0.5,
  floor: BelowOne = 0.0,
  mode: Mode = 'triangular',
  gamma: Share = 0.1,
) -> Schedule:
  """Straight up from the floor and down to it, again and again.

  Args:
    periods: how many.
    rise: share of a period on the way up.
    floor: value at the start of each period.
    mode: 'triangular' always goes up to 1; in 'triangular2' the amplitude
      halves with each period; in 'exp_range' it is gamma^u of it.
    gamma: the last amplitude of 'exp_range'.

  Example: {'name': 'cyclic', 'periods': 2, 'rise': 0.2} over 100 steps is 0 at
  0, 0.5 at 5, 1 at 10, 0.5 at 30, 0 at 50.

  Source: Smith 2017, "Cyclical learning rates"; torch's and Cerebras' CyclicLR.
  """
  period = Fraction(phase.steps, periods)
  up = as_written(rise) * period
  up, down, whole = float(up), float(period - up), float(period)

  def schedule(count: ArrayLike) -> jax.Array:
    passed, rest = whole_periods(count, whole)
    amplitude = jnp.where(rest < up, rest / up, (whole - rest) / down)
    if mode == 'triangular2':
      amplitude *= jnp.exp2(-passed)
    elif mode == 'exp_range':
      # A factor per step to the power of 160,000 is off by 1 % in float32.
      slope = math.log(gamma) / phase.steps
      amplitude *= jnp.exp(slope * jnp.maximum(count, 0.0))
    return between(1.0, floor, amplitude)

  return schedule


def _has_way_down(p: Mapping[str, Any]) -> str:
  if p['three_phase'] and p['rise'] >= 0.5:
    return 'rise must be below 0.5 with three_phase, which uses it twice'
  return ''


@DECAYS.register(check=_has_way_down)
def one_cycle(
  phase: Phase,
  *,
  start: Fraction01 = 0.04,
  end: Fraction01 = 4e-6,
  rise: Inner = 0.3,
  three_phase: Flag = False,
  anneal: Anneal = 'cosine',
) -> Schedule:
  """From the start up to 1 over the share `rise`, and down to the end.

  Args:
    start: value at the first step.
    end: value at the last step.
    rise: share of the phase on the way up.
    three_phase: come down to the start first, in as many steps as it took up.
    anneal: 'cosine' or 'linear', the form of each way.

  Example: {'name': 'one_cycle', 'rise': 0.2, 'start': 0.5, 'end': 0.1} over 100
  steps is 0.5 at 0, 0.75 at 10, 1 at 20, 0.55 at 60, 0.1 at 100.

  Source: Smith and Topin 2018, "Super-convergence"; torch's OneCycleLR, whose n
  steps end at step n - 1. `optax.cosine_onecycle_schedule` differs from it by
  up to 1.6 % of the peak; Cerebras' rises again after the end.
  """
  # Every way takes a step at least, be the phase ever so short.
  up = max(floor_steps(rise, phase.steps), 1)
  turns = [(0, start), (up, 1.0)]
  if three_phase:
    turns.append((2 * up, start))
  turns.append((max(phase.steps, 3), end))
  way = half_cosine if anneal == 'cosine' else straight
  return joined(
    [(way(a, b, t - s), t - s) for (s, a), (t, b) in zip(turns, turns[1:])]
  )


@DECAYS.register(check=has_floor_to_fall_to)
def wsd(
  phase: Phase,
  *,
  checkpoints: CountTo(30) = 1,
  decay: Share = 0.2,
  fall: Fall = 'linear',
  floor: BelowOne = 0.0,
) -> Schedule:
  """Warm-up-stable-decay: 1, then down to the floor, before each checkpoint.

  The rate is back at 1 after a checkpoint, since a run goes on from the state
  before or after the decay.

  Args:
    checkpoints: how many; they are at 1 / 2^(n - 1), ..., 1/2 and 1.
    decay: share of the steps up to a checkpoint, from the one before, of the
      way down.
    fall: how it goes down, see `formulas.falling`.
    floor: value at each checkpoint.

  Example: {'name': 'wsd', 'checkpoints': 2} over 100 steps is 1 at 39, 0.5 at
  45, 1 at 50, 0.5 at 95, 0 at 100.

  Source: Wen et al. 2024 (WSD-S); pytorch-accelerated's WSDLrScheduler, which
  misplaces checkpoints and cannot go on from one.
  """
  pieces = []
  for steps, down in wsd_periods(phase.steps, checkpoints, decay):
    pieces.append((optax.constant_schedule(1.0), steps - down))
    if down > 0:
      pieces.append((falling(1.0, floor, down, fall), down))
  return joined(pieces)


def wsd_periods(
  steps: int, checkpoints: int, decay: float
) -> list[tuple[int, int]]:
  """Steps up to each checkpoint, and how many of them, at their end, decay.

  Each decays over the floor of its share, but over one step at least if it has
  two. A checkpoint without steps is left out.
  """
  shares = [Fraction(1, 2**i) for i in reversed(range(checkpoints))]
  return [
    (n, max(floor_steps(decay, n), min(n - 1, 1)))
    for n in _whole_parts(shares, steps)
    if n > 0
  ]


def _is_sequence(p: Mapping[str, Any]) -> str:
  wrong = _one_more('shapes', 'at')(p)
  if not wrong and p['peaks'] and len(p['peaks']) != len(p['shapes']):
    return 'peaks must have one entry per shape, or none for peaks of 1'
  return wrong


@DECAYS.register(check=_is_sequence)
def sequential(
  phase: Phase,
  *,
  shapes: Shapes,
  at: Shares = (),
  peaks: ListOf(Positive) = (),
) -> Schedule:
  """One shape after the other, each over its part and with its own peak.

  Args:
    shapes: in their order.
    at: where the second and the following begin.
    peaks: one per shape, or none for peaks of 1.

  Example: {'name': 'sequential', 'shapes': ['cosine', 'linear'], 'at': [0.6],
  'peaks': [1, 0.5]} over 100 steps is 1 at 0, 0.5 at 30, 0.5 at 60, 0.25 at 80,
  0 at 100.

  Source: torch's SequentialLR; `optax.join_schedules`.
  """
  parts = _whole_parts([*at, 1.0], phase.steps)
  peaks = peaks or (1.0,) * len(shapes)
  return joined(
    [
      (scaled(peak, DECAYS.make(shape, Phase(steps))), steps)
      for shape, peak, steps in zip(shapes, peaks, parts)
      if steps > 0
    ]
  )


@DECAYS.register
def chained(phase: Phase, *, shapes: Shapes) -> Schedule:
  """The product of the shapes, each over the whole phase.

  Args:
    shapes: the factors.

  Example: {'name': 'chained', 'shapes': ['linear', 'linear']} over 100 steps is
  1 at 0, 0.25 at 50, 0 at 100.

  Source: torch's ChainedScheduler, of factors.
  """
  schedules = [DECAYS.make(shape, Phase(phase.steps)) for shape in shapes]
  return lambda count: math.prod(schedule(count) for schedule in schedules)
