"""Workload `digits`: classify small images; the metric, error rate, falls."""

from __future__ import annotations

from collections.abc import Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from . import digit_data
from .base import MiniWorkload
from .layers import dropout
from .losses import softmax_cross_entropy

_NUM_CLASSES = 10


class ConvNet(nn.Module):
  """Three convolutions with BatchNorm, dropout, one dense layer.

  Attributes:
    dropout_rate: share dropped where the call names none.
    axis_name: device axis over which batch statistics are synchronised.
  """

  dropout_rate: float = 0.0
  axis_name: str | None = None

  @nn.compact
  def __call__(
    self,
    inputs: jax.Array,
    train: bool,
    update_batch_norm: bool,
    dropout_rate: float,
  ) -> jax.Array:
    x = inputs
    for features, stride in ((16, 1), (32, 2), (32, 1)):
      x = nn.Conv(features, (3, 3), strides=(stride, stride), use_bias=False)(x)
      # At the peak rate the weights outrun slower averages: with 0.95 or 0.99
      # the validation loss jumps by up to 0.03 between evaluations, with 0.8
      # by less than 0.01.
      x = nn.BatchNorm(
        use_running_average=not update_batch_norm,
        momentum=0.8,
        axis_name=self.axis_name,
      )(x)
      x = nn.relu(x)
    x = x.reshape(x.shape[0], -1)
    x = dropout(self, x, dropout_rate, train)
    return nn.Dense(_NUM_CLASSES)(x)


class DigitsWorkload(MiniWorkload):
  """Scikit-learn's digits under shifts and noise, a small conv net."""

  name = 'digits'
  target_metric_name = 'error_rate'
  metric_rises = False
  loss_type = spec.LossType.SOFTMAX_CROSS_ENTROPY
  num_train_examples = digit_data.SPLIT_SIZES['train']
  num_eval_train_examples = 384 * digit_data.EVAL_COPIES
  num_validation_examples = 384 * digit_data.EVAL_COPIES
  num_test_examples = 384 * digit_data.EVAL_COPIES
  train_mean = digit_data.TRAIN_MEAN
  train_stddev = digit_data.TRAIN_STDDEV
  eval_batch_size = 512
  default_batch_size = 128
  step_hint = 2100
  eval_every_steps = 70
  max_allowed_runtime_sec = 300
  eval_period_time_sec = 1
  packages = ('sklearn',)

  def is_output_params(self, param_key: str) -> bool:
    """Whether a top-level parameter key is the dense layer's."""
    return param_key == 'Dense_0'

  def loss_fn(
    self,
    label_batch: spec.Tensor,
    logits_batch: spec.Tensor,
    mask_batch: spec.Tensor | None = None,
    label_smoothing: float = 0.0,
  ) -> dict[str, spec.Tensor]:
    """Softmax cross-entropy.

        l = -sum_c ((1 - s) [c = label] + s / 10) log softmax(logits)_c

    Args:
      label_batch: classes, shape (batch,).
      logits_batch: shape (batch, 10).
      mask_batch: 1 for examples that count, shape (batch,); None counts all.
      label_smoothing: s, in [0, 1).

    Returns:
      'summed' and 'n_valid_examples', scalars; 'per_example', shape (batch,).
    """
    return softmax_cross_entropy(
      label_batch, logits_batch, mask_batch, label_smoothing
    )

  def _make_model(self, dropout_rate: float) -> nn.Module:
    return ConvNet(dropout_rate, self._axis_name)

  def _fake_inputs(self) -> jax.Array:
    return jnp.zeros((1, 8, 8, 1))

  def _train_batches(
    self,
    rng: np.random.Generator,
    data_dir: str | None,
    shard_size: int,
    num_shards: int,
  ) -> Iterator[spec.Batch]:
    del data_dir  # The images come with scikit-learn.
    shape = (num_shards, shard_size)
    for images in digit_data.train_images(rng, shard_size * num_shards):
      yield {
        'inputs': images.inputs.reshape(*shape, 8, 8, 1),
        'targets': images.targets.reshape(shape),
      }

  def _split_batches(
    self,
    split: str,
    num_examples: int,
    data_dir: str | None,
    shard_size: int,
    num_shards: int,
  ) -> Iterator[spec.Batch]:
    del data_dir
    images = digit_data.eval_images(split, num_examples)
    size = shard_size * num_shards
    pad = -num_examples % size
    arrays = {
      'inputs': images.inputs,
      'targets': images.targets,
      'weights': np.ones(num_examples, np.float32),
    }
    for start in range(0, num_examples + pad, size):
      yield {
        key: _pad_to(value[start : start + size], size).reshape(
          num_shards, shard_size, *value.shape[1:]
        )
        for key, value in arrays.items()
      }

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    weights = batch['weights']
    losses = self.loss_fn(batch['targets'], logits, weights)['per_example']
    wrong = jnp.argmax(logits, axis=-1) != batch['targets']
    return {
      'loss': losses,
      'error_rate': wrong * weights,
      'weights': weights,
    }

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    count = outputs['weights'].sum(dtype=np.float64)
    return {
      key: float(outputs[key].sum(dtype=np.float64) / count)
      for key in ('loss', 'error_rate')
    }


def _pad_to(array: np.ndarray, size: int) -> np.ndarray:
  """Zeros behind `array`, up to `size` rows."""
  return np.pad(array, [(0, size - len(array)), *[(0, 0)] * (array.ndim - 1)])
