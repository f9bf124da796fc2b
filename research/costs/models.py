"""Models on synthetic batches: of the size of WMT's or criteo1tb's, or bare.

They need jax, flax, optax and NumPy only, to be timed where the stand-in
benchmark's packages are missing, as on a borrowed GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...mini_algoperf import spec
from ...mini_algoperf.workloads.parts import EVALUATION
from ...mini_algoperf.workloads.transformer import Block

Batch = dict[str, Any]


class Workload(spec.Workload):
  """What the submission needs of a workload, for a model and one batch."""

  target_metric_name = 'accuracy'
  validation_target_value = 0.8
  step_hint = 100

  def __init__(self, model: nn.Module, batch: Batch) -> None:
    """Trains the model on one batch, over and over."""
    super().__init__()
    self.model, self.batch = model, batch

  def has_reached_validation_target(self, results: dict[str, float]) -> bool:
    """Whether the accuracy, which rises, is beyond the target."""
    return results['validation/accuracy'] > self.validation_target_value

  def init_model_fn(self, rng: jax.Array) -> tuple[Any, None]:
    """Fresh parameters, and None for batch statistics."""
    params = jax.jit(self.model.init)(rng, self.batch['inputs'])
    self._param_shapes = jax.tree_util.tree_map(
      lambda p: spec.ShapeTuple(p.shape), params
    )
    return params, None

  def model_fn(
    self,
    params: Any,
    batch: Batch,
    model_state: None,
    mode: int,
    rng: jax.Array,
    update_batch_norm: bool,
  ) -> tuple[jax.Array, None]:
    """The logits, and None for batch statistics."""
    logits: Any = self.model.apply(params, batch['inputs'])
    return logits, None

  def loss_fn(
    self,
    label_batch: jax.Array,
    logits_batch: jax.Array,
    mask_batch: jax.Array | None = None,
    label_smoothing: float = 0.0,
  ) -> dict[str, jax.Array]:
    """The summed cross entropy and the number of examples."""
    losses = optax.softmax_cross_entropy_with_integer_labels(
      logits_batch, label_batch
    )
    count = jnp.float32(losses.size)
    return {'summed': jnp.sum(losses), 'n_valid_examples': count}


class Leaves(nn.Module):
  """Parameters and hardly any work: what is timed is what surrounds a step."""

  leaves: int
  size: int

  @nn.compact
  def __call__(self, inputs: jax.Array) -> jax.Array:
    """Two logits for each input."""
    init = nn.initializers.normal(0.02)
    total = sum(
      jnp.sum(self.param(f'leaf_{i}', init, (self.size,)))
      for i in range(self.leaves)
    )
    return inputs[:, None] * jnp.stack([total, -total])[None]


class Transformer(nn.Module):
  """Encoder and decoder with one shared embedding, as in WMT's model."""

  vocabulary: int
  width: int
  layers: int
  heads: int
  hidden: int

  @nn.compact
  def __call__(self, inputs: dict[str, jax.Array]) -> jax.Array:
    """Logits of every target token."""
    table = nn.Embed(self.vocabulary, self.width)
    source, target = table(inputs['source']), table(inputs['target'])
    seen = np.ones((1, 1, 1), bool)  # everything
    for _ in range(self.layers):
      block = Block(self.heads, self.hidden)
      source = block(source, seen, EVALUATION)
    for _ in range(self.layers):
      block = Block(self.heads, self.hidden)
      target = block(target, seen, EVALUATION, source, seen)
    return table.attend(nn.LayerNorm()(target))


class Clicks(nn.Module):
  """One table for all words, and products of pairs of them, as in criteo1tb's.

  The shapes of its parameters are those of the benchmark's DLRM-Small.
  """

  vocabulary: int
  width: int

  @nn.compact
  def __call__(self, inputs: dict[str, jax.Array]) -> jax.Array:
    """Logits of no click and of a click."""
    init = nn.initializers.uniform(self.vocabulary**-0.5)
    table = self.param('table', init, (self.vocabulary, self.width))
    h = inputs['numbers']
    for width in (512, 256, self.width):
      h = nn.relu(nn.Dense(width)(h))
    found = jnp.concatenate([h[:, None], table[inputs['words']]], 1)
    products = jnp.einsum('bik,bjk->bij', found, found)
    above = np.triu_indices(found.shape[1])
    h = jnp.concatenate([h, products[:, above[0], above[1]]], 1)
    for width in (1024, 1024, 512, 256):
      h = nn.relu(nn.Dense(width)(h))
    click = nn.Dense(1)(h)
    return jnp.concatenate([jnp.zeros_like(click), click], 1)


def leaves(count: int, parameters: int) -> Workload:
  """So many parameters in equal leaves."""
  inputs = np.linspace(-1.0, 1.0, 8, dtype=np.float32)
  batch = {'inputs': inputs, 'targets': np.arange(8) % 2}
  return Workload(Leaves(count, parameters // count), batch)


def sentences() -> Workload:
  """A Transformer of WMT's size on random tokens."""
  words, shape = 32_000, (3, 128, 256)
  source, target, targets = np.random.default_rng(0).integers(words, size=shape)
  model = Transformer(words, width=1024, layers=6, heads=16, hidden=1024)
  inputs = {'source': source, 'target': target}
  return Workload(model, {'inputs': inputs, 'targets': targets})


def clicks() -> Workload:
  """A click model of criteo1tb's size on random words."""
  rng, count, words = np.random.default_rng(0), 262_144, 4_194_304
  inputs = {
    'numbers': rng.normal(size=(count, 13)).astype(np.float32),
    'words': rng.integers(words, size=(count, 26), dtype=np.int32),
  }
  batch = {'inputs': inputs, 'targets': rng.integers(2, size=count)}
  return Workload(Clicks(words, 128), batch)


MODELS: dict[str, Callable[[], Workload]] = {
  'clicks': clicks,
  'sentences': sentences,
  '1e5_in_8': functools.partial(leaves, 8, 10**5),
}
