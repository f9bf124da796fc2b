"""The protocol of an inner optimizer, which takes the steps inside a cycle.

A cycle sets its learning rate, a reset changes its state. Neither knows any
optimizer by name: what they need of it is defined here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import optax

from ..settings.hparams import Hparams
from ..settings.named import Registry, Setting

INNER = Registry('inner optimizer')


class InnerHparams(NamedTuple):
  """The numbers of an optimizer; those in which cycles differ are traced."""

  one_minus_beta1: float | jax.Array
  beta2: float | jax.Array
  eps: float | jax.Array
  grad_clip: float | jax.Array | None  # largest global norm; None: no clipping


class Slots(NamedTuple):
  """The parts of an optimizer's state that a reset may change.

  Attributes:
    moments: trees of the parameters' structure that a reset shrinks.
    iterates: trees of the parameters' structure that a reset blends with the
      fresh parameters, like the parameters themselves.
    counts: shape=() each; a full reset sets them to zero, like the moments.
    weights: shape=() each, the accumulated weights of averages of iterates; a
      reset multiplies them by 1 - tau, the share of the iterates that is kept.
      So steps of the replaced model do not slow down the new average.
  """

  moments: tuple[Any, ...]
  iterates: tuple[Any, ...]
  counts: tuple[jax.Array, ...]
  weights: tuple[jax.Array, ...] = ()


class Inner(Protocol):
  """An optimizer that steps inside cycles.

  One that cannot work with all hyperparameters also has a method `check`; see
  `check_numbers`.
  """

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """The transformation for one step.

    It is built while the step is traced, so its numbers may be traced; the
    structure of its state must not depend on them.

    Args:
      hparams: the cycle's numbers.
      rate: shape=(), the learning rate of this step.
      weight_decay: shape=(), decoupled; it is multiplied by the rate.
    """

  def slots(self, opt_state: Any) -> Slots:
    """What a reset may change in the state of `build`'s transformation."""

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """The state with its slots replaced by others of the same structure."""

  def eval_params(self, opt_state: Any, params: Any) -> Any:
    """The parameters to evaluate, computed from the trained ones."""


def check_numbers(setting: Setting, hparams: Hparams, where: str) -> None:
  """Refuses hyperparameters that an optimizer cannot work with.

  Args:
    setting: of INNER. If its class has a method check(hparams), that returns
      what is wrong, or ''.
    hparams: the hyperparameters.
    where: where they are set, such as 'cycles[1]'.

  Raises:
    ValueError: if something is wrong.
  """
  refuse = getattr(INNER.make(setting), 'check', None)
  wrong = refuse(hparams) if refuse else ''
  if wrong:
    raise ValueError(f'{where}: with optimizer={setting}, {wrong}.')


def map_states(
  fn: Callable[[Any], Any], opt_state: Any, state_type: type
) -> Any:
  """opt_state with every state of the given type replaced by fn(state)."""

  def is_state(x: Any) -> bool:
    return isinstance(x, state_type)

  return jax.tree_util.tree_map(
    lambda x: fn(x) if is_state(x) else x, opt_state, is_leaf=is_state
  )


def find_state(opt_state: Any, state_type: type) -> Any:
  """The one state of the given type in opt_state.

  Raises:
    ValueError: if there is none, or more than one.
  """
  found: list[Any] = []
  map_states(found.append, opt_state, state_type)
  if len(found) != 1:
    raise ValueError(
      f'opt_state has {len(found)} states of type {state_type.__name__}; '
      'exactly one is needed.'
    )
  return found[0]
