"""Workload `clicks`: is an advertisement clicked? The metric, the loss, falls.

A user and an advertisement are four numbers and six categories. A category has
forty values, of which few are frequent (Zipf's law). Categories act by
themselves and in pairs; the label is drawn with the probability that follows,
so that the loss has a floor.
"""

from __future__ import annotations

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import spec
from .arrays import SplitWorkload
from .parts import Pass, dropout, loss_of

_NUM_DENSE, _NUM_FIELDS, _NUM_VALUES = 4, 6, 40
_SPLIT_SIZES = {'train': 32768, 'validation': 2048, 'test': 2048}


@functools.cache
def load_clicks() -> dict[str, np.ndarray]:
  """Numbers and categories, as float32 in one array, and clicks, 0 or 1."""
  rng, size = np.random.default_rng(1), sum(_SPLIT_SIZES.values())
  dense = rng.standard_normal((size, _NUM_DENSE))
  frequency = 1.0 / np.arange(1, _NUM_VALUES + 1)
  fields = rng.choice(
    _NUM_VALUES, (size, _NUM_FIELDS), p=frequency / frequency.sum()
  )
  tables = rng.standard_normal((_NUM_FIELDS, _NUM_VALUES, 5))
  vectors = tables[np.arange(_NUM_FIELDS), fields]
  pairs = vectors[:, :, 1:].sum(axis=1) ** 2 - (vectors[:, :, 1:] ** 2).sum(1)
  score = (
    vectors[:, :, 0].sum(axis=1) / 2
    + pairs.sum(axis=1) / 8
    + dense @ rng.standard_normal(_NUM_DENSE) / 2
  )
  is_click = rng.random(size) < 1.0 / (1.0 + np.exp(1.0 - score))
  inputs = np.concatenate([dense, fields], axis=1).astype(np.float32)
  return {'inputs': inputs, 'targets': is_click.astype(np.float32)}


class ClickModel(nn.Module):
  """Numbers by dense layers, categories by a table; their inner products."""

  embedding_stddev: float = 0.05
  features: int = 16

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    """Logits of a click, shape (batch,)."""
    table = nn.Embed(
      _NUM_FIELDS * _NUM_VALUES,
      self.features,
      embedding_init=nn.initializers.normal(self.embedding_stddev),
      name='embedding',
    )
    starts = _NUM_VALUES * jnp.arange(_NUM_FIELDS)[None]
    vectors = table(inputs[:, _NUM_DENSE:].astype(jnp.int32) + starts)
    x = nn.relu(nn.Dense(2 * self.features)(inputs[:, :_NUM_DENSE]))
    x = nn.relu(nn.Dense(self.features)(x))
    vectors = jnp.concatenate([x[:, None], vectors], axis=1)
    products = jnp.einsum('bif,bjf->bij', vectors, vectors)
    rows, columns = np.triu_indices(vectors.shape[1], 1)
    x = jnp.concatenate([x, products[:, rows, columns]], axis=1)
    for _ in range(2):
      x = nn.relu(nn.Dense(4 * self.features)(x))
    x = dropout(self, x, how)
    return nn.Dense(1, name='output')(x)[:, 0]


class ClicksWorkload(SplitWorkload):
  """After Criteo's."""

  name, examples = 'clicks', staticmethod(load_clicks)
  target_metric_name, metric_rises = 'loss', False
  loss_type = spec.LossType.SIGMOID_CROSS_ENTROPY
  split_sizes = _SPLIT_SIZES
  num_train_examples, num_validation_examples, num_test_examples = (
    _SPLIT_SIZES.values()
  )
  eval_batch_size, default_batch_size = 2048, 128
  embedding_stddev = 0.05
  num_real_inputs = _NUM_DENSE  # columns before those of categories

  # Binary cross-entropy, shape (batch,); as Criteo's it is never smoothed.
  loss_fn = loss_of(
    lambda labels, logits, _: optax.sigmoid_binary_cross_entropy(logits, labels)
  )

  def _make_model(self) -> nn.Module:
    return ClickModel(self.embedding_stddev)


class EmbedInitWorkload(ClicksWorkload):
  """After its variant with another initialisation of the table."""

  name, embedding_stddev = 'clicks_embed_init', 0.5
