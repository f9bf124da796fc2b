"""Dropout as the newer benchmark has it."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp


def dropout(
  module: nn.Module, x: jax.Array, rate: float, train: bool
) -> jax.Array:
  """Drops a share of the entries of `x` and rescales the rest.

      y = x / (1 - rate) where kept, else 0

  Unlike `flax.linen.Dropout`, every rate takes the same path, so that a rate
  may be a traced value and 0 draws a mask as any other does.

  Args:
    module: the flax module whose 'dropout' key is used.
    x: activations of any shape.
    rate: share that is dropped, in [0, 1).
    train: False returns `x`.
  """
  if not train:
    return x
  keep = 1.0 - rate
  mask = jax.random.bernoulli(module.make_rng('dropout'), keep, x.shape)
  return jnp.where(mask, x / keep, 0.0)
