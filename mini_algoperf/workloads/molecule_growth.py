"""Random molecules: rings and functional groups, joined by single bonds.

Nothing here is chemistry beyond valences; what matters is that the graphs look
like a chemist's: sparse, with rings, branches and a few kinds of atoms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SINGLE, DOUBLE, TRIPLE, AROMATIC = range(4)
# In half units, because an aromatic bond counts one and a half.
_BOND_ORDER = (2, 4, 6, 3)
_VALENCE = {'C': 8, 'N': 6, 'O': 4, 'S': 12, 'F': 2, 'L': 2}
ATOMIC_NUMBER = {'C': 6, 'N': 7, 'O': 8, 'S': 16, 'F': 9, 'L': 17}  # L: Cl

MAX_ATOMS = 26
_MIN_ATOMS = 7


class Fragment(NamedTuple):
  """A building block.

  Attributes:
    atoms: one letter per atom.
    bonds: (atom, atom, kind) within the fragment.
    is_ring: whether all atoms form one ring.
  """

  atoms: str
  bonds: tuple[tuple[int, int, int], ...]
  is_ring: bool


def _ring(atoms: str, kind: int) -> Fragment:
  size = len(atoms)
  bonds = tuple((i, (i + 1) % size, kind) for i in range(size))
  return Fragment(atoms, bonds, True)


def _group(atoms: str, *kinds: int) -> Fragment:
  """A first atom with others around it, by the given kinds of bonds."""
  bonds = tuple((0, i + 1, kind) for i, kind in enumerate(kinds))
  return Fragment(atoms, bonds, False)


FRAGMENTS = (
  _ring('CCCCCC', AROMATIC),
  _ring('NCCCCC', AROMATIC),
  _ring('NCNCCC', AROMATIC),
  _ring('SCCCC', AROMATIC),
  _ring('OCCCC', AROMATIC),
  _ring('CCCCCC', SINGLE),
  _ring('CCCCC', SINGLE),
  _ring('NCCNCC', SINGLE),
  _ring('NCCOCC', SINGLE),
  _group('C'),
  _group('CC', SINGLE),
  _group('CC', DOUBLE),
  _group('CO', DOUBLE),
  _group('CON', DOUBLE, SINGLE),
  _group('COO', DOUBLE, SINGLE),
  _group('CN', TRIPLE),
  _group('N'),
  _group('O'),
  _group('F'),
  _group('L'),
  _group('SOO', DOUBLE, DOUBLE),
)
# How often a fragment is drawn, in the order above.
_SHARES = np.array(
  [10, 4, 2, 2, 2, 3, 2, 2, 2, 8, 6, 3, 6, 5, 3, 2, 6, 6, 3, 3, 2]
)


class Molecule:
  """A molecule that grows fragment by fragment."""

  def __init__(self) -> None:
    self.atoms: list[str] = []
    self.bonds: list[tuple[int, int, int]] = []
    self.in_ring: list[bool] = []
    self._free: list[int] = []

  def open_atoms(self, start: int = 0) -> list[int]:
    """Atoms from index `start` on that can take one more single bond."""
    order = _BOND_ORDER[SINGLE]
    return [i for i in range(start, len(self.atoms)) if self._free[i] >= order]

  def add_bond(self, first: int, second: int, kind: int) -> None:
    """Joins two atoms and uses up their valence."""
    self.bonds.append((first, second, kind))
    for atom in (first, second):
      self._free[atom] -= _BOND_ORDER[kind]

  def add_fragment(self, fragment: Fragment) -> None:
    """Puts a fragment beside what is there, without joining it."""
    start = len(self.atoms)
    self.atoms += fragment.atoms
    self.in_ring += [fragment.is_ring] * len(fragment.atoms)
    self._free += [_VALENCE[atom] for atom in fragment.atoms]
    for first, second, kind in fragment.bonds:
      self.add_bond(start + first, start + second, kind)

  def hydrogens(self) -> list[int]:
    """Implicit hydrogens of each atom: its unused valence."""
    return [max(free, 0) // _BOND_ORDER[SINGLE] for free in self._free]


def grow_molecule(rng: np.random.Generator) -> Molecule:
  """Draws fragments and joins each to what is there.

  Args:
    rng: source of all choices.

  Returns:
    A connected molecule of at most `MAX_ATOMS` atoms.
  """
  size = int(rng.integers(_MIN_ATOMS, MAX_ATOMS - 6))
  table = np.repeat(np.arange(len(FRAGMENTS)), _SHARES)
  molecule = Molecule()
  while len(molecule.atoms) < size:
    sites = molecule.open_atoms()
    if molecule.atoms and not sites:
      break
    start = len(molecule.atoms)
    molecule.add_fragment(FRAGMENTS[table[rng.integers(len(table))]])
    if start:
      # Rings join by any of their atoms, groups by their first.
      ends = molecule.open_atoms(start)
      end = ends[rng.integers(len(ends))] if molecule.in_ring[start] else start
      molecule.add_bond(sites[rng.integers(len(sites))], end, SINGLE)
  return molecule
