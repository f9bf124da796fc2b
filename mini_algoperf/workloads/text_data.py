"""Windows of characters of this project's own documents.

`text.txt` is a copy of them (prose, formulas, commands; not the tables of
numbers) from November 2026. It stays as it is when they change, since the
targets were set with it. Its licence is the project's, Apache-2.0.
"""

from __future__ import annotations

import functools
import pathlib
from typing import NamedTuple

import numpy as np

LENGTH = 64
UNKNOWN = 0
# Characters that are rarer are all one token.
_MIN_COUNT = 10
# The text is cut into blocks, and each belongs to one split as a whole.
_BLOCK = 1024
_NUM_BLOCKS = {'train': 60, 'validation': 10, 'test': 10}
# Training windows begin this far apart; the others don't overlap.
_TRAIN_STRIDE = 16
_SPLIT_SEED = 1948
_FILE = pathlib.Path(__file__).with_name('text.txt')


class Windows(NamedTuple):
  """Tokens, and what follows each of them."""

  inputs: np.ndarray  # shape=(windows, LENGTH), dtype=int32
  targets: np.ndarray  # shape=(windows, LENGTH), dtype=int32


def _stride(split: str) -> int:
  return _TRAIN_STRIDE if split == 'train' else LENGTH


def _starts(split: str) -> range:
  return range(0, _BLOCK - LENGTH, _stride(split))


SPLIT_SIZES = {
  split: number * len(_starts(split)) for split, number in _NUM_BLOCKS.items()
}


@functools.lru_cache(maxsize=1)
def _text() -> np.ndarray:
  """The code points of the text."""
  text = _FILE.read_text(encoding='utf-8')
  return np.array([ord(character) for character in text], np.int32)


@functools.lru_cache(maxsize=1)
def vocabulary() -> np.ndarray:
  """Code points of the characters that have a token, ascending.

  The token of the i-th is i + 1; that of all others is UNKNOWN.
  """
  characters, counts = np.unique(_text(), return_counts=True)
  return characters[counts >= _MIN_COUNT]


def vocab_size() -> int:
  """Number of tokens, UNKNOWN included."""
  return 1 + len(vocabulary())


def encode(code_points: np.ndarray) -> np.ndarray:
  """Tokens of characters, int32, same shape."""
  known = vocabulary()
  place = np.minimum(np.searchsorted(known, code_points), len(known) - 1)
  is_known = known[place] == code_points
  return np.where(is_known, place + 1, UNKNOWN).astype(np.int32)


@functools.cache
def load_windows(split: str) -> Windows:
  """All windows of a split; no character of it is in another split's windows.

  Args:
    split: a key of SPLIT_SIZES.
  """
  num_blocks = sum(_NUM_BLOCKS.values())
  blocks = encode(_text()[: num_blocks * _BLOCK]).reshape(num_blocks, _BLOCK)
  order = np.random.default_rng(_SPLIT_SEED).permutation(num_blocks)
  ends = np.cumsum(list(_NUM_BLOCKS.values()))
  end = ends[list(_NUM_BLOCKS).index(split)]
  chosen = blocks[order[end - _NUM_BLOCKS[split] : end]]
  pieces = np.stack([chosen[:, s : s + LENGTH + 1] for s in _starts(split)], 1)
  pieces = pieces.reshape(-1, LENGTH + 1)
  return Windows(pieces[:, :-1], pieces[:, 1:])
