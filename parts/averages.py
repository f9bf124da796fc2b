"""Averages of the weights, as wrappers around an optimizer.

Training goes on from the raw weights; evaluations see their average, and so do
tau and the switching rules. The average lies in the optimizer's state, so a
preemption does not lose it. A reset blends it like the parameters, by tau, and
takes the same share of its weight away: steps of the replaced model do not slow
down the new average.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..core.checks import check, check_count, check_number
from ..core.cycle import Hparams, Optimizer, StepNumbers


class EMAState(NamedTuple):
  """The inner optimizer's state, and the average."""

  inner: Any
  weight_sum: jax.Array  # shape=(), dtype=float32; of the weights in it
  average: Any  # of the parameters


@dataclasses.dataclass(frozen=True)
class EMA:
  """The exponential moving average of the weights is evaluated.

    w <- decay w + 1            average <- average + (params - average) / w

  It is the mean of the weights of all steps, each by decay^age: no bias towards
  the first ones is left.

  Attributes:
    inner: the optimizer that trains.
    decay: factor on the weight of a step with each later one; 1 / (1 - decay)
      steps count.

  Source: Polyak and Juditsky 1992, "Acceleration of stochastic approximation by
  averaging", in the exponential form.
  """

  inner: Optimizer
  decay: float = 0.999

  evaluates_own: ClassVar[bool] = True

  def __post_init__(self) -> None:
    _check_inner(self.inner)
    check_number('decay', self.decay, '[0, 1)')

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """See `Optimizer`."""
    inner = self.inner.build(numbers)

    def init(params: Any) -> EMAState:
      weight_sum = jnp.zeros([], jnp.float32)
      return EMAState(inner.init(params), weight_sum, _copied(params))

    def update(
      grads: Any, state: EMAState, params: Any
    ) -> tuple[Any, EMAState]:
      updates, after = inner.update(grads, state.inner, params)
      weight_sum = self.decay * state.weight_sum + 1.0
      average = jax.tree_util.tree_map(
        lambda a, new: a + (new - a) / weight_sum,
        state.average,
        optax.apply_updates(params, updates),
      )
      return updates, EMAState(after, weight_sum, average)

    return optax.GradientTransformation(init, update)

  def eval_params(self, state: EMAState, params: Any, hparams: Hparams) -> Any:
    """The average."""
    del hparams
    return _in_types_of(params, state.average)


class LAWAState(NamedTuple):
  """The inner optimizer's state, and the last snapshots of the parameters."""

  inner: Any
  count: Any  # shape=(), dtype=int32; steps taken
  weight_sum: jax.Array  # shape=(), dtype=float32; snapshots that count
  snapshots: tuple[Any, ...]  # in the order of a ring


@dataclasses.dataclass(frozen=True)
class LAWA:
  """The mean of the last k snapshots is evaluated; raw weights until there are k.

  The snapshots are k further trees of the parameters' shapes on the devices,
  which each step reads and writes.

  Attributes:
    inner: the optimizer that trains.
    k: number of snapshots.
    every: steps between two snapshots. AlgoPerf's recorded runs lawa_queue have
      .002 of step_hint.

  Source: Kaddour 2022, "Stop wasting my time! Saving days of ImageNet and BERT
  training with latest weight averaging".
  """

  inner: Optimizer
  k: int = 10
  every: int = 100

  evaluates_own: ClassVar[bool] = True

  def __post_init__(self) -> None:
    _check_inner(self.inner)
    check_count('k', self.k)
    check_count('every', self.every)

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """See `Optimizer`."""
    inner = self.inner.build(numbers)

    def init(params: Any) -> LAWAState:
      return LAWAState(
        inner=inner.init(params),
        count=jnp.zeros([], jnp.int32),
        weight_sum=jnp.zeros([], jnp.float32),
        snapshots=tuple(_copied(params) for _ in range(self.k)),
      )

    def update(
      grads: Any, state: LAWAState, params: Any
    ) -> tuple[Any, LAWAState]:
      updates, after = inner.update(grads, state.inner, params)
      newest = optax.apply_updates(params, updates)
      count = state.count + 1
      is_time = count % self.every == 0
      place = count // self.every % self.k
      # Selected: on a GPU a lax.cond would have the host wait for the index.
      snapshots = tuple(
        _selected(is_time & (place == i), newest, snapshot)
        for i, snapshot in enumerate(state.snapshots)
      )
      weight_sum = jnp.minimum(state.weight_sum + is_time, self.k)
      return updates, LAWAState(after, count, weight_sum, snapshots)

    return optax.GradientTransformation(init, update)

  def eval_params(self, state: LAWAState, params: Any, hparams: Hparams) -> Any:
    """The mean of the snapshots, or the trained parameters."""
    del hparams
    mean = jax.tree_util.tree_map(lambda *x: sum(x) / self.k, *state.snapshots)
    is_full = state.weight_sum >= self.k
    return _selected(is_full, _in_types_of(params, mean), params)


def _check_inner(inner: object) -> None:
  is_object = hasattr(inner, 'build') and not isinstance(inner, type)
  is_right = is_object and not getattr(inner, 'evaluates_own', True)
  right = 'an optimizer whose trained weights are evaluated, such as AdamW()'
  check(is_right, 'inner', inner, right)


def _copied(params: Any) -> Any:
  """The same values in new buffers: one buffer must not be donated twice."""
  return jax.tree_util.tree_map(lambda p: jnp.array(p, copy=True), params)


def _selected(condition: jax.Array, one: Any, other: Any) -> Any:
  return jax.tree_util.tree_map(
    lambda a, b: jnp.where(condition, a, b), one, other
  )


def _in_types_of(params: Any, tree: Any) -> Any:
  return jax.tree_util.tree_map(lambda p, x: x.astype(p.dtype), params, tree)
