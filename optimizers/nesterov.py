"""Gradient descent with Nesterov momentum, for workloads where Adam fails."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import optax

from .adamw import clipped, decayed_and_scaled
from .inner import INNER, InnerHparams, Slots, find_state, map_states


@INNER.register(name='nesterov')
@dataclasses.dataclass(frozen=True)
class Nesterov:
  """Nesterov momentum with decoupled weight decay.

    m <- b1 m + g,   update = b1 m + g

  The momentum is a sum, not an average: at the same rate it steps 1 / (1 - b1)
  times as far as an average would. beta2 and eps are not used.

  Source: Sutskever et al. 2013, "On the importance of initialization and
  momentum in deep learning", as in `optax.trace`.
  """

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """See `Inner`."""
    return optax.chain(
      clipped(hparams.grad_clip),
      optax.trace(decay=1.0 - hparams.one_minus_beta1, nesterov=True),
      decayed_and_scaled(rate, weight_decay),
    )

  def slots(self, opt_state: Any) -> Slots:
    """The momentum."""
    return Slots((find_state(opt_state, optax.TraceState).trace,), (), ())

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """See `Inner`."""
    trace = optax.TraceState(trace=slots.moments[0])
    return map_states(lambda _: trace, opt_state, optax.TraceState)

  def eval_params(self, opt_state: Any, params: Any) -> Any:
    """The trained parameters as they are."""
    del opt_state
    return params
