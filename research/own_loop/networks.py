"""Networks and data of the study without a rate: three small, three larger.

A batch is drawn from a key, so that runs with one seed see the same batches
whatever trains. The larger three are on real data. Nothing was chosen on
two of them; that on CIFAR-10 is a task of research/peaks.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import real_data, small
from ..small import accuracy, apply_dense, apply_layers, cross_entropy
from . import study

Batch = tuple[Any, Any]


class Network(NamedTuple):
  """A network, its data, and how long it is trained."""

  init: Callable[[jax.Array], Any]  # key -> parameters
  scores: Callable[[Any, Batch], tuple[Any, Any]]  # -> mean loss, accuracy
  draw: Callable[[Any, jax.Array], Batch]  # (data, key) -> batch
  data: Any  # arrays that `draw` takes from
  test: Batch
  steps: int
  is_small: bool = False


def classes(apply: Callable[[Any, Any], Any]) -> Callable[..., Any]:
  """Scores of a network that tells one class of several."""

  def scores(params: Any, batch: Batch) -> tuple[Any, Any]:
    logits = apply(params, batch[0])
    return cross_entropy(logits, batch[1]), accuracy(logits, batch[1])

  return scores


def _examples(data: Any, key: jax.Array, size: int) -> Batch:
  i = jax.random.randint(key, (size,), 0, len(data[1]))
  batch: Batch = jax.tree_util.tree_map(lambda x: x[i], data)
  return batch


def _pieces(text: Any, key: jax.Array, size: int, context: int) -> Batch:
  starts = jax.random.randint(key, (size,), 0, len(text) - context)
  return _cut(text, starts, context)


def _cut(text: Any, starts: Any, context: int) -> Batch:
  piece = text[starts[:, None] + np.arange(context + 1)]
  return piece[:, :-1], piece[:, 1:]


def digits(is_conv: bool) -> Network:
  """Scikit-learn's digits, 1,300 to train on, batches of 32."""
  pixels, y = small.digits(seed=0)
  x = (pixels / 16).astype(np.float32)
  init, apply = (
    (study.conv_init, study.conv_apply)
    if is_conv
    else (lambda key: small.layers(key, 64, 64, 10), apply_layers)
  )
  return Network(
    init,
    classes(apply),
    functools.partial(_examples, size=32),
    (jnp.asarray(x[:1300]), jnp.asarray(y[:1300])),
    (x[1300:], y[1300:]),
    study.STEPS,
    is_small=True,
  )


def characters() -> Network:
  """16 pieces of 16 characters; the last tenth of the text is the test's."""
  text = np.frombuffer(study.TEXT.read_bytes(), np.uint8)
  symbols, tokens = np.unique(text, return_inverse=True)
  cut, context = int(0.9 * len(tokens)), study.CONTEXT
  starts = np.arange(cut, len(tokens) - context - 1, 67)[:256]
  return Network(
    functools.partial(study.transformer_init, size=len(symbols)),
    classes(study.transformer_apply),
    functools.partial(_pieces, size=16, context=context),
    jnp.asarray(tokens[:cut]),
    _cut(tokens, starts, context),
    study.STEPS,
    is_small=True,
  )


def cifar(folder: pathlib.Path) -> Network:
  """10,000 images of CIFAR-10, 64 a batch; three convolutions, 95,000 weights.

  Each is followed by a normalisation over the image.
  """
  train, test = real_data.pictures(folder)
  kernel = jax.nn.initializers.he_normal()
  shapes = ((3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 64))

  def init(key: jax.Array) -> Any:
    keys = jax.random.split(key, 4)
    convolutions = [kernel(k, shape) for k, shape in zip(keys, shapes)]
    dense = small.layers(keys[3], 1024, 64, 10)
    return {'conv': convolutions, 'dense': dense}

  def apply(params: Any, x: Any) -> Any:
    numbers = ('NHWC', 'HWIO', 'NHWC')
    for weights in params['conv']:
      x = jax.lax.conv_general_dilated(
        x, weights, (2, 2), 'SAME', dimension_numbers=numbers
      )
      x = jax.nn.standardize(jax.nn.relu(x), axis=(1, 2), epsilon=1e-3)
    return apply_layers(params['dense'], x.reshape(len(x), -1))

  return Network(
    init,
    classes(apply),
    functools.partial(_examples, size=64),
    jax.tree_util.tree_map(jnp.asarray, train),
    test,
    240,
  )


def captions(folder: pathlib.Path) -> Network:
  """Multi30k's English by characters, 16 pieces of 32; 1.0 million weights."""
  train, test, symbols = real_data.captions(folder)
  context, width, depth = 32, 128, 5
  starts = np.linspace(0, len(test) - context - 1, 128).astype(int)
  return Network(
    lambda key: small.transformer_init(key, symbols, context, width, depth),
    classes(functools.partial(small.transformer_apply, heads=4)),
    functools.partial(_pieces, size=16, context=context),
    jnp.asarray(train),
    _cut(test, starts, context),
    150,
  )


def tox21(folder: pathlib.Path) -> Network:
  """Twelve assays of Tox21's molecules, 64 a batch; three layers of messages.

  The last tenth of a fixed order is the test's. The accuracy is that of the
  labels that are known.
  """
  inputs, labels = real_data.molecules(folder)
  order = np.random.default_rng(0).permutation(len(labels))
  cut, width, depth = int(0.9 * len(labels)), 64, 3

  def part(rows: Any) -> Batch:
    at_rows = lambda x: jnp.asarray(x[rows])
    found: Batch = jax.tree_util.tree_map(at_rows, (inputs, labels))
    return found

  def init(key: jax.Array) -> Any:
    keys = jax.random.split(key, 3 + depth)
    return {
      'embedding': 0.1 * jax.random.normal(keys[0], (119, width)),
      'features': small.dense(keys[1], 7, width),
      'layers': [small.dense(k, 5 * width, width) for k in keys[3:]],
      'out': small.layers(keys[2], width, width, 12),
    }

  def scores(params: Any, batch: Batch) -> tuple[Any, Any]:
    (numbers, features, bonds), labels = batch
    is_atom = (numbers > 0)[..., None].astype(jnp.float32)
    x = params['embedding'][numbers]
    x += apply_dense(params['features'], features)
    adjacency = bonds.astype(jnp.float32)
    for layer in params['layers']:
      heard = jnp.einsum('bkij,bjw->bikw', adjacency, x * is_atom)
      both = jnp.concatenate([x, heard.reshape(*x.shape[:2], -1)], -1)
      x = x + jax.nn.relu(apply_dense(layer, both))
      x = jax.nn.standardize(x, axis=-1)
    pooled = (x * is_atom).sum(1) / is_atom.sum(1)
    logits = apply_layers(params['out'], pooled)
    is_known = labels >= 0
    each = optax.sigmoid_binary_cross_entropy(logits, labels == 1)
    is_right = (logits > 0) == (labels == 1)
    known = jnp.maximum(is_known.sum(), 1)
    loss = jnp.where(is_known, each, 0).sum() / known
    return loss, (is_known & is_right).sum() / known

  return Network(
    init,
    scores,
    functools.partial(_examples, size=64),
    part(order[:cut]),
    part(order[cut:]),
    240,
  )


# By name, each made of the folder of real data.
NETWORKS: dict[str, Callable[[pathlib.Path], Network]] = {
  'mlp': lambda folder: digits(is_conv=False),
  'cnn': lambda folder: digits(is_conv=True),
  'transformer': lambda folder: characters(),
  'cifar': cifar,
  'tox21': tox21,
  'captions': captions,
}
LARGER = ('cifar', 'tox21', 'captions')
