"""Workload `photos`: complete an image; structural similarity rises.

Scikit-learn's two photographs, grey, cut into squares of 16 x 16. As in an MRI
scan that is cut short, only some columns of a square's Fourier transform are
measured, with noise: the four columns of the lowest frequencies, and each other
column by chance. The other columns are set to 0. The input is the inverse
transform.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from .arrays import SplitWorkload
from .parts import Pass, dropout, loss_of

_SIDE = 16
_NOISE_STDDEV = 0.1
_SHARE = 0.3  # of the columns of higher frequencies that are measured
_WINDOW = 7


@functools.cache
def load_photos() -> dict[str, np.ndarray]:
  """Incomplete and whole squares, shape (examples, 16, 16), in [0, 1]."""
  from sklearn.datasets import load_sample_images

  squares = []
  for image in load_sample_images().images:
    grey = image.mean(axis=2) / 255.0
    rows, columns = (size // _SIDE for size in grey.shape)
    grey = grey[: rows * _SIDE, : columns * _SIDE]
    cut = grey.reshape(rows, _SIDE, columns, _SIDE).swapaxes(1, 2)
    squares.append(cut.reshape(-1, _SIDE, _SIDE))
  rng = np.random.default_rng(2)
  whole = rng.permutation(np.concatenate(squares))
  is_low = np.abs(np.fft.fftfreq(_SIDE, 1 / _SIDE) + 0.5) < 2
  is_measured = is_low | (rng.random((len(whole), 1, _SIDE)) < _SHARE)
  noisy = whole + _NOISE_STDDEV * rng.standard_normal(whole.shape)
  inputs = np.abs(np.fft.ifft2(is_measured * np.fft.fft2(noisy)))
  return {
    'inputs': inputs.astype(np.float32),
    'targets': whole.astype(np.float32),
    'weights': np.ones(len(whole), np.float32),  # one per image
  }


def similarity(first: jax.Array, second: jax.Array) -> jax.Array:
  """Structural similarity of images in [0, 1], shape (batch, side, side).

      (2 m n + c) (2 cov + d) / ((m^2 + n^2 + c) (v + w + d))

  with the means m and n, variances v and w and the covariance of windows of 7 x
  7, c = .01^2 and d = .03^2; the mean over all windows, shape (batch,).

  Source: Wang et al. 2004, with the uniform windows that fastMRI takes.
  """

  def mean(x: jax.Array) -> jax.Array:
    return nn.avg_pool(x[..., None], (_WINDOW, _WINDOW))[..., 0]

  m, n = mean(first), mean(second)
  unbiased = _WINDOW**2 / (_WINDOW**2 - 1)
  v, w = (
    (mean(x * x) - y * y) * unbiased for x, y in ((first, m), (second, n))
  )
  covariance = (mean(first * second) - m * n) * unbiased
  c, d = 0.01**2, 0.03**2
  above = (2 * m * n + c) * (2 * covariance + d)
  below = (m * m + n * n + c) * (v + w + d)
  return (above / below).mean(axis=(1, 2))


class UNet(nn.Module):
  """Convolutions to a quarter of the side and up again, joined on each level.

  Their result, in units of the input's deviation, is added to the input.
  """

  activation: Callable[[jax.Array], jax.Array] = nn.leaky_relu
  features: int = 12

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    """Images of the same shape, (batch, side, side)."""

    def convolved(x: jax.Array, features: int) -> jax.Array:
      x = nn.Conv(features, (3, 3), use_bias=False)(x)
      # Instance normalisation: each channel of each image by itself.
      x = x - x.mean(axis=(1, 2), keepdims=True)
      x = x / jnp.sqrt((x * x).mean(axis=(1, 2), keepdims=True) + 1e-5)
      return dropout(self, self.activation(x), how)

    x, before = inputs[..., None], []
    for level in range(2):
      before.append(convolved(x, self.features << level))
      x = nn.avg_pool(before[-1], (2, 2), (2, 2))
    x = convolved(x, self.features << 2)
    for level in (1, 0):
      x = nn.ConvTranspose(self.features << level, (2, 2), (2, 2))(x)
      x = convolved(jnp.concatenate([x, before[level]], -1), x.shape[-1])
    change = nn.Conv(1, (1, 1), name='output')(x)[..., 0]
    return inputs + inputs.std(axis=(1, 2), keepdims=True) * change


class PhotosWorkload(SplitWorkload):
  """After fastMRI's."""

  name, examples = 'photos', staticmethod(load_photos)
  target_metric_name, metric_rises = 'ssim', True
  loss_type = spec.LossType.MEAN_ABSOLUTE_ERROR
  packages = ('sklearn', 'PIL')
  activation: Callable[..., jax.Array] = staticmethod(nn.leaky_relu)

  # The mean absolute error of each image, shape (batch,); never smoothed.
  loss_fn = loss_of(
    lambda labels, logits, _: jnp.abs(logits - labels).mean(axis=(1, 2))
  )

  def _make_model(self) -> nn.Module:
    return UNet(self.activation)

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    ssim = similarity(logits, batch['targets']) * batch['weights']
    return {**super()._eval_outputs(logits, batch), 'ssim': ssim}


class TanhPhotosWorkload(PhotosWorkload):
  """After its variant with another activation."""

  name, activation = 'photos_tanh', staticmethod(nn.tanh)
