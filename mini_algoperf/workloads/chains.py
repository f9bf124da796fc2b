"""Workload `chains`: the next of random tokens; the metric, perplexity, falls.

The probabilities of a token follow from the one before it and the one three
before it, by two tables that add up on the log scale, so that the loss has a
floor.
"""

from __future__ import annotations

import functools

import flax.linen as nn
import numpy as np

from .. import spec
from .arrays import SPLIT_SIZES, SplitWorkload
from .text import LanguageModel, perplexity

_NUM_TOKENS, _LENGTH = 24, 32


@functools.cache
def load_chains() -> dict[str, np.ndarray]:
  """Tokens and those that follow, each of shape (examples, 32), int32."""
  rng, size = np.random.default_rng(4), sum(SPLIT_SIZES.values())
  near, far = 2.0 * rng.standard_normal((2, _NUM_TOKENS, _NUM_TOKENS))
  tokens = rng.integers(_NUM_TOKENS, size=(size, _LENGTH + 4))
  for t in range(3, _LENGTH + 4):
    logits = near[tokens[:, t - 1]] + far[tokens[:, t - 3]]
    # The largest of Gumbel-noised logits is a draw from their softmax.
    tokens[:, t] = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
  tokens = tokens[:, 3:].astype(np.int32)
  return {'inputs': tokens[:, :-1], 'targets': tokens[:, 1:]}


class ChainsWorkload(SplitWorkload):
  """After FineWeb-Edu's language model, with another activation than `text`."""

  name, examples = 'chains', staticmethod(load_chains)
  target_metric_name, metric_rises = 'ppl', False

  def _make_model(self) -> nn.Module:
    return LanguageModel(_NUM_TOKENS, 48, activation=nn.gelu)

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    return perplexity(outputs)
