"""The small Transformer: against plain loops; masks; decoding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.mini_algoperf.workloads import transformer
from reset_cycles.mini_algoperf.workloads.parts import EVALUATION
from reset_cycles.mini_algoperf.workloads.transformer import Transformer

VOCAB = 11
MODEL = Transformer(VOCAB, features=8, num_heads=2)
# Two sentences with 4 and 2 tokens, and translations with 5 and 3.
SOURCES = np.array([[3, 4, 5, 1], [6, 1, 0, 0]])
TARGETS = np.array([[7, 8, 9, 2, 1], [10, 3, 1, 0, 0]])


@pytest.fixture(scope='module')
def params():
  """Drawn by NumPy: compiling the initialisation takes seconds.

  With this seed the translations differ, and have three different tokens.
  """
  shapes = jax.eval_shape(
    lambda key: MODEL.init(key, (SOURCES, TARGETS), EVALUATION),
    jax.random.PRNGKey(0),
  )
  rng = np.random.default_rng(7)
  return jax.tree_util.tree_map(
    lambda leaf: 0.4 * rng.standard_normal(leaf.shape, dtype=np.float32),
    shapes['params'],
  )


@jax.jit
def logits(params, sources, targets):
  return MODEL.apply({'params': params}, (sources, targets), EVALUATION)


def softmax(x):
  shares = np.exp(x - x.max())
  return shares / shares.sum()


def test_attention_agrees_with_a_plain_loop():
  attention = transformer.Attention(num_heads=2)
  rng = np.random.default_rng(0)
  queries = rng.standard_normal((2, 3, 6)).astype(np.float32)
  memory = rng.standard_normal((2, 4, 6)).astype(np.float32)
  mask = rng.random((2, 3, 4)) < 0.7
  mask[:, :, 0] = True
  weights = {
    name: rng.standard_normal((6, 6)).astype(np.float32)
    for name in ('query', 'key', 'value', 'out')
  }
  variables = {'params': {k: {'kernel': w} for k, w in weights.items()}}
  expected = np.zeros((2, 3, 6))
  for b in range(2):
    for i in range(3):
      mixed = np.zeros(6)
      for head in (slice(0, 3), slice(3, 6)):
        query = (queries[b, i] @ weights['query'])[head]
        keys = (memory[b] @ weights['key'])[:, head]
        values = (memory[b] @ weights['value'])[:, head]
        seen = mask[b, i]
        shares = softmax(keys[seen] @ query / np.sqrt(3))
        mixed[head] = shares @ values[seen]
      expected[b, i] = mixed @ weights['out']
  result = jax.jit(attention.apply)(variables, queries, memory, mask)
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_the_whole_source_counts_and_its_padding_does_not(params):
  before, changed = logits(params, SOURCES, TARGETS), SOURCES.copy()
  padded = np.pad(SOURCES, ((0, 0), (0, 2)))
  np.testing.assert_allclose(
    logits(params, padded, TARGETS), before, rtol=0, atol=1e-4
  )
  changed[:, 1] = 7
  change = np.abs(logits(params, changed, TARGETS) - before).max(axis=-1)
  assert (change > 1e-4).all()


def test_greedy_decoding_agrees_with_one_token_after_another(params):
  expected = np.zeros_like(SOURCES)
  for i in range(SOURCES.shape[1]):
    chosen = np.argmax(logits(params, SOURCES, expected), axis=-1)
    expected[:, i] = chosen[:, i]
  translated = jax.jit(
    lambda params, sources: transformer.greedy_translations(
      MODEL, params, sources
    )
  )(params, jnp.asarray(SOURCES))
  np.testing.assert_array_equal(translated, expected)
  assert len(np.unique(expected)) > 2
