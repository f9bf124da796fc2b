"""Optimizers beyond the core's."""

from __future__ import annotations

import dataclasses

import optax

from ..core.cycle import StepNumbers
from ..core.optimizers import AdamW, clipped, decayed_and_scaled


@dataclasses.dataclass(frozen=True)
class Nesterov(AdamW):
  """Gradient descent with Nesterov momentum, for workloads where Adam fails.

    m <- b1 m + g,   update = b1 m + g

  The weight decay is decoupled, as in AdamW. The momentum is a sum, not an
  average: at the same rate it steps 1 / (1 - b1) times as far as an average
  would. beta2 and eps are not used.

  Source: Sutskever et al. 2013, "On the importance of initialization and
  momentum in deep learning", as in `optax.trace`.
  """

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """See `Optimizer`."""
    return optax.chain(
      clipped(numbers.grad_clip),
      optax.trace(decay=1.0 - numbers.one_minus_beta1, nesterov=True),
      decayed_and_scaled(numbers.rate, numbers.weight_decay),
    )
