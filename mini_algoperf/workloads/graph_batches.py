"""Molecules, and batches of graphs with static shapes, packed as OGBG's.

`molecules.npz` has molecule-like graphs in the form of OGB's `ogbg-molpcba`: nine
integer features per atom, three per bond, 128 binary labels per molecule, in
OGB's order and with its codes. They were grown once at random, from rings and
functional groups (by this project's version 0.1.0), and stay as they are, since
the targets were set with them. A label is a noisy vote of atoms and their
neighbours: a network that passes messages can learn the sum, the noise bounds
what it can reach. Three labels of ten are missing.

A shard is filled with whole graphs until the next one would exceed its nodes,
edges or graphs; what is left is padding, which belongs to padding graphs at
the end. Each shard has at least one.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from .. import spec

SPLIT_SIZES = {'train': 3072, 'validation': 640, 'test': 640}
NUM_TASKS = 128
_FILE = pathlib.Path(__file__).with_name('molecules.npz')
_Array = np.ndarray | jax.Array


class Molecules(NamedTuple):
  """All molecules behind one another; splits follow in `SPLIT_SIZES`' order.

  Each bond is there once; batching adds the other direction.
  """

  nodes: np.ndarray  # shape=(nodes, 9), dtype=uint8
  edges: np.ndarray  # shape=(edges, 3), dtype=uint8
  edge_index: np.ndarray  # shape=(edges, 2), dtype=int32, within the molecule
  n_node: np.ndarray  # shape=(molecules,), dtype=int32
  n_edge: np.ndarray  # shape=(molecules,), dtype=int32
  labels: np.ndarray  # shape=(molecules, 128), dtype=float32, NaN is missing


@functools.cache
def load_molecules() -> Molecules:
  """The molecules of all splits; in the file, a missing label is 2."""
  with np.load(_FILE) as archive:
    data = Molecules(*(archive[name] for name in Molecules._fields))
  labels = data.labels.astype(np.float32)
  return data._replace(labels=np.where(data.labels == 2, np.nan, labels))


def split_indices(split: str) -> np.ndarray:
  """Indices of a split's molecules."""
  starts = np.cumsum([0, *SPLIT_SIZES.values()])
  position = list(SPLIT_SIZES).index(split)
  return np.arange(starts[position], starts[position + 1])


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


def pack(
  indices: Iterable[int], n_node: np.ndarray, n_edge: np.ndarray, room: Room
) -> Iterator[list[int]]:
  """Groups graphs, in their order, into shards that fit.

  Args:
    indices: graphs to pack; may be endless.
    n_node: nodes of every graph of the data set.
    n_edge: directed edges of every graph of the data set.
    room: what a shard takes.

  Yields:
    The graphs of one shard; the last one may be far from full.

  Raises:
    ValueError: one graph alone is too large.
  """
  chosen: list[int] = []
  nodes, edges = 0, 0
  for index in indices:
    size = (int(n_node[index]), int(n_edge[index]))
    if size[0] > room.nodes or size[1] > room.edges:
      raise ValueError(
        f'global_batch_size: a graph with {size[0]} nodes and {size[1]} edges '
        f'does not fit a device ({room}); use a larger batch'
      )
    nodes, edges = nodes + size[0], edges + size[1]
    if len(chosen) == room.graphs or nodes > room.nodes or edges > room.edges:
      yield chosen
      chosen, (nodes, edges) = [], size
    chosen.append(index)
  if chosen:
    yield chosen


class GraphBatcher:
  """Makes padded shards from a data set.

  Attributes:
    n_node: nodes of each graph.
    n_edge: directed edges of each graph: each bond counts twice.
  """

  def __init__(self, data: Molecules) -> None:
    self.n_node = data.n_node
    self.n_edge = 2 * data.n_edge
    self._labels = data.labels
    self._nodes = np.split(
      data.nodes.astype(np.float32), np.cumsum(data.n_node)[:-1]
    )
    bounds = np.cumsum(data.n_edge)[:-1]
    self._edges = [
      np.concatenate([e, e])
      for e in np.split(data.edges.astype(np.float32), bounds)
    ]
    # Columns: sender, receiver; first as stored, then the other way round.
    self._ends = [
      np.concatenate([e, e[:, ::-1]]) for e in np.split(data.edge_index, bounds)
    ]

  def shard(self, chosen: list[int], room: Room) -> spec.Batch:
    """One padded shard: 'inputs', 'targets', 'weights'.

    Padding edges join the first padding node to itself. Missing labels become
    0; their weights, and those of padding graphs, are 0.

    Args:
      chosen: graphs of the shard; may be empty.
      room: what the shard takes.

    Returns:
      `Graphs`, labels and weights of shape (room.graphs + 1, 128).
    """
    n_node = np.zeros(room.graphs + 1, np.int32)
    n_node[: len(chosen)] = self.n_node[chosen]
    n_edge = np.zeros(room.graphs + 1, np.int32)
    n_edge[: len(chosen)] = self.n_edge[chosen]
    starts = np.cumsum(n_node) - n_node
    first_padding = n_node.sum()
    nodes = np.zeros((room.nodes + 1, 9), np.float32)
    edges = np.zeros((room.edges, 3), np.float32)
    ends = np.full((room.edges, 2), first_padding, np.int32)
    if chosen:
      nodes[:first_padding] = np.concatenate([self._nodes[i] for i in chosen])
      edges[: n_edge.sum()] = np.concatenate([self._edges[i] for i in chosen])
      own = np.concatenate([self._ends[i] for i in chosen])
      ends[: n_edge.sum()] = own + np.repeat(starts, n_edge)[:, None]
    n_node[len(chosen)] = room.nodes + 1 - first_padding
    n_edge[len(chosen)] = room.edges - n_edge.sum()
    labels = np.full((room.graphs + 1, self._labels.shape[1]), np.nan)
    labels[: len(chosen)] = self._labels[chosen]
    return {
      'inputs': Graphs(nodes, edges, ends[:, 0], ends[:, 1], n_node, n_edge),
      'targets': np.nan_to_num(labels).astype(np.float32),
      'weights': (~np.isnan(labels)).astype(np.float32),
    }


def merge_shards(graphs: Graphs) -> Graphs:
  """(shard, node or edge or graph, ...) to one set of graphs.

  Senders and receivers are moved by the nodes of the shards before theirs.
  """
  num_shards, num_nodes = graphs.nodes.shape[:2]
  offsets = num_nodes * np.arange(num_shards, dtype=np.int32)[:, None]
  shifted = graphs._replace(
    senders=graphs.senders + offsets, receivers=graphs.receivers + offsets
  )
  return Graphs(*(x.reshape(-1, *x.shape[2:]) for x in shifted))
