"""Molecule-like graphs in OGB's format, generated once and kept in a file.

Nine integer features per atom, three per bond, 128 binary labels per molecule,
in the order and with the codes of OGB's `ogbg-molpcba`. The file's bytes follow
from the seed alone.
"""

from __future__ import annotations

import io
import os
import pathlib
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .. import files
from . import molecule_labels
from .molecule_growth import (
  AROMATIC,
  ATOMIC_NUMBER,
  DOUBLE,
  TRIPLE,
  Molecule,
  grow_molecule,
)

SPLIT_SIZES = {'train': 3072, 'validation': 640, 'test': 640}
DATA_SEED = 128
# Part of the file's name, to be raised whenever the generator changes.
_VERSION = 1


class MoleculeData(NamedTuple):
  """All molecules behind one another; splits follow in `SPLIT_SIZES`' order.

  Each bond is there once; batching adds the other direction.
  """

  nodes: np.ndarray  # shape=(nodes, 9), dtype=uint8
  edges: np.ndarray  # shape=(edges, 3), dtype=uint8
  edge_index: np.ndarray  # shape=(edges, 2), dtype=int32, within the molecule
  n_node: np.ndarray  # shape=(molecules,), dtype=int32
  n_edge: np.ndarray  # shape=(molecules,), dtype=int32
  labels: np.ndarray  # shape=(molecules, 128), dtype=float32, NaN is missing


def split_indices(split: str) -> np.ndarray:
  """Indices of a split's molecules."""
  starts = np.cumsum([0, *SPLIT_SIZES.values()])
  position = list(SPLIT_SIZES).index(split)
  return np.arange(starts[position], starts[position + 1])


def default_folder() -> pathlib.Path:
  """The user's cache folder: $XDG_CACHE_HOME/soft_reset or ~/.cache/..."""
  cache = os.environ.get('XDG_CACHE_HOME') or '~/.cache'
  return pathlib.Path(cache).expanduser() / 'soft_reset'


def load_molecules(data_dir: str | None = None) -> MoleculeData:
  """Reads the molecules' file, generating it if it isn't there.

  Args:
    data_dir: folder of the file; None for the user's cache folder.

  Raises:
    ValueError: the file can neither be read nor written.
  """
  folder = default_folder() if data_dir is None else pathlib.Path(data_dir)
  path = folder / f'molecules_v{_VERSION}_seed{DATA_SEED}.npz'
  try:
    if not path.is_file():
      folder.mkdir(parents=True, exist_ok=True)
      files.write_whole(path, to_bytes(generate(DATA_SEED)))
    return from_bytes(path.read_bytes())
  except (
    EOFError,
    KeyError,
    OSError,
    ValueError,
    zipfile.BadZipFile,
  ) as error:
    raise ValueError(
      f'data_dir: {path} can be neither read nor written ({error}); give a '
      'writable folder, or remove the file if it is damaged'
    ) from error


def to_bytes(data: MoleculeData) -> bytes:
  """A .npz file whose bytes depend on the arrays only.

  `numpy.savez` would store the time of writing; `ZipInfo` by itself has none.
  """
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, 'w', zipfile.ZIP_STORED) as archive:
    for name, array in data._asdict().items():
      member = io.BytesIO()
      np.save(member, array)
      archive.writestr(zipfile.ZipInfo(f'{name}.npy'), member.getvalue())
  return buffer.getvalue()


def from_bytes(content: bytes) -> MoleculeData:
  """The arrays of a file that `to_bytes` made."""
  with np.load(io.BytesIO(content)) as archive:
    return MoleculeData(*(archive[name] for name in MoleculeData._fields))


def generate(
  seed: int, num_molecules: int = sum(SPLIT_SIZES.values())
) -> MoleculeData:
  """Grows molecules and labels them.

  Args:
    seed: the same seed gives the same arrays.
    num_molecules: how many.
  """
  rng = np.random.default_rng(seed)
  molecules = [grow_molecule(rng) for _ in range(num_molecules)]
  nodes = [atom_features(m) for m in molecules]
  edge_index = [np.array(m.bonds, np.int32)[:, :2] for m in molecules]
  edges = [bond_features(m) for m in molecules]
  graphs = MoleculeData(
    nodes=np.concatenate(nodes),
    edges=np.concatenate(edges),
    edge_index=np.concatenate(edge_index),
    n_node=np.array([len(n) for n in nodes], np.int32),
    n_edge=np.array([len(e) for e in edges], np.int32),
    labels=np.zeros((0, molecule_labels.NUM_TASKS), np.float32),
  )
  return graphs._replace(labels=_labels(rng, graphs))


def _labels(rng: np.random.Generator, graphs: MoleculeData) -> np.ndarray:
  starts = np.cumsum(graphs.n_node) - graphs.n_node
  ends = graphs.edge_index + np.repeat(starts, graphs.n_edge)[:, None]
  kinds = np.ravel_multi_index(
    graphs.nodes[:, [0, 2, 7, 8]].T.astype(np.int64), (32, 8, 2, 2)
  )
  codes = molecule_labels.environment_codes(
    kinds,
    senders=np.concatenate([ends[:, 0], ends[:, 1]]),
    receivers=np.concatenate([ends[:, 1], ends[:, 0]]),
    bonds=np.tile(graphs.edges[:, 0], 2),
  )
  graph_of = np.repeat(np.arange(len(graphs.n_node)), graphs.n_node)
  counts = molecule_labels.count_environments(codes, graph_of)
  return molecule_labels.draw_labels(rng, counts)


def _bonds_of_atoms(molecule: Molecule) -> Sequence[list[int]]:
  kinds = [[] for _ in molecule.atoms]
  for first, second, kind in molecule.bonds:
    kinds[first].append(kind)
    kinds[second].append(kind)
  return kinds


def atom_features(molecule: Molecule) -> np.ndarray:
  """OGB's nine features of each atom, shape (atoms, 9), uint8.

  Atomic number - 1, chirality, degree, formal charge + 5, hydrogens, radical
  electrons, hybridisation (sp, sp2, sp3), is aromatic, is in a ring. No atom
  here is chiral, charged or a radical: those three are constant.
  """
  rows = []
  hydrogens = molecule.hydrogens()
  for atom, kinds in enumerate(_bonds_of_atoms(molecule)):
    is_aromatic = AROMATIC in kinds
    is_sp2 = is_aromatic or DOUBLE in kinds
    hybridisation = 0 if TRIPLE in kinds else 1 if is_sp2 else 2
    rows.append(
      (
        ATOMIC_NUMBER[molecule.atoms[atom]] - 1,
        0,
        len(kinds),
        5,
        hydrogens[atom],
        0,
        hybridisation,
        is_aromatic,
        molecule.in_ring[atom],
      )
    )
  return np.array(rows, np.uint8)


def bond_features(molecule: Molecule) -> np.ndarray:
  """OGB's three features of each bond, shape (bonds, 3), uint8.

  Kind (single, double, triple, aromatic), stereo (none here), is conjugated
  (between two atoms that both have a double or an aromatic bond).
  """
  unsaturated = [
    DOUBLE in kinds or AROMATIC in kinds for kinds in _bonds_of_atoms(molecule)
  ]
  rows = [
    (kind, 0, unsaturated[first] and unsaturated[second])
    for first, second, kind in molecule.bonds
  ]
  return np.array(rows, np.uint8)
