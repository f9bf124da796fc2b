"""Readers of real data, which lie in a folder outside of the project.

The folder has `cifar10.zip` (`train/CLASS/NNNN.jpg` and `test/CLASS/NNNN.jpg`),
Multi30k's `train.en.gz` and `val.en.gz`, and `tox21.csv.gz`.
"""

from __future__ import annotations

import csv
import gzip
import io
import pathlib
import zipfile
from typing import Any

import numpy as np

_LABELS = 12  # columns of tox21.csv.gz
MOST_ATOMS = 32  # of a molecule that is read
_NUMBERS = 7  # columns of features of an atom

Examples = tuple[Any, Any]  # inputs and labels, with one axis of examples


def images(folder: pathlib.Path) -> dict[str, Examples]:
  """CIFAR-10: `train` and `test`, each (pixels, labels), by classes' names.

  Pixels: shape=(images, 32, 32, 3), bytes.
  """
  from PIL import Image

  sets: dict[str, tuple[list[Any], list[str]]] = {
    'train': ([], []),
    'test': ([], []),
  }
  with zipfile.ZipFile(folder / 'cifar10.zip') as archive:
    for name in sorted(archive.namelist()):
      if name.endswith('.jpg'):
        part, label, _ = name.split('/')
        image = Image.open(io.BytesIO(archive.read(name)))
        sets[part][0].append(np.asarray(image))
        sets[part][1].append(label)
  return {
    part: (np.stack(pixels), np.unique(labels, return_inverse=True)[1])
    for part, (pixels, labels) in sets.items()
  }


def pictures(folder: pathlib.Path) -> tuple[Examples, Examples]:
  """CIFAR-10's `images` to train on and to test on.

  Pixels: float32, less .47 and over .25.
  """
  train, test = (
    (((pixels / 255 - 0.47) / 0.25).astype(np.float32), labels)
    for pixels, labels in images(folder).values()
  )
  return train, test


def captions(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray, int]:
  """Multi30k's English by bytes: to train on, to test on; how many symbols."""
  texts = [
    np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8)
    for name in ('train.en.gz', 'val.en.gz')
  ]
  symbols = np.unique(np.concatenate(texts))
  train, test = (np.searchsorted(symbols, text) for text in texts)
  return train, test, len(symbols)


def molecules(folder: pathlib.Path) -> Examples:
  """Tox21's molecules of 2 to `MOST_ATOMS` atoms, and their twelve labels.

  rdkit reads the SMILES; what it cannot read is left out.

  Returns:
    ((atomic numbers, shape=(molecules, MOST_ATOMS), 0 where there is no atom;
    features of atoms, shape=(molecules, MOST_ATOMS, 7); bonds, single, double,
    triple and aromatic, shape=(molecules, 4, MOST_ATOMS, MOST_ATOMS)), labels),
    labels of shape (molecules, 12), -1 where not known.

  Raises:
    ValueError: without rdkit.
  """
  try:
    from rdkit import Chem, RDLogger
  except ImportError:
    raise ValueError(
      'rdkit is not installed; molecules need it: pip install rdkit'
    ) from None

  RDLogger.DisableLog('rdApp.*')
  text = gzip.decompress((folder / 'tox21.csv.gz').read_bytes()).decode()
  found = []
  for row in list(csv.reader(io.StringIO(text)))[1:]:
    molecule = Chem.MolFromSmiles(row[-1])
    if molecule and 1 < molecule.GetNumAtoms() <= MOST_ATOMS:
      labels = [int(float(x)) if x else -1 for x in row[:_LABELS]]
      found.append((*_graph(molecule), labels))
  numbers, features, bonds, assays = map(np.stack, zip(*found))
  return (numbers, features, bonds), assays


def _graph(molecule: Any) -> tuple[Any, Any, Any]:
  """Arrays of one molecule; see `molecules`."""
  numbers = np.zeros(MOST_ATOMS, np.int32)
  features = np.zeros((MOST_ATOMS, _NUMBERS), np.float32)
  bonds = np.zeros((4, MOST_ATOMS, MOST_ATOMS), np.uint8)
  for i, atom in enumerate(molecule.GetAtoms()):
    numbers[i] = atom.GetAtomicNum()
    features[i] = (
      atom.GetDegree(),
      atom.GetFormalCharge(),
      atom.GetTotalNumHs(),
      atom.GetIsAromatic(),
      atom.IsInRing(),
      int(atom.GetHybridization()) - 3,  # 0 for sp2
      1,
    )
  kinds = {1.0: 0, 2.0: 1, 3.0: 2, 1.5: 3}
  for bond in molecule.GetBonds():
    i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
    kind = kinds.get(bond.GetBondTypeAsDouble(), 0)
    bonds[kind, i, j] = bonds[kind, j, i] = 1
  return numbers, features, bonds
