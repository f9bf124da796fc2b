"""A small Transformer for sequence to sequence, pre-layer-norm as WMT's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .parts import EVALUATION, Pass, dropout

# Added to the scores of masked positions; finite, so that a row of masked
# positions has no NaN.
_MASKED = -1e9


def sinusoids(length: int, features: int) -> np.ndarray:
  """Encodings of the positions, shape (length, features).

      p(t, 2i) = sin(t / 10000^(2i / F)), p(t, 2i + 1) = cos(the same)

  Source: Vaswani et al. 2017, section 3.5; sines and cosines are in two halves
  here instead of alternating.
  """
  rates = 10_000.0 ** (-np.arange(0, features, 2) / features)
  angles = np.arange(length)[:, None] * rates[None, :]
  return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(
    np.float32
  )


def causal_mask(length: int) -> np.ndarray:
  """True where a position may look: at earlier positions, and at itself."""
  return np.tril(np.ones((1, length, length), bool))


def make_embedding(
  vocab_size: int, features: int, name: str | None = None
) -> nn.Embed:
  """The table of tokens, whose vectors have a length of about 1."""
  init = nn.initializers.normal(1.0 / features**0.5)
  return nn.Embed(vocab_size, features, embedding_init=init, name=name)


def embed(embedding: nn.Embed, tokens: jax.Array) -> jax.Array:
  """Tokens as vectors that know their positions, shape (batch, t, features)."""
  x = embedding(tokens) * embedding.features**0.5
  return x + sinusoids(tokens.shape[1], embedding.features)[None]


class Attention(nn.Module):
  """Multi-head attention."""

  num_heads: int  # divides the features

  @nn.compact
  def __call__(
    self, queries: jax.Array, memory: jax.Array, mask: Any
  ) -> jax.Array:
    """Mixes `memory`, (batch, k, features), for queries (batch, q, features).

    The mask is true where a query may look, shape (batch or 1, q or 1, k).
    """
    features = queries.shape[-1]
    size = features // self.num_heads

    def heads(name: str, x: jax.Array) -> jax.Array:
      x = nn.Dense(features, use_bias=False, name=name)(x)
      return x.reshape(*x.shape[:2], self.num_heads, size)

    query, key = heads('query', queries), heads('key', memory)
    scores = jnp.einsum('bqhd,bkhd->bhqk', query, key) / size**0.5
    scores = jnp.where(mask[:, None], scores, _MASKED)
    mixed = jnp.einsum(
      'bhqk,bkhd->bqhd', jax.nn.softmax(scores), heads('value', memory)
    )
    mixed = mixed.reshape(queries.shape)
    return nn.Dense(features, use_bias=False, name='out')(mixed)


class Block(nn.Module):
  """Self-attention, attention to a memory if there is one, two dense layers.

  Each is applied to the normalised input and added to it.
  """

  num_heads: int
  hidden: int  # width between the dense layers
  activation: Callable[[jax.Array], jax.Array] = nn.relu
  gated: bool = False  # whether the activated layer multiplies a third layer

  @nn.compact
  def __call__(
    self,
    x: jax.Array,
    mask: jax.Array | np.ndarray,
    how: Pass,
    memory: jax.Array | None = None,
    memory_mask: Any = None,
  ) -> jax.Array:
    def add(x: jax.Array, change: jax.Array) -> jax.Array:
      return x + dropout(self, change, how)

    y = nn.LayerNorm()(x)
    x = add(x, Attention(self.num_heads, name='attention')(y, y, mask))
    if memory is not None:
      y = nn.LayerNorm()(x)
      cross = Attention(self.num_heads, name='cross_attention')
      x = add(x, cross(y, memory, memory_mask))
    normed = nn.LayerNorm()(x)
    y = self.activation(nn.Dense(self.hidden)(normed))
    if self.gated:
      y = y * nn.Dense(self.hidden)(normed)
    return add(x, nn.Dense(x.shape[-1])(y))


class Transformer(nn.Module):
  """Encoder and decoder of a block each, one embedding for both languages."""

  vocab_size: int  # token 0 is padding and starts every translation
  features: int = 96
  num_heads: int = 4
  gated: bool = False  # its activation is then tanh

  def setup(self) -> None:
    """Makes the layers; `encode` and `decode` share the embedding."""
    self.embedding = make_embedding(self.vocab_size, self.features)
    activation = nn.tanh if self.gated else nn.relu
    sizes = (self.num_heads, 2 * self.features, activation, self.gated)
    # Lists: flax then names the parameters as when the targets were set, and
    # draws them by their names.
    self.encoder, self.decoder = [Block(*sizes)], [Block(*sizes)]
    self.encoder_norm, self.decoder_norm = nn.LayerNorm(), nn.LayerNorm()
    self.output = nn.Dense(self.vocab_size)

  def __call__(self, inputs: Sequence[Any], how: Pass) -> jax.Array:
    """Logits of every target token, given those before it.

    From tokens of the sources, (batch, s), and of the translations, (batch, t),
    to shape (batch, t, vocab_size).
    """
    sources, targets = inputs
    return self.decode(self.encode(sources, how), sources, targets, how)

  def encode(self, sources: jax.Array, how: Pass = EVALUATION) -> jax.Array:
    """The memory that the decoder looks at, shape (batch, s, features)."""
    x = dropout(self, embed(self.embedding, sources), how)
    is_token = (sources > 0)[:, None, :]
    x = self.encoder[0](x, is_token, how)
    return self.encoder_norm(x)

  def decode(
    self,
    memory: jax.Array,
    sources: jax.Array,
    targets: jax.Array,
    how: Pass = EVALUATION,
  ) -> jax.Array:
    """Logits of every target token from those before it; see `__call__`."""
    before = jnp.pad(targets[:, :-1], ((0, 0), (1, 0)))
    x = dropout(self, embed(self.embedding, before), how)
    mask, is_token = causal_mask(targets.shape[1]), (sources > 0)[:, None, :]
    x = self.decoder[0](x, mask, how, memory, is_token)
    return self.output(self.decoder_norm(x))


def greedy_translations(
  model: Transformer, params: Any, sources: jax.Array
) -> jax.Array:
  """The likeliest tokens, one after the other, each given the tokens before it.

  From tokens, shape (batch, length), to the same shape; tokens after an end
  marker mean nothing.
  """
  memory = model.apply({'params': params}, sources, method=Transformer.encode)

  def extend(_: jax.Array, tokens: jax.Array) -> jax.Array:
    # Every round makes one more token final: its logits depend on earlier
    # tokens only, which are final by then.
    logits: Any = model.apply(
      {'params': params}, memory, sources, tokens, method=Transformer.decode
    )
    return jnp.argmax(logits, axis=-1).astype(tokens.dtype)

  tokens: jax.Array = jax.lax.fori_loop(
    0, sources.shape[1], extend, jnp.zeros_like(sources)
  )
  return tokens
