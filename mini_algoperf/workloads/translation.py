"""Workload `translation`: sequence to sequence; the metric, BLEU, rises."""

from __future__ import annotations

from collections.abc import Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from . import translation_data
from .base import MiniWorkload
from .losses import softmax_cross_entropy
from .shuffling import shuffled_indices
from .transformer import Transformer, greedy_translations


class TranslationWorkload(MiniWorkload):
  """Sentences of a rule-made language, a small Transformer, after WMT."""

  name = 'translation'
  target_metric_name = 'bleu'
  metric_rises = True
  loss_type = spec.LossType.SOFTMAX_CROSS_ENTROPY
  num_train_examples = translation_data.SPLIT_SIZES['train']
  num_eval_train_examples = 128
  num_validation_examples = translation_data.SPLIT_SIZES['validation']
  num_test_examples = translation_data.SPLIT_SIZES['test']
  eval_batch_size = 128
  default_batch_size = 32
  step_hint = 800
  eval_every_steps = 40
  max_allowed_runtime_sec = 600
  eval_period_time_sec = 2
  packages = ('sacrebleu',)

  @property
  def train_mean(self) -> float:
    """Not defined for text, as in the benchmark."""
    raise NotImplementedError

  @property
  def train_stddev(self) -> float:
    """Not defined for text, as in the benchmark."""
    raise NotImplementedError

  def is_output_params(self, param_key: str) -> bool:
    """Whether a top-level parameter key is the output layer's."""
    return param_key == 'output'

  def loss_fn(
    self,
    label_batch: spec.Tensor,
    logits_batch: spec.Tensor,
    mask_batch: spec.Tensor | None = None,
    label_smoothing: float = 0.0,
  ) -> dict[str, spec.Tensor]:
    """Softmax cross-entropy of every token, as the benchmark's WMT has it.

        l = -sum_v ((1 - s) [v = label] + s / V) log softmax(logits)_v

    Args:
      label_batch: tokens, shape (batch, length).
      logits_batch: shape (batch, length, V).
      mask_batch: 1 for tokens that count, shape (batch, length); None counts
        all, the padding too.
      label_smoothing: s, in [0, 1).

    Returns:
      'summed' and 'n_valid_examples' (tokens, not sentences), scalars;
      'per_example', shape (batch, length).
    """
    return softmax_cross_entropy(
      label_batch, logits_batch, mask_batch, label_smoothing
    )

  def _make_model(self, dropout_rate: float) -> nn.Module:
    return Transformer(translation_data.vocab_size(), dropout_rate)

  def _fake_inputs(self) -> tuple[jax.Array, jax.Array]:
    tokens = jnp.ones((1, translation_data.LENGTH), jnp.int32)
    return tokens, tokens

  def _model_inputs(self, batch: spec.Batch) -> tuple[jax.Array, jax.Array]:
    return batch['inputs'], batch['targets']

  def _train_batches(
    self,
    rng: np.random.Generator,
    data_dir: str | None,
    shard_size: int,
    num_shards: int,
  ) -> Iterator[spec.Batch]:
    del data_dir  # The sentences are generated in memory.
    pairs = translation_data.load_pairs()['train']
    indices = shuffled_indices(rng, self.num_train_examples)
    size = shard_size * num_shards
    while True:
      chosen = np.fromiter(indices, np.int32, size)
      yield _batch(pairs, chosen, num_shards)

  def _split_batches(
    self,
    split: str,
    num_examples: int,
    data_dir: str | None,
    shard_size: int,
    num_shards: int,
  ) -> Iterator[spec.Batch]:
    del data_dir
    source = 'train' if split == 'eval_train' else split
    pairs = translation_data.load_pairs()[source]
    size = shard_size * num_shards
    for start in range(0, num_examples, size):
      chosen = np.arange(start, min(start + size, num_examples))
      yield _batch(pairs, chosen, num_shards, size)

  def _eval_batch(
    self,
    params: spec.ParameterContainer,
    batch: spec.Batch,
    model_state: spec.ModelAuxiliaryState,
  ) -> dict[str, jax.Array]:
    outputs = super()._eval_batch(params, batch, model_state)
    translations = greedy_translations(self._model, params, batch['inputs'])
    return {**outputs, 'translations': translations}

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    targets, weights = batch['targets'], batch['weights']
    losses = self.loss_fn(targets, logits, weights)['per_example']
    correct = (jnp.argmax(logits, axis=-1) == targets) * weights
    return {
      'loss': losses,
      'accuracy': correct,
      'targets': targets,
      'weights': weights,
    }

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    import sacrebleu

    count = outputs['weights'].sum(dtype=np.float64)
    is_there = outputs['weights'].any(axis=1)
    translations, references = (
      translation_data.decode(outputs[key][is_there])
      for key in ('translations', 'targets')
    )
    bleu = sacrebleu.corpus_bleu(translations, [references])
    return {
      'loss': float(outputs['loss'].sum(dtype=np.float64) / count),
      'accuracy': float(outputs['accuracy'].sum(dtype=np.float64) / count),
      'bleu': float(bleu.score),
    }


def _batch(
  pairs: translation_data.Pairs,
  chosen: np.ndarray,
  num_shards: int,
  size: int | None = None,
) -> spec.Batch:
  """Pairs with leading axes (shard, example), padded to `size` examples.

  The weights are 1 for tokens up to the end marker of a pair that is there.
  """
  pad = [(0, (size or len(chosen)) - len(chosen)), (0, 0)]
  arrays = {
    key: np.pad(getattr(pairs, key)[chosen], pad).reshape(
      num_shards, -1, translation_data.LENGTH
    )
    for key in ('inputs', 'targets')
  }
  weights = (arrays['targets'] != translation_data.PAD).astype(np.float32)
  return {**arrays, 'weights': weights}
