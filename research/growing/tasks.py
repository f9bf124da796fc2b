"""Four small tasks whose training data may grow.

All ten seeds of a task are trained by one program: what differs between them is
an argument, and `jax.vmap` runs over them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...mini_algoperf.workloads import graph_batches, text
from .. import small
from ..small import (
  accuracy,
  apply_dense,
  apply_layers,
  cross_entropy,
  dense,
  layers,
)


class Task(NamedTuple):
  """A network in plain JAX, and all data of a task.

  The labels of an example are one number, a row of tokens, or a row of 0, 1 and
  2, where 2 is a label that is missing.
  """

  init: Callable[[jax.Array], tuple[Any, Any]]  # key -> parameters, statistics
  # parameters, statistics, inputs, training? -> outputs, new statistics
  apply: Callable[[Any, Any, Any, bool], tuple[Any, Any]]
  loss: Callable[[Any, Any], jax.Array]  # of outputs and labels
  metric: Callable[[Any, Any], jax.Array]  # the same
  rises: bool
  num_classes: int  # that labels are permuted among; columns for molecules
  train: tuple[np.ndarray, np.ndarray]  # inputs, labels
  test: tuple[np.ndarray, np.ndarray]
  batch: int
  peak: float  # of the learning rate; see `study`
  steps: int = 180  # of a stage
  every: int = 15  # steps between evaluations
  has_columns: bool = False  # whether an example has a label in each class


@functools.cache
def _digits() -> tuple[Any, Any]:
  """1,000 images to train on and 797 to test on, noise drawn once for each."""
  pixels, labels = small.digits(seed=44)
  rng = np.random.default_rng(44)
  rng.permutation(len(labels))  # as the order was drawn, before the noise
  pixels = (pixels - pixels.mean()) / pixels.std()
  pixels += 0.7 * rng.standard_normal(pixels.shape)
  inputs = pixels.reshape(-1, 8, 8, 1).astype(np.float32)
  targets = labels.astype(np.int32)
  return (inputs[:1000], targets[:1000]), (inputs[1000:], targets[1000:])


def _patches(x: jax.Array) -> jax.Array:
  """The 3x3 neighbourhood of every second pixel: a convolution of stride 2."""
  height = x.shape[1]
  x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
  parts = [
    x[:, i : i + height : 2, j : j + height : 2]
    for i in range(3)
    for j in range(3)
  ]
  return jnp.concatenate(parts, axis=-1)


def images(has_norm: bool) -> Task:
  """Two convolutions, with or without batch normalisation, and two layers."""
  train, test = _digits()
  widths = (16, 32)

  def init(key: jax.Array) -> tuple[Any, Any]:
    keys = jax.random.split(key, 4)
    params = {
      'conv0': dense(keys[0], 9, widths[0]),
      'conv1': dense(keys[1], 9 * widths[0], widths[1]),
      'hidden': dense(keys[2], 4 * widths[1], 64),
      'out': dense(keys[3], 64, 10),
    }
    stats: dict[str, Any] = {}
    for i in range(2) if has_norm else ():
      ones, zeros = jnp.ones(widths[i]), jnp.zeros(widths[i])
      params[f'norm{i}'] = {'scale': ones, 'bias': zeros}
      stats[f'norm{i}'] = {'mean': zeros, 'var': ones}
    return params, stats

  def norm(
    layer: Any, stats: Any, x: jax.Array, is_training: bool
  ) -> tuple[jax.Array, Any]:
    if is_training:
      mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
      new = {'mean': mean, 'var': var}
      stats = jax.tree_util.tree_map(lambda a, b: 0.9 * a + 0.1 * b, stats, new)
    else:
      mean, var = stats['mean'], stats['var']
    y = (x - mean) / jnp.sqrt(var + 1e-5)
    return y * layer['scale'] + layer['bias'], stats

  def apply(
    params: Any, stats: Any, x: jax.Array, is_training: bool
  ) -> tuple[jax.Array, Any]:
    new = {}
    for i in range(2):
      x = apply_dense(params[f'conv{i}'], _patches(x))
      if has_norm:
        name = f'norm{i}'
        x, new[name] = norm(params[name], stats[name], x, is_training)
      x = jax.nn.relu(x)
    x = jax.nn.relu(apply_dense(params['hidden'], x.reshape(len(x), -1)))
    return apply_dense(params['out'], x), new

  return Task(
    *(init, apply, cross_entropy, accuracy, True, 10, train, test),
    batch=32,
    peak=0.03 if has_norm else 0.01,
    steps=180 if has_norm else 360,
    every=15 if has_norm else 20,
  )


def characters() -> Task:
  """The next of 32 characters by a Transformer of one block; perplexity."""
  length, width, heads = 32, 32, 2
  size = text.vocab_size()

  def windows(split: str) -> tuple[np.ndarray, np.ndarray]:
    data = text.load_windows(split)
    return data['inputs'][:, :length], data['targets'][:, :length]

  def init(key: jax.Array) -> tuple[Any, Any]:
    keys = iter(jax.random.split(key, 9))
    normal: Callable[..., Any] = lambda *shape: (
      jax.random.normal(next(keys), shape) / width**0.5
    )
    unit: Callable[..., Any] = lambda: {
      'scale': jnp.ones(width),
      'bias': jnp.zeros(width),
    }
    params = {
      'table': normal(size, width),
      'places': normal(length, width),
      'qkv': normal(width, 3 * width),
      'mix': normal(width, width),
      'up': dense(next(keys), width, 2 * width),
      'down': dense(next(keys), 2 * width, width),
      'out': {'kernel': normal(width, size), 'bias': jnp.zeros(size)},
      'norms': [unit(), unit(), unit()],
    }
    return params, {}

  def norm(layer: Any, x: jax.Array) -> jax.Array:
    x = jax.nn.standardize(x, axis=-1)
    return x * layer['scale'] + layer['bias']

  def apply(
    params: Any, stats: Any, tokens: jax.Array, is_training: bool
  ) -> tuple[jax.Array, Any]:
    x = params['table'][tokens] * width**0.5 + params['places']
    y = norm(params['norms'][0], x) @ params['qkv']
    parts = y.reshape(*y.shape[:2], 3, heads, width // heads)
    query, key, value = (parts[:, :, i] for i in range(3))
    scores = jnp.einsum('bqhd,bkhd->bhqk', query, key) / (width / heads) ** 0.5
    scores = jnp.where(np.tril(np.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum('bhqk,bkhd->bqhd', jax.nn.softmax(scores), value)
    x = x + mixed.reshape(x.shape) @ params['mix']
    y = jax.nn.relu(apply_dense(params['up'], norm(params['norms'][1], x)))
    x = x + apply_dense(params['down'], y)
    return apply_dense(params['out'], norm(params['norms'][2], x)), stats

  perplexity = lambda logits, labels: jnp.exp(cross_entropy(logits, labels))
  inputs, targets = windows('validation')
  test = inputs[:100], targets[:100]
  return Task(
    *(init, apply, cross_entropy, perplexity, False, size),
    *(windows('train'), test),
    batch=8,
    peak=0.03,
  )


def _molecule_features() -> tuple[np.ndarray, np.ndarray]:
  """Counts of each atom's and bond's features in a molecule, and its labels."""
  rows, labels = [], []
  graphs = graph_batches.load_graphs()
  nodes = np.concatenate([g.nodes for g in graphs])
  edges = np.concatenate([g.edges for g in graphs])
  kinds = [np.unique(column) for column in nodes.T]
  bonds = [np.unique(column) for column in edges.T]
  for graph in graphs:
    counts = [
      (graph.nodes[:, i, None] == k).sum(0) for i, k in enumerate(kinds)
    ]
    counts += [
      (graph.edges[:, i, None] == k).sum(0) for i, k in enumerate(bonds)
    ]
    # Which kinds of atoms are neighbours.
    pairs = np.zeros((len(kinds[0]), len(kinds[0])))
    atom = np.searchsorted(kinds[0], graph.nodes[:, 0])
    np.add.at(pairs, (atom[graph.ends[:, 0]], atom[graph.ends[:, 1]]), 1)
    rows.append(np.concatenate([*counts, pairs.ravel()]))
    labels.append(np.where(np.isnan(graph.labels), 2, graph.labels))
  x = np.stack(rows)
  x = (x - x.mean(0)) / (x.std(0) + 1e-3)
  return x.astype(np.float32), np.stack(labels).astype(np.int32)


def molecules() -> Task:
  """128 properties of a molecule from counts, by two hidden layers; mAP."""
  inputs, labels = _molecule_features()
  train = inputs[:3072], labels[:3072]
  test = inputs[3072:3328], labels[3072:3328]

  def init(key: jax.Array) -> tuple[Any, Any]:
    return layers(key, inputs.shape[1], 64, 64, 128), {}

  def apply(
    params: Any, stats: Any, x: jax.Array, is_training: bool
  ) -> tuple[jax.Array, Any]:
    return apply_layers(params, x), stats

  def loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    each = optax.sigmoid_binary_cross_entropy(logits, labels == 1)
    is_there = labels < 2
    return jnp.sum(each * is_there) / jnp.sum(is_there)

  def mean_average_precision(logits: jax.Array, labels: jax.Array) -> jax.Array:
    order = jnp.argsort(jnp.where(labels < 2, -logits, jnp.inf), axis=0)
    ranked = jnp.take_along_axis(labels, order, axis=0)
    hits = jnp.cumsum(ranked == 1, axis=0)
    ranks = jnp.arange(1, len(labels) + 1)[:, None]
    total = jnp.sum((ranked == 1) * hits / ranks, axis=0)
    return jnp.mean(total / jnp.maximum(hits[-1], 1))

  return Task(
    *(init, apply, loss, mean_average_precision, True, 128, train, test),
    batch=32,
    peak=0.01,
    has_columns=True,
  )


TASKS: dict[str, Callable[[], Task]] = {
  'images': lambda: images(has_norm=False),
  'characters': characters,
  'images_norm': lambda: images(has_norm=True),
  'molecules': molecules,
}
