"""Molecules for `ogbg`, after ogbg-molpcba: those of mini_algoperf."""

from __future__ import annotations

import numpy as np

from ..workloads import molecule_data
from .data_set import DataSet, Example, Sizes, SmokeData

DEFAULT_SIZES = Sizes(num_train=2048, num_eval=512)
# Version and features are those of TFDS.
_NAME = 'ogbg_molpcba:0.1.3'


def make_data(seed: int, sizes: Sizes) -> SmokeData:
  """Grows molecules, the same ones for the same seed.

  Args:
    seed: of all choices.
    sizes: molecules per split, at least 2.
  """
  lengths = {
    'train': sizes.num_train,
    'validation': sizes.num_eval,
    'test': sizes.num_eval,
  }
  data = molecule_data.generate(seed, sum(lengths.values()))
  splits, start = {}, 0
  for name, length in lengths.items():
    labels = cover(data.labels[start : start + length])
    splits[name] = _examples(data, start, labels)
    start += length
  return SmokeData([DataSet(_NAME, splits)], files={})


def cover(labels: np.ndarray) -> np.ndarray:
  """Labels of which each has a positive and a negative.

  Average precision is not defined without. Where a split of few molecules lacks
  one of them, its first molecule is made positive and its second negative.

  Args:
    labels: shape (molecules, labels), 0, 1 or NaN; at least 2 molecules.
  """
  is_covered = (labels == 0).any(axis=0) & (labels == 1).any(axis=0)
  forced = labels.copy()
  forced[0, ~is_covered] = 1
  forced[1, ~is_covered] = 0
  return forced


def _examples(
  data: molecule_data.MoleculeData, start: int, labels: np.ndarray
) -> list[Example]:
  """Examples of the molecules that begin with number `start`, one per label."""
  node_ends, edge_ends = np.cumsum(data.n_node), np.cumsum(data.n_edge)
  examples = []
  for number, own_labels in enumerate(labels, start):
    nodes = slice(node_ends[number] - data.n_node[number], node_ends[number])
    edges = slice(edge_ends[number] - data.n_edge[number], edge_ends[number])
    examples.append(
      {
        'num_nodes': data.n_node[number, None].astype(np.int64),
        'node_feat': data.nodes[nodes].astype(np.float32),
        'num_edges': data.n_edge[number, None].astype(np.int64),
        'edge_feat': data.edges[edges].astype(np.float32),
        'edge_index': data.edge_index[edges].astype(np.int64),
        'labels': own_labels,
      }
    )
  return examples
