"""Workload `text`: predict the next character; the metric, ppl, falls."""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from . import text_data
from .array_workload import ArrayWorkload
from .layers import dropout
from .transformer import Block, sinusoids


class LanguageModel(nn.Module):
  """A decoder: every position sees itself and those before it.

  Attributes:
    vocab_size: number of tokens.
    dropout_rate: share dropped where the call names none.
    features: width.
    num_layers: blocks.
    num_heads: heads of each attention.
  """

  vocab_size: int
  dropout_rate: float = 0.0
  features: int = 96
  num_layers: int = 1
  num_heads: int = 4

  @nn.compact
  def __call__(
    self,
    inputs: jax.Array,
    train: bool,
    update_batch_norm: bool,
    dropout_rate: float,
  ) -> jax.Array:
    """Logits of the token that follows each one.

    Args:
      inputs: tokens, shape (batch, length).
      train: whether dropout acts.
      update_batch_norm: unused; there is none.
      dropout_rate: share dropped.

    Returns:
      Shape (batch, length, vocab_size).
    """
    del update_batch_norm
    length = inputs.shape[1]
    embedding_init = nn.initializers.normal(1.0 / self.features**0.5)
    embedding = nn.Embed(
      self.vocab_size,
      self.features,
      embedding_init=embedding_init,
      name='embedding',
    )
    x = embedding(inputs) * self.features**0.5
    x = x + sinusoids(length, self.features)[None]
    x = dropout(self, x, dropout_rate, train)
    mask = np.tril(np.ones((1, length, length), bool))
    for _ in range(self.num_layers):
      block = Block(self.num_heads, 2 * self.features)
      x = block(x, mask, None, None, dropout_rate, train)
    return nn.Dense(self.vocab_size, name='output')(nn.LayerNorm()(x))


class TextWorkload(ArrayWorkload):
  """This project's documents, a small Transformer, after FineWeb-Edu's LM."""

  name = 'text'
  target_metric_name = 'ppl'
  metric_rises = False
  num_train_examples = text_data.SPLIT_SIZES['train']
  num_eval_train_examples = text_data.SPLIT_SIZES['validation']
  num_validation_examples = text_data.SPLIT_SIZES['validation']
  num_test_examples = text_data.SPLIT_SIZES['test']
  eval_batch_size = 80
  default_batch_size = 16
  step_hint = 1200
  eval_every_steps = 60
  max_allowed_runtime_sec = 300
  eval_period_time_sec = 2

  def is_output_params(self, param_key: str) -> bool:
    """Whether a top-level parameter key is the output layer's."""
    return param_key == 'output'

  def load_split(
    self, split: str, data_dir: str | None
  ) -> Mapping[str, np.ndarray]:
    """Windows of characters; they come with the project."""
    del data_dir
    return text_data.load_windows(split)._asdict()

  def _make_model(self, dropout_rate: float) -> nn.Module:
    return LanguageModel(text_data.vocab_size(), dropout_rate)

  def _fake_inputs(self) -> jax.Array:
    return jnp.zeros((1, text_data.LENGTH), jnp.int32)

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    targets, weights = batch['targets'], batch['weights']
    losses = self.loss_fn(targets, logits, weights)['per_example']
    return {'loss': losses, 'weights': weights}

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    """The mean loss L in nats per character and ppl = exp(L)."""
    count = outputs['weights'].sum(dtype=np.float64)
    loss = outputs['loss'].sum(dtype=np.float64) / count
    with np.errstate(over='ignore'):  # inf, of a model that has diverged
      return {'loss': float(loss), 'ppl': float(np.exp(loss))}
