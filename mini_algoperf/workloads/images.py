"""Two more networks on the images of `digits`: patches and residual blocks."""

from __future__ import annotations

import functools

import flax.linen as nn
import jax
import numpy as np

from .digits import DigitsWorkload
from .parts import Pass, batch_norm, dropout
from .transformer import Block, sinusoids

_NUM_CLASSES = 10


class PatchTransformer(nn.Module):
  """Two Transformer blocks on patches of 2 x 2 pixels, and their mean."""

  gated: bool = False  # see `transformer.Block`
  features: int = 48

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    x = nn.Conv(self.features, (2, 2), strides=(2, 2))(inputs)
    x = x.reshape(len(x), -1, self.features)
    x = x + sinusoids(x.shape[1], self.features)[None]
    everywhere = np.ones((1, 1, x.shape[1]), bool)
    for _ in range(2):
      block = Block(4, 2 * self.features, gated=self.gated)
      x = block(x, everywhere, how)
    x = nn.LayerNorm()(x).mean(axis=1)
    return nn.Dense(_NUM_CLASSES, name='output')(x)


class ResidualNet(nn.Module):
  """Three residual blocks of two convolutions with BatchNorm, as ResNet's."""

  axis_name: str | None = None  # over which batch statistics are synchronised

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    conv = functools.partial(nn.Conv, use_bias=False)
    norm = batch_norm(how, self.axis_name)
    x = nn.relu(norm()(conv(12, (3, 3))(inputs)))
    for features, stride in ((12, 1), (24, 2), (24, 1)):
      y = conv(features, (3, 3), strides=(stride, stride))(x)
      y = conv(features, (3, 3))(nn.relu(norm()(y)))
      # A block begins as the identity, as in the benchmark.
      y = norm(scale_init=nn.initializers.zeros)(y)
      if x.shape != y.shape:
        x = norm()(conv(features, (1, 1), strides=(stride, stride))(x))
      x = nn.relu(x + y)
    x = dropout(self, x.mean(axis=(1, 2)), how)
    return nn.Dense(_NUM_CLASSES, name='output')(x)


class PatchesWorkload(DigitsWorkload):
  """After ImageNet's ViT."""

  name, output_layer = 'patches', 'output'
  gated = False

  def _make_model(self) -> nn.Module:
    return PatchTransformer(self.gated)


class GatedPatchesWorkload(PatchesWorkload):
  """After its variant with gated linear units."""

  name, gated = 'patches_glu', True


class ResidualWorkload(DigitsWorkload):
  """After ImageNet's ResNet."""

  name, output_layer = 'residual', 'output'

  def _make_model(self) -> nn.Module:
    return ResidualNet(self._axis_name)
