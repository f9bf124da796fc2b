"""What the models and data of several workloads share."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..spec import ParameterType, Tensor

# The projections of `transformer.Attention`, which have no bias.
_ATTENTION = {'query': 'Q', 'key': 'K', 'value': 'V', 'out': 'OUT'}


def split_slices(sizes: Mapping[str, int]) -> dict[str, slice]:
  """The slices of splits that follow one another in this order."""
  ends = itertools.accumulate(sizes.values())
  return {s: slice(end - sizes[s], end) for s, end in zip(sizes, ends)}


def shuffled_indices(rng: np.random.Generator, size: int) -> Iterator[int]:
  """Endless indices: one fresh permutation after another."""
  while True:
    yield from rng.permutation(size).tolist()


class Pass(NamedTuple):
  """How a model is applied to a batch."""

  train: bool  # whether dropout acts
  update_batch_norm: bool  # whether the batch's statistics normalise, and count
  dropout_rate: Any  # in [0, 1); may be traced


EVALUATION = Pass(train=False, update_batch_norm=False, dropout_rate=0.0)


def dropout(module: nn.Module, x: jax.Array, how: Pass) -> jax.Array:
  """Drops a share of the entries of `x` and rescales the rest.

      y = x / (1 - rate) where kept, else 0

  As in the newer benchmark, and unlike `flax.linen.Dropout`, every rate takes
  the same path. So the rate may be traced, and a rate of 0 draws a mask as
  well. The mask is drawn with the 'dropout' key of the module. Outside of
  training, `x` is returned.
  """
  if not how.train:
    return x
  keep = 1.0 - how.dropout_rate
  mask = jax.random.bernoulli(module.make_rng('dropout'), keep, x.shape)
  return jnp.where(mask, x / keep, 0.0)


def batch_norm(how: Pass, axis_name: str | None) -> Callable[..., nn.Module]:
  """Makes a BatchNorm, synchronised over the axis.

  At the peak rate the weights outrun slower averages: with a momentum of .95 or
  .99 the validation loss of `digits` jumps by up to .03 between evaluations,
  with .8 by less than .01.
  """
  return functools.partial(
    nn.BatchNorm,
    use_running_average=not how.update_batch_norm,
    momentum=0.8,
    axis_name=axis_name,
  )


def softmax_cross_entropy(
  label_batch: Tensor,
  logits_batch: Tensor,
  mask_batch: Tensor | None = None,
  label_smoothing: float = 0.0,
) -> dict[str, Tensor]:
  """Softmax cross-entropy of every label, as the benchmark's workloads have it.

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
  return masked(losses, mask_batch)


def masked(losses: Tensor, mask_batch: Tensor | None) -> dict[str, Tensor]:
  """A loss in the benchmark's form; labels whose mask is 0 cost nothing.

  Sums and counts are those of the calling device; nothing is averaged.
  """
  if mask_batch is None:
    mask_batch = jnp.ones(losses.shape)
  losses = jnp.where(mask_batch > 0, losses, 0.0)
  return {
    'summed': losses.sum(),
    'n_valid_examples': mask_batch.sum(),
    'per_example': losses,
  }


def loss_of(losses: Callable[[Tensor, Tensor, float], Tensor]) -> Any:
  """A class's `loss_fn`, from (labels, logits, label smoothing) -> losses."""

  def loss_fn(
    label_batch: Tensor,
    logits_batch: Tensor,
    mask_batch: Tensor | None = None,
    label_smoothing: float = 0.0,
  ) -> dict[str, Tensor]:
    values = losses(label_batch, logits_batch, label_smoothing)
    return masked(values, mask_batch)

  return staticmethod(loss_fn)


def mean(outputs: Mapping[str, np.ndarray], key: str) -> float:
  """Sum of a split's values over the sum of its weights, in float64."""
  count = outputs['weights'].sum(dtype=np.float64)
  return float(outputs[key].sum(dtype=np.float64) / count)


def param_types(params: Mapping[str, Any], module: str = '') -> dict[str, Any]:
  """The tree of `ParameterType`, by flax's names of modules and leaves.

  Keys are in lower case, as in the benchmark. So is `module`, the name of the
  module that `params` belong to.
  """
  return {
    key.lower(): param_types(value, key.lower())
    if isinstance(value, Mapping)
    else _leaf_type(module, key.lower())
    for key, value in params.items()
  }


def _leaf_type(module: str, name: str) -> ParameterType:
  norm = re.search('batch(?=norm)|layer(?=norm)', module)
  if norm and name in ('scale', 'bias'):
    return ParameterType[f'{norm[0]}_norm_{name}'.upper()]
  if module in _ATTENTION:
    return ParameterType[f'ATTENTION_{_ATTENTION[module]}']
  if name == 'bias':
    return ParameterType.BIAS
  if 'embedding' in module:
    return ParameterType.EMBEDDING
  return ParameterType.CONV_WEIGHT if 'conv' in module else ParameterType.WEIGHT
