"""Sentence pairs and a tokenizer for `wmt`, German to English."""

from __future__ import annotations

import numpy as np

from . import sentence_pairs, tokenizer_model
from .data_set import DataSet, Sizes, SmokeData

DEFAULT_SIZES = Sizes(num_train=4096, num_eval=256)
VOCAB_SIZE = 32_000  # outputs of the benchmark's model
TOKENIZER_FILE = 'wmt_sentencepiece_model'

# The benchmark trains on the one and evaluates on the other.
_TRAIN_NAME = 'wmt17_translate/de-en:1.0.0'
_EVAL_NAME = 'wmt14_translate/de-en:1.0.0'


def make_data(seed: int, sizes: Sizes) -> SmokeData:
  """Draws sentence pairs, the same ones for the same seed.

  Args:
    seed: of all choices.
    sizes: pairs per split.
  """
  rng = np.random.default_rng(seed)
  train, validation, test = (
    [sentence_pairs.draw_pair(rng)._asdict() for _ in range(length)]
    for length in (sizes.num_train, sizes.num_eval, sizes.num_eval)
  )
  text = [sentence for pair in train for sentence in pair.values()]
  return SmokeData(
    [
      DataSet(_TRAIN_NAME, {'train': train}),
      DataSet(_EVAL_NAME, {'validation': validation, 'test': test}),
    ],
    files={TOKENIZER_FILE: tokenizer_model.make_model(text, VOCAB_SIZE)},
  )
