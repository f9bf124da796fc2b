"""Workloads `waves`, `frames`: name each frame's sound; the error rate falls.

A speaker says sounds of two to five frames. Each of ten sounds has a spectrum
of twelve numbers; neighbours run into each other, a speaker has a voice that is
added to all frames, and there is noise. So a frame has to be named by the
frames around it.
"""

from __future__ import annotations

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .arrays import SPLIT_SIZES, Classification, SplitWorkload
from .parts import Pass, batch_norm, dropout
from .transformer import Block, sinusoids

_NUM_SOUNDS, _NUM_BANDS, _NUM_FRAMES = 10, 12, 32


@functools.cache
def load_speech() -> dict[str, np.ndarray]:
  """Spectra, shape (examples, 32, 12), and the sound of each frame."""
  rng, size = np.random.default_rng(3), sum(SPLIT_SIZES.values())
  spectra = rng.standard_normal((_NUM_SOUNDS, _NUM_BANDS))
  chosen_sounds = rng.integers(_NUM_SOUNDS, size=(size, _NUM_FRAMES))
  lengths = rng.integers(2, 6, size=chosen_sounds.shape)
  sounds = np.stack(
    [np.repeat(s, n)[:_NUM_FRAMES] for s, n in zip(chosen_sounds, lengths)]
  )
  clean = spectra[sounds]
  padded = np.pad(clean, ((0, 0), (1, 1), (0, 0)), 'edge')
  clean = (padded[:, :-2] + clean + padded[:, 2:]) / 3.0
  voices = rng.standard_normal((size, 1, _NUM_BANDS))
  heard = clean + 0.7 * voices + 0.7 * rng.standard_normal(clean.shape)
  return {
    'inputs': heard.astype(np.float32), 'targets': sounds.astype(np.int32),
  }  # fmt: skip


class GatedRecurrence(nn.Module):
  """A gated recurrent unit over the second axis, from a state of 0.

      r, z = sigmoid(x_t W + h U),  n = tanh(x_t W' + r (h U'))
      h' = (1 - z) n + z h

  Source: Cho et al. 2014; written out, as flax has it in two forms.
  """

  features: int

  @nn.compact
  def __call__(self, x: jax.Array, reverse: bool = False) -> jax.Array:
    """From (batch, t, ...) to (batch, t, features)."""
    inputs = nn.Dense(3 * self.features)(x).swapaxes(0, 1)
    init = nn.initializers.orthogonal()
    recurrent = self.param(
      'recurrent', init, (self.features, 3 * self.features)
    )

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
      of_x, of_h = (jnp.split(v, 3, axis=-1) for v in (x, h @ recurrent))
      r, z = (nn.sigmoid(a + b) for a, b in zip(of_x[:2], of_h[:2]))
      h = (1.0 - z) * jnp.tanh(of_x[2] + r * of_h[2]) + z * h
      return h, h

    start = jnp.zeros((inputs.shape[1], self.features))
    states: jax.Array = jax.lax.scan(step, start, inputs, reverse=reverse)[1]
    return states.swapaxes(0, 1)


class RecurrentNet(nn.Module):
  """A dense layer with BatchNorm, then gated recurrence in both directions."""

  axis_name: str | None = None  # over which batch statistics are synchronised
  features: int = 48

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    x = nn.Dense(self.features, use_bias=False)(inputs)
    x = nn.relu(batch_norm(how, self.axis_name)()(x))
    both = [GatedRecurrence(self.features)(x, back) for back in (False, True)]
    x = dropout(self, jnp.concatenate(both, axis=-1), how)
    return nn.Dense(_NUM_SOUNDS, name='output')(x)


class ConvolvingTransformer(nn.Module):
  """Two blocks of attention and dense layers, a convolution after each."""

  features: int = 48

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    size = self.features
    x = nn.Dense(size)(inputs) + sinusoids(inputs.shape[1], size)[None]
    everywhere = np.ones((1, 1, inputs.shape[1]), bool)
    for i in range(2):
      block = Block(4, 2 * size, activation=nn.swish)
      x = block(x, everywhere, how)
      y = nn.glu(nn.Dense(2 * size)(nn.LayerNorm()(x)))
      # Each channel over five frames; XLA's own is slow on a CPU.
      taps = self.param(f'taps_{i}', nn.initializers.normal(0.4), (5, 1, size))
      padded = jnp.pad(y, ((0, 0), (2, 2), (0, 0)))
      length = y.shape[1]
      y = taps[:1] * padded[:, :length]
      for k in range(1, 5):
        y = y + taps[k : k + 1] * padded[:, k : k + length]
      y = nn.Dense(size)(nn.swish(nn.LayerNorm()(y)))
      x = x + dropout(self, y, how)
    return nn.Dense(_NUM_SOUNDS, name='output')(nn.LayerNorm()(x))


class WavesWorkload(Classification, SplitWorkload):
  """After LibriSpeech's DeepSpeech."""

  name, examples = 'waves', staticmethod(load_speech)

  def _make_model(self) -> nn.Module:
    return RecurrentNet(self._axis_name)


class FramesWorkload(Classification, SplitWorkload):
  """After LibriSpeech's Conformer."""

  name, examples = 'frames', staticmethod(load_speech)

  def _make_model(self) -> nn.Module:
    return ConvolvingTransformer()
