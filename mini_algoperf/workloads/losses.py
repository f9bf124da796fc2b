"""Softmax cross-entropy as the benchmark's workloads have it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from ..spec import Tensor


def softmax_cross_entropy(
  label_batch: Tensor,
  logits_batch: Tensor,
  mask_batch: Tensor | None = None,
  label_smoothing: float = 0.0,
) -> dict[str, Tensor]:
  """Softmax cross-entropy of every label.

      l = -sum_c ((1 - s) [c = label] + s / C) log softmax(logits)_c

  Args:
    label_batch: classes or tokens, shape (batch, ...).
    logits_batch: shape (batch, ..., C).
    mask_batch: 1 for labels that count, shape (batch, ...); None counts all,
      padding too.
    label_smoothing: s, in [0, 1).

  Returns:
    'summed' and 'n_valid_examples' (labels), scalars; 'per_example', shape
    (batch, ...).
  """
  one_hot = jax.nn.one_hot(label_batch, logits_batch.shape[-1])
  smoothed = optax.smooth_labels(one_hot, label_smoothing)
  losses = -jnp.sum(smoothed * jax.nn.log_softmax(logits_batch), axis=-1)
  if mask_batch is None:
    mask_batch = jnp.ones(losses.shape)
  losses = jnp.where(mask_batch > 0, losses, 0.0)
  return {
    'summed': losses.sum(),
    'n_valid_examples': mask_batch.sum(),
    'per_example': losses,
  }
