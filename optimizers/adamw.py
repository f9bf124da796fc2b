"""AdamW whose learning rate follows the cycle clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import jax
import optax

from ..schedules import cycle_clock
from ..schedules.lr_shapes import Schedule
from ..settings.hparams import Hparams
from .inner import Slots


def adamw(
  hparams: Hparams,
  schedules: Sequence[Schedule],
  lengths: Sequence[int],
  decay_schedules: Sequence[Schedule] | None = None,
) -> optax.GradientTransformation:
  """AdamW with optional clipping, at the learning rate of the cycle clock.

  Args:
    hparams: the optimizer's hyperparameters.
    schedules: one schedule per cycle over its nominal steps.
    lengths: nominal steps of each cycle.
    decay_schedules: likewise for the weight decay, in place of that of the
      hyperparameters; None for the latter throughout.

  Returns:
    The transformation. Its state holds one optax.ScaleByAdamState and one
    cycle_clock.CycleClock; `map_states` finds them by type.
  """
  clip = (
    optax.identity()
    if hparams.grad_clip is None
    else optax.clip_by_global_norm(hparams.grad_clip)
  )
  return optax.chain(
    clip,
    optax.scale_by_adam(
      b1=1.0 - hparams.one_minus_beta1, b2=hparams.beta2, eps=hparams.eps
    ),
    optax.add_decayed_weights(hparams.weight_decay)
    if decay_schedules is None
    else optax.identity(),
    cycle_clock.scale_by_cycle_clock(schedules, lengths, decay_schedules),
  )


class AdamWSlots:
  """What a reset may touch of `adamw`'s state."""

  def slots(self, opt_state: Any) -> Slots:
    """Adam's two moments and its count."""
    adam = find_state(opt_state, optax.ScaleByAdamState)
    return Slots((adam.mu, adam.nu), (), (adam.count,))

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """The state with other slots."""
    (mu, nu), _, (count,) = slots
    new = optax.ScaleByAdamState(count=count, mu=mu, nu=nu)
    return map_states(lambda _: new, opt_state, optax.ScaleByAdamState)


def map_states(
  fn: Callable[[Any], Any], opt_state: Any, state_type: type
) -> Any:
  """opt_state with every state of the given type replaced by fn(state)."""

  def is_state(x):
    return isinstance(x, state_type)

  return jax.tree_util.tree_map(
    lambda x: fn(x) if is_state(x) else x, opt_state, is_leaf=is_state
  )


def find_state(opt_state: Any, state_type: type) -> Any:
  """The one state of the given type in opt_state.

  Raises:
    ValueError: if there is none, or more than one.
  """
  found = []
  map_states(found.append, opt_state, state_type)
  if len(found) != 1:
    raise ValueError(
      f'opt_state has {len(found)} states of type {state_type.__name__}; '
      'exactly one is needed.'
    )
  return found[0]
