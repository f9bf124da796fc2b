"""Parts of small networks in plain JAX, and data, for studies of many runs.

Parameters are lists and dicts of arrays; nothing has a state. Attention is not
here: the studies' two differ in the order of their sums, and so would their
logs.
"""

from __future__ import annotations

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
