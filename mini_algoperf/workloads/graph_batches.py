"""Molecules, and batches of graphs with static shapes, packed as OGBG's.

`molecules.npz` has molecule-like graphs in the form of OGB's `ogbg-molpcba`:
nine integer features per atom, three per bond, 128 binary labels per molecule,
in OGB's order and with its codes. They were grown once at random, from rings
and functional groups, and stay as they are, since the targets were set with
them. A
label is a noisy vote of atoms and their neighbours. A network that passes
messages can learn the sum; the noise bounds its metric. Three labels of ten are
missing.

A shard is filled with whole graphs until the next one would exceed its nodes,
edges or graphs. The rest is padding, which belongs to at least one padding
graph.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from .. import spec

SPLIT_SIZES = {'train': 3072, 'validation': 640, 'test': 640}
NUM_TASKS = 128
_FILE = pathlib.Path(__file__).with_name('molecules.npz')
_Array = np.ndarray | jax.Array


class Graph(NamedTuple):
  """A molecule. Of 2 n edges, n are bonds and n are the same bonds reversed."""

  nodes: np.ndarray  # shape=(nodes, 9), dtype=float32
  edges: np.ndarray  # shape=(edges, 3), dtype=float32
  ends: np.ndarray  # shape=(edges, 2), dtype=int32, sender and receiver
  labels: np.ndarray  # shape=(128,), dtype=float32, NaN is missing


@functools.cache
def load_graphs() -> list[Graph]:
  """The molecules; splits follow one another in the order of `SPLIT_SIZES`."""
  with np.load(_FILE) as archive:
    data = dict(
      archive
    )  # arrays of all molecules, one molecule behind the other
  bonds = np.cumsum(data['n_edge'])[:-1]
  edges, ends = (
    [np.concatenate([e, e[:, ::turn]]) for e in np.split(data[name], bonds)]
    for name, turn in (('edges', 1), ('edge_index', -1))
  )
  nodes = np.split(data['nodes'], np.cumsum(data['n_node'])[:-1])
  labels = data['labels'].astype(np.float32)
  labels[labels == 2] = np.nan
  return [
    Graph(n.astype(np.float32), e.astype(np.float32), *of)
    for n, e, *of in zip(nodes, edges, ends, labels)
  ]


class Graphs(NamedTuple):
  """Graphs behind one another, with the field names of the usual libraries.

  `senders` and `receivers` are indices into `nodes`.
  """

  nodes: _Array  # shape=(nodes, 9), dtype=float32
  edges: _Array  # shape=(edges, 3), dtype=float32
  senders: _Array  # shape=(edges,), dtype=int32
  receivers: _Array  # shape=(edges,), dtype=int32
  n_node: _Array  # shape=(graphs,), dtype=int32
  n_edge: _Array  # shape=(graphs,), dtype=int32


class Room(NamedTuple):
  """What a shard has room for, its padding graph not counted."""

  graphs: int
  nodes: int
  edges: int


def pack(graphs: Iterable[Graph], room: Room) -> Iterator[list[Graph]]:
  """Groups graphs, which may have no end, in their order into shards that fit.

  The last shard may be far from full.

  Raises:
    ValueError: one graph alone is too large.
  """
  chosen, used = list[Graph](), Room(0, 0, 0)
  for graph in graphs:
    size = Room(1, len(graph.nodes), len(graph.edges))
    if _exceeds(size, room):
      raise ValueError(
        f'global_batch_size: a graph with {size.nodes} nodes and {size.edges} '
        f'edges does not fit a device ({room}); use a larger batch'
      )
    used = Room(*map(sum, zip(used, size)))
    if _exceeds(used, room):
      yield chosen
      chosen, used = [], size
    chosen.append(graph)
  if chosen:
    yield chosen


def _exceeds(size: Room, room: Room) -> bool:
  return any(needed > there for needed, there in zip(size, room))


def make_shard(chosen: Sequence[Graph], room: Room) -> spec.Batch:
  """One padded shard: 'inputs', 'targets', 'weights'.

  They are `Graphs`, labels and weights of shape (room.graphs + 1, 128). Padding
  edges join the first padding node to itself. Missing labels become 0; their
  weights, and those of padding graphs, are 0.
  """
  spare_nodes = room.nodes + 1 - sum(len(graph.nodes) for graph in chosen)
  spare_edges = room.edges - sum(len(graph.edges) for graph in chosen)
  padding = Graph(
    np.zeros((spare_nodes, 9), np.float32),
    np.zeros((spare_edges, 3), np.float32),
    np.zeros((spare_edges, 2), np.int32),
    np.full(NUM_TASKS, np.nan, np.float32),
  )
  graphs = [*chosen, padding]
  labels = np.full((room.graphs + 1, NUM_TASKS), np.nan, np.float32)
  labels[: len(graphs)] = [graph.labels for graph in graphs]
  n_node, n_edge = np.zeros((2, room.graphs + 1), np.int32)
  n_node[: len(graphs)] = [len(graph.nodes) for graph in graphs]
  n_edge[: len(graphs)] = [len(graph.edges) for graph in graphs]
  starts = (np.cumsum(n_node) - n_node).astype(np.int32)
  nodes, edges, ends, _ = zip(*graphs)
  senders, receivers = (
    np.concatenate(ends) + np.repeat(starts, n_edge)[:, None]
  ).T
  return {
    'inputs': Graphs(
      np.concatenate(nodes),
      np.concatenate(edges),
      senders,
      receivers,
      n_node,
      n_edge,
    ),
    'targets': np.nan_to_num(labels),
    'weights': (~np.isnan(labels)).astype(np.float32),
  }


def merge_shards(graphs: Graphs) -> Graphs:
  """Shards of graphs, (shard, node/edge/graph, ...), as one set of graphs.

  Senders and receivers are moved by the number of nodes in earlier shards.
  """
  num_shards, num_nodes = graphs.nodes.shape[:2]
  offsets = num_nodes * np.arange(num_shards, dtype=np.int32)[:, None]
  shifted = graphs._replace(
    senders=graphs.senders + offsets, receivers=graphs.receivers + offsets
  )
  return Graphs(*(x.reshape(-1, *x.shape[2:]) for x in shifted))
