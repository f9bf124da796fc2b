"""Parts of small networks in plain JAX, and data, for studies of many runs.

Parameters are lists and dicts of arrays; nothing has a state. `own_loop` has an
attention of its own, whose sums are in another order: with this one its log
would differ.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax


def dense(key: jax.Array, inputs: int, outputs: int) -> Any:
  """A kernel of He's size, shape=(inputs, outputs), and a bias of zeros."""
  kernel = jax.nn.initializers.he_normal()(key, (inputs, outputs))
  return {'kernel': kernel, 'bias': jnp.zeros(outputs)}


def apply_dense(layer: Any, x: jax.Array) -> jax.Array:
  """x W + b; shape=(…, inputs) -> (…, outputs)."""
  return x @ layer['kernel'] + layer['bias']


def layers(key: jax.Array, *sizes: int) -> Any:
  """Dense layers from each size to the next."""
  pairs = list(pairwise(sizes))
  keys = jax.random.split(key, len(pairs))
  return [dense(k, *pair) for k, pair in zip(keys, pairs)]


def apply_layers(params: Any, x: jax.Array) -> jax.Array:
  """Dense layers with relu between them."""
  for layer in params[:-1]:
    x = jax.nn.relu(apply_dense(layer, x))
  return apply_dense(params[-1], x)


def transformer_init(
  key: jax.Array, symbols: int, context: int, width: int, depth: int
) -> Any:
  """Layers of causal attention and Dense layers."""
  normal = jax.nn.initializers.normal(0.1)
  keys = jax.random.split(key, 3 + 2 * depth)
  blocks = [
    {
      'qkv': normal(qkv, (width, 3 * width)),
      'mlp': layers(mlp, width, 4 * width, width),
    }
    for qkv, mlp in zip(keys[3::2], keys[4::2])
  ]
  return {
    'embedding': normal(keys[0], (symbols, width)),
    'position': normal(keys[1], (context, width)),
    'blocks': blocks,
    'out': layers(keys[2], width, symbols),
  }


def transformer_apply(params: Any, tokens: jax.Array, heads: int) -> jax.Array:
  """Logits of the next symbol: shape=(batch, context, symbols)."""
  norm: Any = functools.partial(jax.nn.standardize, axis=-1)
  context = tokens.shape[1]
  x = params['embedding'][tokens] + params['position'][None, :context]
  mask = np.tril(np.ones((context, context), bool))[None, None]
  for block in params['blocks']:
    parts = jnp.split(norm(x) @ block['qkv'], 3, axis=-1)
    q, k, v = (
      part.reshape(*part.shape[:2], heads, -1).transpose(0, 2, 1, 3)
      for part in parts
    )
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    attended = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ v
    x = x + attended.transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + apply_layers(block['mlp'], norm(x))
  return apply_layers(params['out'], norm(x))


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """The mean over all labels; logits have one more axis, of the classes."""
  each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
  return each.mean()


def accuracy(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """The share of the labels that the largest logit names."""
  return (logits.argmax(-1) == labels).mean()


def digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
  """Scikit-learn's digits in an order of the seed's.

  Returns:
    Pixels from 0 to 16, shape=(1797, 64), float64, and labels, shape=(1797,).
  """
  from sklearn.datasets import load_digits

  images, labels = load_digits(return_X_y=True)
  order = np.random.default_rng(seed).permutation(len(labels))
  return images[order], labels[order]
