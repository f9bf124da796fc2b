"""Averages of the weights, as wrappers around an optimizer.

The runner's parameters are the average: evaluations see it, and so do tau and
the switching rules. The raw weights, which are trained, lie in the optimizer's
state. A reset blends both with the fresh model, and takes the same share of the
average's weight away: steps of the replaced model do not slow down the new one.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from ..core.checks import check, check_count, check_number
from ..core.optimizers import Optimizer


@dataclasses.dataclass(frozen=True)
class _Average:
  """What both averages have: an inner optimizer, which steps at the raw weights."""

  inner: Optimizer  # one that evaluates the weights it trains

  iterates: ClassVar[tuple[str, ...]] = ('raw', 'weight_sum', 'snapshots')

  def __post_init__(self) -> None:
    is_object = hasattr(self.inner, 'build') and not isinstance(
      self.inner, type
    )
    right = 'an optimizer whose trained weights are evaluated, such as AdamW()'
    is_right = is_object and not self.inner.iterates
    check(is_right, 'inner', self.inner, right)

  @property
  def moments(self) -> tuple[str, ...]:
    """Those of the inner optimizer."""
    return self.inner.moments

  def gradient_point(self, state: Any, params: Any) -> Any:
    """The raw weights."""
    return self.inner.gradient_point(state.inner, state.raw)


class EMAState(NamedTuple):
  """The inner optimizer's state, and what it trains."""

  inner: Any
  weight_sum: jax.Array  # shape=(), dtype=float32; of the steps in the average
  raw: Any  # the parameters that are trained


@dataclasses.dataclass(frozen=True)
class EMA(_Average):
  """The exponential moving average of the weights is evaluated.

    w <- decay w + 1            average <- average + (raw - average) / w

  It is the mean of the weights of all steps, each by decay^age: no bias towards
  the first ones remains.

  Attributes:
    decay: factor on the weight of a step with each later one; 1 / (1 - decay)
      steps count.

  Source: Polyak and Juditsky 1992, "Acceleration of stochastic approximation by
  averaging", in the exponential form.
  """

  decay: float = 0.999

  def __post_init__(self) -> None:
    super().__post_init__()
    check_number('decay', self.decay, '[0, 1)')

  def build(self, rate: ArrayLike) -> optax.GradientTransformation:
    inner = self.inner.build(rate)

    def init(params: Any) -> EMAState:
      weight_sum = jnp.zeros([], jnp.float32)
      return EMAState(inner.init(params), weight_sum, _copied(params))

    def update(
      grads: Any, state: EMAState, params: Any
    ) -> tuple[Any, EMAState]:
      steps, after = inner.update(grads, state.inner, state.raw)
      raw = optax.apply_updates(state.raw, steps)
      weight_sum = self.decay * state.weight_sum + 1.0
      updates = jax.tree_util.tree_map(
        lambda new, average: (new - average) / weight_sum, raw, params
      )
      return updates, EMAState(after, weight_sum, raw)

    return optax.GradientTransformation(init, update)


class LAWAState(NamedTuple):
  """The inner optimizer's state, what it trains, and the last snapshots."""

  inner: Any
  count: Any  # shape=(), dtype=int32; steps taken
  weight_sum: jax.Array  # shape=(), dtype=float32; snapshots that count
  raw: Any  # the parameters that are trained
  snapshots: tuple[Any, ...]  # of them, in the order of a ring


@dataclasses.dataclass(frozen=True)
class LAWA(_Average):
  """The mean of the last k snapshots is evaluated; raw weights until there are k.

  The snapshots are k further trees of the parameters' shapes on the devices,
  which each step reads and writes.

  Attributes:
    k: number of snapshots.
    every: steps between two snapshots. AlgoPerf's recorded runs lawa_queue have
      .002 of step_hint.

  Source: Kaddour 2022, "Stop wasting my time! Saving days of ImageNet and BERT
  training with latest weight averaging".
  """

  k: int = 10
  every: int = 100

  def __post_init__(self) -> None:
    super().__post_init__()
    check_count('k', self.k)
    check_count('every', self.every)

  def build(self, rate: ArrayLike) -> optax.GradientTransformation:
    inner = self.inner.build(rate)

    def init(params: Any) -> LAWAState:
      return LAWAState(
        inner=inner.init(params),
        count=jnp.zeros([], jnp.int32),
        weight_sum=jnp.zeros([], jnp.float32),
        raw=_copied(params),
        snapshots=tuple(_copied(params) for _ in range(self.k)),
      )

    def update(
      grads: Any, state: LAWAState, params: Any
    ) -> tuple[Any, LAWAState]:
      steps, after = inner.update(grads, state.inner, state.raw)
      raw = optax.apply_updates(state.raw, steps)
      count = state.count + 1
      is_time = count % self.every == 0
      place = count // self.every % self.k
      # Selected: on a GPU a lax.cond would have the host wait for the index.
      snapshots = tuple(
        _selected(is_time & (place == i), raw, snapshot)
        for i, snapshot in enumerate(state.snapshots)
      )
      weight_sum = jnp.minimum(state.weight_sum + is_time, self.k)
      mean = jax.tree_util.tree_map(lambda *x: sum(x) / self.k, *snapshots)
      shown = _selected(weight_sum >= self.k, mean, raw)
      updates = jax.tree_util.tree_map(jnp.subtract, shown, params)
      return updates, LAWAState(after, count, weight_sum, raw, snapshots)

    return optax.GradientTransformation(init, update)


def _copied(params: Any) -> Any:
  """The same values in new buffers: one buffer must not be donated twice."""
  return jax.tree_util.tree_map(lambda p: jnp.array(p, copy=True), params)


def _selected(condition: jax.Array, one: Any, other: Any) -> Any:
  return jax.tree_util.tree_map(
    lambda a, b: jnp.where(condition, a, b), one, other
  )
