"""Workload `digits`: classify small images; the metric, error rate, falls.

Scikit-learn's 8x8 digits, split once and for all. Clean, they are learnt almost
perfectly within a few hundred steps. So each image is shifted by up to a pixel
and has noise. Shifts and noise are drawn anew for every training example, and
once for the copies that are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from .arrays import Classification, padded_batches
from .base import BatchShape
from .parts import Pass, batch_norm, dropout, split_slices

SPLIT_SIZES = {'train': 1024, 'validation': 384, 'test': 384}
# Each evaluated image appears this often, with other shifts and noise.
EVAL_COPIES = 4
NOISE_STDDEV = 0.35
TRAIN_MEAN = 4.88
TRAIN_STDDEV = 6.01
_SPLIT_SEED = 1797
# Added to the seed for a split's shifts and noise. The targets were set with
# these numbers.
_NOISE_SEED = {'validation': 10, 'test': 4, 'eval_train': 0}
_SIDE = 8
_NUM_CLASSES = 10


def load_images(split: str) -> dict[str, np.ndarray]:
  """The clean images of a split, normalised, and their classes."""
  from sklearn.datasets import load_digits

  images, classes = load_digits(return_X_y=True)
  order = np.random.default_rng(_SPLIT_SEED).permutation(len(images))
  chosen = order[split_slices(SPLIT_SIZES)[split]]
  pixels = images[chosen].reshape(-1, _SIDE, _SIDE) - TRAIN_MEAN
  return {
    'inputs': (pixels / TRAIN_STDDEV).astype(np.float32),
    'targets': classes[chosen].astype(np.int32),
  }


def augment(rng: np.random.Generator, images: np.ndarray) -> np.ndarray:
  """Shifts each image by -1, 0 or 1 pixel in each direction, adds noise.

  From shape (examples, 8, 8) to (examples, 8, 8, 1), float32.
  """
  background = np.float32(-TRAIN_MEAN / TRAIN_STDDEV)
  padded = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=background)
  corner = rng.integers(0, 3, size=(2, len(images), 1, 1))
  rows = corner[0] + np.arange(_SIDE)[:, None]
  columns = corner[1] + np.arange(_SIDE)
  shifted = padded[np.arange(len(images))[:, None, None], rows, columns]
  noise = rng.standard_normal(shifted.shape, dtype=np.float32)
  noisy: np.ndarray = shifted + np.float32(NOISE_STDDEV) * noise
  return noisy[..., None]


class ConvNet(nn.Module):
  """Three convolutions with BatchNorm, dropout, one dense layer."""

  axis_name: str | None = None  # over which batch statistics are synchronised

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    x = inputs
    for features, stride in ((16, 1), (32, 2), (32, 1)):
      x = nn.Conv(features, (3, 3), strides=(stride, stride), use_bias=False)(x)
      x = nn.relu(batch_norm(how, self.axis_name)()(x))
    x = x.reshape(x.shape[0], -1)
    x = dropout(self, x, how)
    return nn.Dense(_NUM_CLASSES)(x)


class DigitsWorkload(Classification):
  """Scikit-learn's digits under shifts and noise, a small conv net."""

  name, output_layer = 'digits', 'Dense_0'
  num_train_examples = SPLIT_SIZES['train']
  num_validation_examples = EVAL_COPIES * SPLIT_SIZES['validation']
  num_test_examples = EVAL_COPIES * SPLIT_SIZES['test']
  num_eval_train_examples = num_validation_examples
  eval_batch_size, default_batch_size = 512, 128
  step_hint, eval_every_steps = 2100, 70
  max_allowed_runtime_sec, eval_period_time_sec = 300, 1
  packages = ('sklearn',)

  def load_split(
    self, split: str, data_dir: str | None
  ) -> dict[str, np.ndarray]:
    """The clean images, which come with scikit-learn."""
    return load_images(split)

  def _make_model(self) -> nn.Module:
    return ConvNet(self._axis_name)

  def _fake_inputs(self) -> jax.Array:
    return jnp.zeros((1, _SIDE, _SIDE, 1))

  def _train_batches(
    self, rng: np.random.Generator, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    for batch in super()._train_batches(rng, data_dir, shape):
      images = augment(rng, batch['inputs'].reshape(-1, _SIDE, _SIDE))
      yield {**batch, 'inputs': images.reshape(*shape, _SIDE, _SIDE, 1)}

  def _split_batches(
    self, split: str, num_examples: int, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    clean = load_images('train' if split == 'eval_train' else split)
    index = np.arange(num_examples) // EVAL_COPIES
    rng = np.random.default_rng([_SPLIT_SEED, _NOISE_SEED[split]])
    noisy = augment(rng, clean['inputs'][index])
    copies = {'inputs': noisy, 'targets': clean['targets'][index]}
    return padded_batches(copies, num_examples, shape)
