"""A SentencePiece model of a given size, without training one.

The model is of the kind `unigram`: pieces with log-probabilities. Whole words
and punctuation marks have their frequencies in a text, single characters are
there for what is not in it, and pieces that no text is split into make up the
number. They matter: an untrained translator puts out any of its ids, and one
that the tokenizer doesn't know stops the benchmark.

The bytes follow sentencepiece_model.proto of github.com/google/sentencepiece;
fields that are left out keep its defaults. Written by hand they depend on the
text alone; a trained model also depends on the version of the trainer.
"""

from __future__ import annotations

import collections
import math
import re
import struct
from collections.abc import Iterable
from typing import NamedTuple

SPACE = '\u2581'  # stands for the space in front of a word
# SentencePiece.Type
NORMAL, UNKNOWN, CONTROL, UNUSED = 1, 2, 3, 5

_WORDS = re.compile(r'\w+|[^\w\s]')
# A character costs more than any word of a text does.
_CHARACTER_SCORE = -20.0


class Piece(NamedTuple):
  """An entry of the vocabulary; its id is its position."""

  text: str
  score: float  # natural logarithm of a probability
  kind: int


def make_model(text: Iterable[str], vocab_size: int) -> bytes:
  """A serialised model that splits a text into its words.

  Args:
    text: sentences.
    vocab_size: number of pieces.

  Raises:
    ValueError: if the text has too many words.
  """
  pieces = make_pieces(text, vocab_size)
  trainer = _varint_field(4, vocab_size)  # TrainerSpec.vocab_size
  normalizer = _bytes_field(1, b'identity')  # NormalizerSpec.name
  return (
    b''.join(_bytes_field(1, _encode(piece)) for piece in pieces)
    + _bytes_field(2, trainer)
    + _bytes_field(3, normalizer)
  )


def make_pieces(text: Iterable[str], vocab_size: int) -> list[Piece]:
  """The vocabulary: special pieces, words, characters, unused pieces.

  Args:
    text: sentences.
    vocab_size: number of pieces.

  Raises:
    ValueError: if the text has too many words.
  """
  counts = collections.Counter(
    word for sentence in text for word in _split(sentence)
  )
  total = math.log(sum(counts.values()))
  characters = sorted({*''.join(counts), *map(chr, range(33, 127)), SPACE})
  pieces = [
    Piece('<unk>', 0.0, UNKNOWN),
    Piece('<s>', 0.0, CONTROL),
    Piece('</s>', 0.0, CONTROL),
  ]
  for word in sorted(counts, key=lambda word: (-counts[word], word)):
    pieces.append(Piece(word, math.log(counts[word]) - total, NORMAL))
  for character in characters:
    if character not in counts:
      pieces.append(Piece(character, _CHARACTER_SCORE, NORMAL))
  missing = vocab_size - len(pieces)
  if missing < 0:
    raise ValueError(
      f'vocab_size={vocab_size}: this text needs {len(pieces)} pieces.'
    )
  return pieces + [
    Piece(f'{SPACE}unused{number}', 0.0, UNUSED) for number in range(missing)
  ]


def _split(sentence: str) -> list[str]:
  """Words, with the space in front of them, and punctuation marks."""
  return [
    SPACE + word if word[0].isalnum() else word
    for word in _WORDS.findall(sentence)
  ]


def _encode(piece: Piece) -> bytes:
  """A SentencePiece message."""
  return (
    _bytes_field(1, piece.text.encode())
    + bytes([2 << 3 | 5])
    + struct.pack('<f', piece.score)
    + _varint_field(3, piece.kind)
  )


def _bytes_field(number: int, content: bytes) -> bytes:
  return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint_field(number: int, value: int) -> bytes:
  return bytes([number << 3]) + _varint(value)


def _varint(value: int) -> bytes:
  """A non-negative integer in groups of seven bits, lowest first."""
  groups = bytearray()
  while value > 127:
    groups.append(value & 127 | 128)
    value >>= 7
  return bytes([*groups, value])
