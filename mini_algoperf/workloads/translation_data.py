"""Sentence pairs as arrays: vocabulary, splits, and back to text."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .translation_language import Language

SPLIT_SIZES = {'train': 2048, 'validation': 256, 'test': 256}
# Pieces of the longest sentence or translation, its end marker included.
LENGTH = 17
PAD, END = 0, 1
_NUM_SPECIAL = 2
_LANGUAGE_SEED, _SENTENCE_SEED = 14, 2014


class Pairs(NamedTuple):
  """Sentences and their translations, ended by END, padded with PAD."""

  inputs: np.ndarray  # shape=(pairs, LENGTH), dtype=int32
  targets: np.ndarray  # shape=(pairs, LENGTH), dtype=int32


@functools.lru_cache(maxsize=1)
def language() -> Language:
  """The language that all splits are in."""
  return Language(_LANGUAGE_SEED)


def vocab_size() -> int:
  """Number of pieces of both languages and of special tokens."""
  return _NUM_SPECIAL + len(language().pieces)


@functools.lru_cache(maxsize=1)
def load_pairs() -> dict[str, Pairs]:
  """All splits, generated in about a second; no pair is in two of them."""
  rng = np.random.default_rng(_SENTENCE_SEED)
  # In an order that keeps the smaller splits when the training split grows.
  sizes = {name: SPLIT_SIZES[name] for name in reversed(SPLIT_SIZES)}
  drawn: dict[tuple[str, ...], list[str]] = {}
  while len(drawn) < sum(sizes.values()):
    source, target = language().sentence(rng)
    drawn[tuple(source)] = target
  splits, pairs = {}, iter(drawn.items())
  for name, size in sizes.items():
    chosen = [next(pairs) for _ in range(size)]
    splits[name] = Pairs(*(encode(side) for side in zip(*chosen)))
  return splits


def encode(sentences: Iterable[Iterable[str]]) -> np.ndarray:
  """Token ids, ended and padded, shape (sentences, LENGTH), int32.

  Args:
    sentences: lists of pieces, at most LENGTH - 1 each.

  Raises:
    ValueError: a sentence is too long.
    KeyError: a piece is of neither language.
  """
  ids = {piece: i for i, piece in enumerate(language().pieces, _NUM_SPECIAL)}
  rows = [[*(ids[piece] for piece in pieces), END] for pieces in sentences]
  result = np.full((len(rows), LENGTH), PAD, np.int32)
  for row, tokens in zip(result, rows):
    if len(tokens) > LENGTH:
      raise ValueError(
        f'sentences: {len(tokens) - 1} pieces are too many; {LENGTH - 1} fit'
      )
    row[: len(tokens)] = tokens
  return result


def decode(tokens: np.ndarray) -> list[str]:
  """Text of each row up to its first END; PAD is nothing.

  Args:
    tokens: ids, shape (sentences, length).
  """
  texts = ['', '', *language().pieces]
  sentences = []
  for row in tokens.tolist():
    end = row.index(END) if END in row else len(row)
    joined = ''.join(texts[token] for token in row[:end])
    sentences.append(joined.replace('_', ' ').strip())
  return sentences
