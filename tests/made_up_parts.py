"""Parts that the tests make up, one of each kind.

Each is one class and a name, which is what a new part is to be.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from reset_cycles.control.switching import Verdict
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.inner import Slots
from reset_cycles.settings.kinds import Count, Share


@contextlib.contextmanager
def registered(registry, **parts):
  """`with registered(GOALS, half=Half):` and then it is unknown again."""
  for name, part in parts.items():
    registry.register(part, name=name)
  try:
    yield
  finally:
    for name in parts:
      del registry._parts[name]


@dataclasses.dataclass(frozen=True)
class Patience:
  """A switching rule: a cycle is left after so many evaluations."""

  most: Count = 2

  class State(NamedTuple):
    evaluations: int

  initial: ClassVar[State] = State(0)
  columns: ClassVar[tuple[str, ...]] = ('stopping',)

  def observe(self, state, evaluation, context):
    del evaluation, context
    state = self.State(state.evaluations + 1)
    is_over = state.evaluations >= self.most
    verdict = Verdict('patience is over' * is_over, {'stopping': int(is_over)})
    return state, verdict


@dataclasses.dataclass(frozen=True)
class ShareOfTarget:
  """A goal: a share of the final target, at all times."""

  share: Share = 0.5

  def metric(self, target, first_metric, share_of_run):
    del first_metric, share_of_run
    return self.share * target.value


@dataclasses.dataclass(frozen=True)
class Moved:
  """A horizon: at the n-th evaluation, it moves to a step."""

  to: Count
  at_evaluation: Count = 1

  class State(NamedTuple):
    evaluations: int

  initial: ClassVar[State] = State(0)
  binds: ClassVar[bool] = False

  def observe(self, state, timing):
    state = self.State(state.evaluations + 1)
    moves = state.evaluations == self.at_evaluation
    return state, self.to if moves else timing.horizon


@dataclasses.dataclass(frozen=True)
class AveragedDescent:
  """An optimizer: gradient descent that averages its parameters.

  Its state has an iterate of the parameters' shapes, with which it is
  evaluated, and no moments.
  """

  keep: Share = 0.5

  class State(NamedTuple):
    average: Any

  def build(self, hparams, rate, weight_decay):
    del hparams

    def update(grads, state, params):
      updates = jax.tree_util.tree_map(
        lambda g, p: -rate * (g + weight_decay * p), grads, params
      )
      new = optax.apply_updates(params, updates)
      average = jax.tree_util.tree_map(
        lambda a, p: self.keep * a + (1 - self.keep) * p, state.average, new
      )
      return updates, self.State(average)

    return optax.GradientTransformation(
      lambda params: self.State(jax.tree_util.tree_map(jnp.copy, params)),
      update,
    )

  def slots(self, opt_state):
    return Slots((), (opt_state.average,), ())

  def with_slots(self, opt_state, slots):
    (average,) = slots.iterates
    return opt_state._replace(average=average)

  def eval_params(self, opt_state, params):
    del params
    return opt_state.average


@dataclasses.dataclass(frozen=True)
class RateKeeper(AdamW):
  """AdamW that keeps the learning rate of its last step, as it was used."""

  class State(NamedTuple):
    adamw: Any
    rate: jax.Array

  def build(self, hparams, rate, weight_decay):
    adamw = super().build(hparams, rate, weight_decay)

    def update(grads, state, params):
      updates, new = adamw.update(grads, state.adamw, params)
      return updates, self.State(new, jnp.asarray(rate, jnp.float32))

    return optax.GradientTransformation(
      lambda params: self.State(adamw.init(params), jnp.float32(0)), update
    )
