"""Workload `text`: predict the next character; the metric, ppl, falls.

The data are windows of characters of this project's own documents. `text.txt`
is a copy of them, without tables, from November 2026. It stays as it is when
they change, since the targets were set with it. Its licence is the project's.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from .arrays import ArrayWorkload
from .parts import Pass, dropout, mean, split_slices
from .transformer import Block, causal_mask, embed, make_embedding

LENGTH = 64
UNKNOWN = 0
# Characters that are rarer are all one token.
_MIN_COUNT = 10
# The text is cut into blocks, and each belongs to one split as a whole.
_BLOCK = 1024
_NUM_BLOCKS = {'train': 60, 'validation': 10, 'test': 10}
# Training windows begin this far apart; the others don't overlap.
_TRAIN_STRIDE = 16
_SPLIT_SEED = 1948
_FILE = pathlib.Path(__file__).with_name('text.txt')


def _starts(split: str) -> range:
  stride = _TRAIN_STRIDE if split == 'train' else LENGTH
  return range(0, _BLOCK - LENGTH, stride)


SPLIT_SIZES = {
  split: number * len(_starts(split)) for split, number in _NUM_BLOCKS.items()
}


@functools.cache
def load_tokens() -> tuple[np.ndarray, np.ndarray]:
  """The vocabulary and the text.

  Returns:
    Code points of the characters that have a token, ascending. The i-th has the
      token i + 1, and all other characters have UNKNOWN. Then the text's
      tokens, shape (characters,), int32.
  """
  code_points = np.array([*map(ord, _FILE.read_text(encoding='utf-8'))])
  characters, places, counts = np.unique(
    code_points, return_inverse=True, return_counts=True
  )
  is_known = counts >= _MIN_COUNT
  tokens = np.where(is_known, np.cumsum(is_known), UNKNOWN)[places]
  return characters[is_known], tokens.astype(np.int32)


def vocab_size() -> int:
  """Number of tokens, UNKNOWN included."""
  return 1 + len(load_tokens()[0])


@functools.cache
def load_windows(split: str) -> dict[str, np.ndarray]:
  """All windows of a split; no character of it is in another split's windows.

  'inputs' and 'targets' are tokens, shape (windows, LENGTH), int32. A target is
  the token after its input.
  """
  num_blocks = sum(_NUM_BLOCKS.values())
  tokens = load_tokens()[1][: num_blocks * _BLOCK]
  order = np.random.default_rng(_SPLIT_SEED).permutation(num_blocks)
  chosen = tokens.reshape(num_blocks, _BLOCK)[
    order[split_slices(_NUM_BLOCKS)[split]]
  ]
  pieces = np.stack([chosen[:, s : s + LENGTH + 1] for s in _starts(split)], 1)
  pieces = pieces.reshape(-1, LENGTH + 1)
  return {'inputs': pieces[:, :-1], 'targets': pieces[:, 1:]}


def perplexity(outputs: Mapping[str, np.ndarray]) -> spec.EvalResult:
  """The mean loss L in nats per token and ppl = exp(L)."""
  loss = mean(outputs, 'loss')
  with np.errstate(over='ignore'):  # inf, of a model that has diverged
    return {'loss': loss, 'ppl': float(np.exp(loss))}


class LanguageModel(nn.Module):
  """A decoder of one block: every position sees itself and those before it."""

  vocab_size: int
  features: int = 96
  num_heads: int = 4
  activation: Callable[[jax.Array], jax.Array] = nn.relu

  @nn.compact
  def __call__(self, inputs: jax.Array, how: Pass) -> jax.Array:
    """Logits of the token after each of `inputs`, (batch, length, tokens)."""
    embedding = make_embedding(self.vocab_size, self.features, 'embedding')
    x = dropout(self, embed(embedding, inputs), how)
    block = Block(self.num_heads, 2 * self.features, self.activation)
    x = block(x, causal_mask(inputs.shape[1]), how)
    return nn.Dense(self.vocab_size, name='output')(nn.LayerNorm()(x))


class TextWorkload(ArrayWorkload):
  """This project's documents, a small Transformer, after FineWeb-Edu's LM."""

  name = 'text'
  target_metric_name, metric_rises = 'ppl', False
  num_train_examples, num_validation_examples, num_test_examples = (
    SPLIT_SIZES.values()
  )
  num_eval_train_examples = num_validation_examples
  eval_batch_size, default_batch_size = 80, 16
  step_hint, eval_every_steps = 1200, 60
  max_allowed_runtime_sec, eval_period_time_sec = 300, 2

  def load_split(
    self, split: str, data_dir: str | None
  ) -> Mapping[str, np.ndarray]:
    """Windows of characters; they come with the project."""
    return load_windows(split)

  def _make_model(self) -> nn.Module:
    return LanguageModel(vocab_size())

  def _fake_inputs(self) -> jax.Array:
    return jnp.zeros((1, LENGTH), jnp.int32)

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    return perplexity(outputs)
