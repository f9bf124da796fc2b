"""Workload `molecules`: 128 properties of graphs; the metric, mAP, rises."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import spec
from . import graph_batches
from .base import BatchShape, MiniWorkload
from .parts import Pass, dropout, loss_of, mean, shuffled_indices, split_slices

# Means of the generated molecules, rounded up: 14.6 atoms, 30.5 directed bonds.
_NODES_PER_GRAPH = 15
_EDGES_PER_GRAPH = 31


class GraphNet(nn.Module):
  """Message passing along bonds, then one dense layer per molecule.

  Each of two rounds sends a message over every bond, made of the sender and the
  bond. The messages that arrive at an atom are added up, and update the atom by
  a residual connection. A molecule is the sum of its atoms.
  """

  features: int = 64

  @nn.compact
  def __call__(self, inputs: graph_batches.Graphs, how: Pass) -> jax.Array:
    def norm_relu_dropout(x: jax.Array) -> jax.Array:
      return dropout(self, nn.relu(nn.LayerNorm()(x)), how)

    num_nodes, num_graphs = len(inputs.nodes), len(inputs.n_node)
    nodes = nn.Dense(self.features, name='node_embedding')(inputs.nodes)
    edges = nn.Dense(self.features, name='edge_embedding')(inputs.edges)
    nodes = norm_relu_dropout(nodes)
    for _ in range(2):
      sent = nn.Dense(self.features)(nodes)[inputs.senders]
      messages = norm_relu_dropout(sent + nn.Dense(self.features)(edges))
      received = jax.ops.segment_sum(messages, inputs.receivers, num_nodes)
      update = nn.Dense(self.features)(
        jnp.concatenate([nodes, received], axis=-1)
      )
      nodes = nodes + norm_relu_dropout(update)
    graph_of_node = _graph_of_node(inputs.n_node, num_nodes)
    graphs = jax.ops.segment_sum(nodes, graph_of_node, num_graphs)
    graphs = norm_relu_dropout(nn.Dense(2 * self.features)(graphs))
    return nn.Dense(graph_batches.NUM_TASKS, name='decoder')(graphs)


def _graph_of_node(n_node: Any, num_nodes: int) -> jax.Array:
  """Index of each node's graph, shape (num_nodes,).

  `jnp.repeat` would do this by a running sum; but jax 0.4.13 sums wrongly along
  an axis that is sharded over several CPU devices.
  """
  order = jnp.arange(len(n_node))
  is_before = order[None, :] <= order[:, None]
  ends = jnp.sum(jnp.where(is_before, n_node[None, :], 0), axis=1)
  return jnp.sum(jnp.arange(num_nodes)[:, None] >= ends[None, :], axis=1)


class MoleculesWorkload(MiniWorkload):
  """Generated molecules in OGB's format, a small message-passing network."""

  name, output_layer = 'molecules', 'decoder'
  features = 64
  target_metric_name, metric_rises = 'mean_average_precision', True
  # The benchmark declares this type for OGBG as well, with its sigmoid loss.
  loss_type = spec.LossType.SOFTMAX_CROSS_ENTROPY
  num_train_examples, num_validation_examples, num_test_examples = (
    graph_batches.SPLIT_SIZES.values()
  )
  num_eval_train_examples = num_validation_examples
  eval_batch_size, default_batch_size = 256, 64
  step_hint, eval_every_steps = 1500, 50
  max_allowed_runtime_sec, eval_period_time_sec = 600, 2
  host_batches = True

  # Of every label that is there, max(z, 0) - z y + log(1 + exp(-|z|)). Labels y
  # and logits z have shape (graphs, 128). With smoothing s, y becomes
  # (1 - s) y + s / 128, the benchmark's rule.
  loss_fn = loss_of(
    lambda labels, logits, smoothing: optax.sigmoid_binary_cross_entropy(
      logits, optax.smooth_labels(labels, smoothing)
    )
  )

  def _make_model(self) -> nn.Module:
    return GraphNet(self.features)

  def _fake_inputs(self) -> graph_batches.Graphs:
    one, zero = jnp.ones(1, jnp.int32), jnp.zeros(1, jnp.int32)
    atom, bond = jnp.ones((1, 9)), jnp.ones((1, 3))
    return graph_batches.Graphs(atom, bond, zero, zero, one, one)

  def _train_batches(
    self, rng: np.random.Generator, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    return _packed(shuffled_indices(rng, self.num_train_examples), shape)

  def _split_batches(
    self, split: str, num_examples: int, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    source = 'train' if split == 'eval_train' else split
    start = split_slices(graph_batches.SPLIT_SIZES)[source].start
    return _packed(range(start, start + num_examples), shape)

  def _merge_shards(self, batch: spec.Batch) -> Any:
    inputs = graph_batches.merge_shards(batch['inputs'])
    return {**super()._merge_shards(batch), 'inputs': inputs}

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    outputs = super()._eval_outputs(logits, batch)
    return {**outputs, 'logits': logits, 'targets': batch['targets']}

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    weights = outputs['weights']
    correct = ((outputs['logits'] > 0) == outputs['targets']) * weights
    return {
      'loss': mean(outputs, 'loss'),
      'accuracy': mean({**outputs, 'correct': correct}, 'correct'),
      'mean_average_precision': mean_average_precision(
        outputs['targets'], outputs['logits'], weights
      ),
    }


class WideMoleculesWorkload(MoleculesWorkload):
  """After OGBG's variant of another size."""

  name, features = 'molecules_wide', 96


def _packed(indices: Iterable[int], shape: BatchShape) -> Iterator[spec.Batch]:
  """Batches of shards; the last batch is filled up with empty shards."""
  num_shards, size = shape
  room = graph_batches.Room(
    size, _NODES_PER_GRAPH * size, _EDGES_PER_GRAPH * size
  )
  graphs = graph_batches.load_graphs()
  packed = graph_batches.pack((graphs[i] for i in indices), room)
  while group := list(itertools.islice(packed, num_shards)):
    group += [[]] * (num_shards - len(group))
    shards = [graph_batches.make_shard(chosen, room) for chosen in group]
    yield jax.tree_util.tree_map(lambda *x: np.stack(x), *shards)


def mean_average_precision(
  labels: np.ndarray, logits: np.ndarray, weights: np.ndarray
) -> float:
  """The average precision of each task, then the mean.

  Equals scikit-learn's of the sigmoids, except that equal logits are ranked in
  their order. A task counts if its labelled examples have both classes. NaN if
  none does, and for a model that has diverged (a labelled logit is NaN).

  Args:
    labels: 0 or 1, shape (examples, tasks).
    logits: shape (examples, tasks).
    weights: 0 where a label is missing, shape (examples, tasks).
  """
  there = weights > 0
  if np.isnan(logits[there]).any():
    return float('nan')
  order = np.argsort(np.where(there, -logits, np.inf), axis=0, kind='stable')
  true = np.take_along_axis((labels > 0) & there, order, axis=0)
  ranks = np.arange(1, len(labels) + 1)[:, None]
  precision = np.cumsum(true, axis=0) / ranks
  positive, labelled = true.sum(axis=0), there.sum(axis=0)
  counts = (positive > 0) & (positive < labelled)
  if not counts.any():
    return float('nan')
  sums = (precision * true).sum(axis=0)[counts]
  return float(np.mean(sums / positive[counts]))
