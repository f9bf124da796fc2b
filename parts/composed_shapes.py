"""Shapes of several pieces: restarts, ways up and down, shapes of shapes.

As in `shapes`, values are shares of the cycle's peak and lengths shares of the
phase. Each piece counts from its own start.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from ..core.checks import check, check_choice, check_flag, check_number
from ..core.cycle import Phase, Schedule, Shape, as_written, between, scaled
from .shape_formulas import (
  FALLS,
  check_fall,
  check_list,
  check_periods,
  check_shapes,
  check_shares,
  falling,
  floor_steps,
  half_cosine,
  joined,
  share_steps,
  straight,
  whole_parts,
  whole_periods,
)

_MODES = ('triangular', 'triangular2', 'exp_range')
_ANNEALS = ('cosine', 'linear')


@dataclasses.dataclass(frozen=True)
class PiecewiseConstant:
  """values[i] from the share at[i - 1] on.

  `optax.piecewise_constant_schedule` takes factors instead, so that no value
  may be zero.

  Attributes:
    values: one more than there are changes.
    at: where the changes are.

  Example: PiecewiseConstant(values=(1, 0, 0.2), at=(0.29, 0.57)) over 100 steps
  is 1 at 28, 0 at 29, 0.2 at 57.

  Source: Cerebras' PiecewiseConstantLR.
  """

  values: tuple[float, ...] = (1.0, 0.5, 0.2)
  at: tuple[float, ...] = (0.4, 0.7)

  def __post_init__(self) -> None:
    values = check_list('values', self.values, '[0, inf)')
    object.__setattr__(self, 'values', values)
    object.__setattr__(self, 'at', check_shares('at', self.at))
    right = f'one more than the {len(self.at)} in at'
    check(len(values) == len(self.at) + 1, 'values', values, right)

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    constants = [optax.constant_schedule(value) for value in self.values]
    ends = [share_steps(share, phase.steps) for share in self.at]
    return optax.join_schedules(constants, ends)


@dataclasses.dataclass(frozen=True)
class CosineWarmRestarts:
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

  periods: int = 3
  multiplier: float = 1.0
  floor: float = 0.0

  def __post_init__(self) -> None:
    check_periods('periods', self.periods, 100)
    check_number('multiplier', self.multiplier, '[1, inf)')
    check_number('floor', self.floor, '[0, 1)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    lengths = [as_written(self.multiplier) ** i for i in range(self.periods)]
    total = sum(lengths)
    ends = [sum(lengths[: i + 1]) / total for i in range(self.periods)]
    parts = [n for n in whole_parts(ends, phase.steps) if n > 0]
    return joined([(half_cosine(1.0, self.floor, n), n) for n in parts])


@dataclasses.dataclass(frozen=True)
class Triangular:
  """Straight up from the floor and down to it, again and again.

  Attributes:
    periods: how many.
    rise: share of a period on the way up.
    floor: value at the start of each period.
    mode: 'triangular' always goes up to 1; in 'triangular2' the amplitude
      halves with each period; in 'exp_range' it is gamma^u of it.
    gamma: the last amplitude of 'exp_range'.

  Example: Triangular(periods=2, rise=0.2) over 100 steps is 0 at 0, 0.5 at 5, 1
  at 10, 0.5 at 30, 0 at 50.

  Source: Smith 2017, "Cyclical learning rates"; torch's and Cerebras' CyclicLR.
  """

  periods: int = 3
  rise: float = 0.5
  floor: float = 0.0
  mode: str = 'triangular'
  gamma: float = 0.1

  def __post_init__(self) -> None:
    check_periods('periods', self.periods, 100)
    check_number('rise', self.rise, '(0, 1)')
    check_number('floor', self.floor, '[0, 1)')
    check_choice('mode', self.mode, _MODES)
    check_number('gamma', self.gamma, '(0, 1]')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    period = Fraction(phase.steps, self.periods)
    rise = as_written(self.rise) * period
    up, down, whole = float(rise), float(period - rise), float(period)

    def share(count: ArrayLike) -> jax.Array:
      passed, rest = whole_periods(count, whole)
      amplitude = jnp.where(rest < up, rest / up, (whole - rest) / down)
      if self.mode == 'triangular2':
        amplitude *= jnp.exp2(-passed)
      elif self.mode == 'exp_range':
        # A factor per step to the power of 160,000 is off by 1 % in float32.
        slope = math.log(self.gamma) / phase.steps
        amplitude *= jnp.exp(slope * jnp.maximum(count, 0.0))
      return between(1.0, self.floor, amplitude)

    return share


@dataclasses.dataclass(frozen=True)
class OneCycle:
  """From the start up to 1 over the share `rise`, and down to the end.

  Attributes:
    start: value at the first step.
    end: value at the last step.
    rise: share of the phase on the way up.
    three_phase: come down to the start first, in as many steps as it took up.
    anneal: 'cosine' or 'linear', the form of each way.

  Example: OneCycle(rise=0.2, start=0.5, end=0.1) over 100 steps is 0.5 at 0,
  0.75 at 10, 1 at 20, 0.55 at 60, 0.1 at 100.

  Source: Smith and Topin 2018, "Super-convergence"; torch's OneCycleLR, whose n
  steps end at step n - 1. `optax.cosine_onecycle_schedule` differs from it by
  up to 1.6 % of the peak; Cerebras' rises again after the end.
  """

  start: float = 0.04
  end: float = 4e-6
  rise: float = 0.3
  three_phase: bool = False
  anneal: str = 'cosine'

  def __post_init__(self) -> None:
    check_number('start', self.start, '[0, 1]')
    check_number('end', self.end, '[0, 1]')
    check_flag('three_phase', self.three_phase)
    check_number('rise', self.rise, '(0, .5)' if self.three_phase else '(0, 1)')
    check_choice('anneal', self.anneal, _ANNEALS)

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    # Every way takes a step at least, be the phase ever so short.
    up = max(floor_steps(self.rise, phase.steps), 1)
    turns = [(0, self.start), (up, 1.0)]
    if self.three_phase:
      turns.append((2 * up, self.start))
    turns.append((max(phase.steps, 3), self.end))
    way = half_cosine if self.anneal == 'cosine' else straight
    return joined(
      [(way(a, b, t - s), t - s) for (s, a), (t, b) in zip(turns, turns[1:])]
    )


@dataclasses.dataclass(frozen=True)
class WSD:
  """Warm-up-stable-decay: 1, then down to the floor, before each checkpoint.

  The rate is back at 1 after a checkpoint, since a run goes on from the state
  before or after the decay.

  Attributes:
    checkpoints: how many; they are at 1 / 2^(n - 1), ..., 1/2 and 1.
    decay: share of the steps up to a checkpoint, from the one before, of the
      way down.
    fall: how it goes down, see `shape_formulas.falling`.
    floor: value at each checkpoint.

  Example: WSD(checkpoints=2) over 100 steps is 1 at 39, 0.5 at 45, 1 at 50, 0.5
  at 95, 0 at 100.

  Source: Wen et al. 2024 (WSD-S); pytorch-accelerated's WSDLrScheduler, which
  misplaces checkpoints and cannot go on from one.
  """

  checkpoints: int = 1
  decay: float = 0.2
  fall: str = 'linear'
  floor: float = 0.0

  def __post_init__(self) -> None:
    check_periods('checkpoints', self.checkpoints, 30)
    check_number('decay', self.decay, '(0, 1]')
    check_choice('fall', self.fall, FALLS)
    check_number('floor', self.floor, '[0, 1)')
    check_fall(self.fall, self.floor)

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    pieces: list[tuple[Schedule, int]] = []
    for steps, down in self.periods(phase.steps):
      pieces.append((optax.constant_schedule(1.0), steps - down))
      if down > 0:
        fall = falling(1.0, self.floor, down, self.fall)
        pieces.append((fall, down))
    return joined(pieces)

  def periods(self, steps: int) -> list[tuple[int, int]]:
    """Steps up to each checkpoint, and how many of them, at their end, decay.

    Each decays over the floor of its share, but over one step at least if it
    has two. A checkpoint without steps is left out.
    """
    shares = [Fraction(1, 2**i) for i in reversed(range(self.checkpoints))]
    return [
      (n, max(floor_steps(self.decay, n), min(n - 1, 1)))
      for n in whole_parts(shares, steps)
      if n > 0
    ]


@dataclasses.dataclass(frozen=True)
class Sequential:
  """One shape after the other, each over its part and with its own peak.

  Attributes:
    shapes: in their order.
    at: where the second and the following begin.
    peaks: one per shape, or none for peaks of 1.

  Example: Sequential((Cosine(), Linear()), at=(0.6,), peaks=(1, 0.5)) over 100
  steps is 1 at 0, 0.5 at 30, 0.5 at 60, 0.25 at 80, 0 at 100.

  Source: torch's SequentialLR; `optax.join_schedules`.
  """

  shapes: tuple[Shape, ...]
  at: tuple[float, ...] = ()
  peaks: tuple[float, ...] = ()

  def __post_init__(self) -> None:
    object.__setattr__(self, 'shapes', check_shapes('shapes', self.shapes))
    object.__setattr__(self, 'at', check_shares('at', self.at))
    peaks = check_list('peaks', self.peaks, '(0, inf)')
    object.__setattr__(self, 'peaks', peaks)
    num = len(self.shapes)
    right = f'{num - 1} shares, one fewer than the shapes'
    check(len(self.at) == num - 1, 'at', self.at, right)
    right = f'{num} numbers, one per shape, or none for peaks of 1'
    check(len(peaks) in (0, num), 'peaks', peaks, right)

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    parts = whole_parts([*self.at, 1.0], phase.steps)
    peaks = self.peaks or (1.0,) * len(self.shapes)
    return joined(
      [
        (scaled(peak, shape.schedule(Phase(steps))), steps)
        for shape, peak, steps in zip(self.shapes, peaks, parts)
        if steps > 0
      ]
    )


@dataclasses.dataclass(frozen=True)
class Chained:
  """The product of the shapes, each over the whole phase.

  Attributes:
    shapes: the factors.

  Example: Chained((Linear(), Linear())) over 100 steps is 1 at 0, 0.25 at 50, 0
  at 100.

  Source: torch's ChainedScheduler, of factors.
  """

  shapes: tuple[Shape, ...]

  def __post_init__(self) -> None:
    object.__setattr__(self, 'shapes', check_shapes('shapes', self.shapes))

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    whole = Phase(phase.steps)
    factors: list[Schedule] = [s.schedule(whole) for s in self.shapes]
    return lambda count: math.prod(factor(count) for factor in factors)


@dataclasses.dataclass(frozen=True)
class Ratio:
  """For a weight decay: its ratio to the learning rate stays the same.

    weight decay = hparams.weight_decay * rate / peak rate

  Source: Defazio 2025, "Why gradients rapidly increase near the end of
  training".
  """

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`.

    Raises:
      ValueError: if it is not the shape of a weight decay.
    """
    if phase.rate is None:
      raise ValueError('Ratio() must be the weight_decay_shape of a cycle.')
    return phase.rate
