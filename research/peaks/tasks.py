"""The tasks of the grid: networks on data without an end, and on real data.

Each task draws a batch from a key. So a run can be of any length, and runs with
one seed see the same batches whatever trains.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import real_data
from ..small import (
  apply_layers,
  cross_entropy,
  layers,
  transformer_apply,
  transformer_init,
)

_TESTS = 2048  # examples whose loss is the task's


class Task(NamedTuple):
  """A network, its data, and its loss."""

  init: Callable[[jax.Array], Any]  # key -> parameters
  loss: Callable[[Any, Any], jax.Array]  # (parameters, batch) -> shape=()
  draw: Callable[..., Any]  # (data, key) -> batch; made-up data also (…, size)
  data: Any  # arrays that `draw` takes from
  test: Any  # a batch that is not trained on
  tables: tuple[str, ...] = ()  # names of parameters that are no matrices
  # Steps in which each example is drawn once on average; None: no end of them.
  steps_per_epoch: float | None = None


def noisy_labels(size: int) -> Task:
  """Labels drawn from the softmax of three times a random network's logits.

  Args:
    size: examples of a batch.
  """
  keys = jax.random.split(jax.random.PRNGKey(1000), 2)
  teacher = layers(keys[0], 64, 256, 256, 10)

  def draw(teacher: Any, key: jax.Array, size: int = size) -> Any:
    of_inputs, of_labels = jax.random.split(key)
    x = jax.random.normal(of_inputs, (size, 64))
    return x, jax.random.categorical(of_labels, 3 * apply_layers(teacher, x))

  return Task(
    lambda key: layers(key, 64, 128, 128, 10),
    lambda params, batch: cross_entropy(
      apply_layers(params, batch[0]), batch[1]
    ),
    draw,
    teacher,
    draw(teacher, keys[1], _TESTS),
  )


def regression() -> Task:
  """Eight outputs of a random network, with noise of standard deviation 1."""
  keys = jax.random.split(jax.random.PRNGKey(2000), 2)
  teacher = layers(keys[0], 64, 256, 256, 8)

  def draw(teacher: Any, key: jax.Array, size: int = 64) -> Any:
    of_inputs, of_noise = jax.random.split(key)
    x = jax.random.normal(of_inputs, (size, 64))
    noise = jax.random.normal(of_noise, (size, 8))
    return x, apply_layers(teacher, x) + noise

  return Task(
    lambda key: layers(key, 64, 128, 128, 8),
    lambda params, batch: jnp.mean(
      jnp.square(apply_layers(params, batch[0]) - batch[1])
    ),
    draw,
    teacher,
    draw(teacher, keys[1], _TESTS),
  )


def clicks() -> Task:
  """Eight features of 1,000 values, most of them rare, and eight numbers."""
  keys = jax.random.split(jax.random.PRNGKey(4000), 4)
  fields, values, width = 8, 1000, 16
  weights = (
    0.4 * jax.random.normal(keys[0], (fields, values)),
    0.2 * jax.random.normal(keys[1], (fields, values, 4)),
    0.3 * jax.random.normal(keys[2], (8,)),
  )
  frequency = 1 / np.arange(1, values + 1)  # Zipf's law
  cumulative = jnp.asarray(np.cumsum(frequency) / frequency.sum())
  each = jnp.arange(fields)

  def draw(weights: Any, key: jax.Array, size: int = 128) -> Any:
    of_features, of_numbers, of_clicks = jax.random.split(key, 3)
    of_values, of_pairs, of_dense = weights
    chances = jax.random.uniform(of_features, (size, fields))
    features = jnp.searchsorted(cumulative, chances)
    numbers = jax.random.normal(of_numbers, (size, 8))
    factors = of_pairs[each, features]
    # The sum over all pairs of features of their factors' products.
    pairs = jnp.square(factors.sum(1)) - jnp.square(factors).sum(1)
    logit = of_values[each, features].sum(1) + pairs.sum(1) / 2
    chance = jax.nn.sigmoid(logit + numbers @ of_dense - 1)
    return (features, numbers), jax.random.bernoulli(of_clicks, chance)

  def init(key: jax.Array) -> Any:
    of_table, of_layers = jax.random.split(key)
    table = jax.random.normal(of_table, (fields, values, width)) / 4
    return {
      'table': table,
      'layers': layers(of_layers, fields * width + 8, 128, 128, 1),
    }

  def loss(params: Any, batch: Any) -> jax.Array:
    (features, numbers), clicked = batch
    vectors = params['table'][each, features].reshape(len(numbers), -1)
    x = jnp.concatenate([vectors, numbers], axis=1)
    logits = apply_layers(params['layers'], x)[:, 0]
    each_loss = optax.sigmoid_binary_cross_entropy(logits, clicked)
    return jnp.mean(each_loss)

  test = draw(weights, keys[3], 4 * _TESTS)
  return Task(init, loss, draw, weights, test, ('table',))


def markov_chain() -> Task:
  """Symbols of a random second-order Markov chain, in sequences of 16."""
  keys = jax.random.split(jax.random.PRNGKey(3000), 2)
  symbols, context, skipped = 32, 16, 8
  chain = 2 * jax.random.normal(keys[0], (symbols, symbols, symbols))

  def draw(chain: Any, key: jax.Array, size: int = 16) -> Any:
    of_start, of_steps = jax.random.split(key)
    first, second = jax.random.randint(of_start, (2, size), 0, symbols)

    def step(last: Any, key: jax.Array) -> Any:
      new = jax.random.categorical(key, chain[last[0], last[1]])
      return (last[1], new), new

    keys = jax.random.split(of_steps, skipped + context + 1)
    sequence = jax.lax.scan(step, (first, second), keys)[1][skipped:].T
    return sequence[:, :-1], sequence[:, 1:]

  return Task(
    lambda key: transformer_init(key, symbols, context, 32, 1),
    lambda params, batch: cross_entropy(
      transformer_apply(params, batch[0], heads=2), batch[1]
    ),
    draw,
    chain,
    draw(chain, keys[1], 512),
    ('embedding', 'position'),
  )


def sentences(folder: pathlib.Path) -> Task:
  """English captions of Multi30k by characters, in pieces of 48."""
  context, size, width = 48, 16, 96
  train, test, symbols = real_data.captions(folder)

  def pieces(text: Any, starts: Any) -> Any:
    piece = text[starts[:, None] + np.arange(context + 1)]
    return piece[:, :-1], piece[:, 1:]

  def draw(text: Any, key: jax.Array) -> Any:
    last = len(text) - context
    return pieces(text, jax.random.randint(key, (size,), 0, last))

  starts = np.linspace(0, len(test) - context - 1, 512).astype(int)
  return Task(
    lambda key: transformer_init(key, symbols, context, width, 2),
    lambda params, batch: cross_entropy(
      transformer_apply(params, batch[0], heads=4), batch[1]
    ),
    draw,
    jnp.asarray(train),
    jax.tree_util.tree_map(jnp.asarray, pieces(test, starts)),
    ('embedding', 'position'),
    len(train) / (size * context),
  )


def images(folder: pathlib.Path) -> Task:
  """10,000 images of CIFAR-10, mirrored by chance; three convolutions."""
  size = 32
  sets = real_data.pictures(folder)
  kernel = jax.nn.initializers.he_normal()
  shapes = ((3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 64))

  def init(key: jax.Array) -> Any:
    keys = jax.random.split(key, 4)
    convolutions = [kernel(k, shape) for k, shape in zip(keys, shapes)]
    return {'conv': convolutions, 'dense': layers(keys[3], 1024, 64, 10)}

  def loss(params: Any, batch: Any) -> jax.Array:
    x, labels = batch
    numbers = ('NHWC', 'HWIO', 'NHWC')
    for weights in params['conv']:
      x = jax.lax.conv_general_dilated(
        x, weights, (2, 2), 'SAME', dimension_numbers=numbers
      )
      x = jax.nn.standardize(jax.nn.relu(x), axis=(1, 2), epsilon=1e-3)
    logits = apply_layers(params['dense'], x.reshape(len(x), -1))
    return cross_entropy(logits, labels)

  def draw(data: Any, key: jax.Array) -> Any:
    of_images, of_sides = jax.random.split(key)
    pixels, labels = data
    chosen = jax.random.randint(of_images, (size,), 0, len(labels))
    is_mirrored = jax.random.bernoulli(of_sides, 0.5, (size, 1, 1, 1))
    x = pixels[chosen]
    return jnp.where(is_mirrored, x[:, :, ::-1], x), labels[chosen]

  train, test = jax.tree_util.tree_map(jnp.asarray, sets)
  epoch = len(train[1]) / size
  return Task(init, loss, draw, train, test, steps_per_epoch=epoch)


def few(task: Task, count: int, size: int) -> Task:
  """A task with so many examples, of which a batch is drawn at random.

  Args:
    task: of data without an end.
    count: examples to train on.
    size: examples of a batch.
  """
  examples = task.draw(task.data, jax.random.PRNGKey(5000), count)

  def draw(examples: Any, key: jax.Array) -> Any:
    chosen = jax.random.randint(key, (size,), 0, count)
    return jax.tree_util.tree_map(lambda leaf: leaf[chosen], examples)

  return task._replace(draw=draw, data=examples, steps_per_epoch=count / size)


# By name, each made of the folder of real data. The last two are for the show
# alone: nothing is chosen on them.
TASKS: dict[str, Callable[[pathlib.Path], Task]] = {
  'noisy_labels': lambda folder: noisy_labels(64),
  'noisy_labels_2x': lambda folder: noisy_labels(128),
  'noisy_labels_8x': lambda folder: noisy_labels(512),
  'markov_chain': lambda folder: markov_chain(),
  'clicks': lambda folder: clicks(),
  'images': images,
  'regression': lambda folder: regression(),
  'sentences': sentences,
}
# Beside the grid, with few data. That the weight decay follows the epochs was
# chosen on the first three and on images.
FEW: dict[str, Callable[[pathlib.Path], Task]] = {
  'labels_of_2k': lambda folder: few(noisy_labels(64), 2048, 64),
  'labels_of_8k': lambda folder: few(noisy_labels(64), 8192, 64),
  'labels_of_32k': lambda folder: few(noisy_labels(64), 32768, 64),
  'regression_of_8k': lambda folder: few(regression(), 8192, 64),
  'clicks_of_32k': lambda folder: few(clicks(), 32768, 128),
}
SHOWN_ONLY = ('regression', 'sentences')
REAL = ('images', 'sentences')
