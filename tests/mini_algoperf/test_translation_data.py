"""Sentence pairs as arrays."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from reset_cycles.mini_algoperf.workloads import translation_data
from reset_cycles.mini_algoperf.workloads.translation_data import END, PAD


def rows(split):
  return [tuple(row) for row in translation_data.load_pairs()[split].inputs]


def test_the_arrays_are_those_of_the_targets():
  """A change here needs new targets: `soft-reset set-targets`."""
  digest = hashlib.sha256()
  for name, size in translation_data.SPLIT_SIZES.items():
    pairs = translation_data.load_pairs()[name]
    for array in pairs:
      assert array.shape == (size, translation_data.LENGTH)
      assert array.dtype == np.int32
      digest.update(array.astype('<i4').tobytes())
  assert digest.hexdigest() == (
    'dbe18449808668ce63c07843aa4cbc5066a09e42789dc405adaf1813bb48ea8e'
  )


def test_no_sentence_is_there_twice():
  everything = [
    row for split in translation_data.SPLIT_SIZES for row in rows(split)
  ]
  assert len(set(everything)) == len(everything) == 2560


def test_sentences_end_and_are_padded():
  for pairs in translation_data.load_pairs().values():
    for array in pairs:
      ends = (array == END).argmax(axis=1)
      assert ((array == END).sum(axis=1) == 1).all()
      positions = np.arange(array.shape[1])[None, :]
      np.testing.assert_array_equal(array == PAD, positions > ends[:, None])
      assert array.max() < translation_data.vocab_size()


def test_most_names_of_the_validation_are_unknown():
  def names(split):
    text = ' '.join(
      translation_data.decode(translation_data.load_pairs()[split].inputs)
    )
    return {word for word in text.split() if word[0].isupper()}

  new = names('validation') - names('train')
  assert 0.4 < len(new) / len(names('validation')) < 0.9


def test_encoding_and_back():
  first, second = translation_data.language().pieces[:2]
  pieces = [[first, second, 's'], []]
  tokens = translation_data.encode(pieces)
  assert tokens[0, :5].tolist()[:2] == [2, 3]
  assert tokens[0, 3:5].tolist() == [END, PAD]
  assert tokens[1, :2].tolist() == [END, PAD]
  text = f'{first[1:]} {second[1:]}s'
  assert translation_data.decode(tokens) == [text, '']


def test_text_ends_at_the_first_end_marker():
  tokens = np.array([[2, END, 3, END], [PAD, 2, PAD, 2], [END, 2, 2, 2]])
  word = translation_data.language().pieces[0][1:]
  assert translation_data.decode(tokens) == [word, f'{word} {word}', '']


def test_a_sentence_that_is_too_long_or_unknown():
  piece = translation_data.language().pieces[0]
  assert translation_data.encode([[piece] * 16]).shape == (1, 17)
  with pytest.raises(ValueError, match='17 pieces are too many; 16 fit'):
    translation_data.encode([[piece] * 17])
  with pytest.raises(KeyError):
    translation_data.encode([['unknown']])
