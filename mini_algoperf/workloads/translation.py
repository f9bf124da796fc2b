"""Workload `translation`: sequence to sequence; the metric, BLEU, rises.

`translation.txt` has the pieces of both languages in its first line, then a
sentence and its translation per line: the training, validation and test split.
They were made once by rules, and stay as they are, since the targets were set
with them. A sentence is a subject, a verb, an object and perhaps a place:

  the old dog s | see | no cat | near Kilemo

The translation has another word order (place after the subject, verb last,
adjective after the noun), cases where the source has order and prepositions,
and agreement of determiners, adjectives and verbs. Nouns and adjectives follow
Zipf's law: rare words are seen a few times only. Names are spelt alike in both.

Sentences are lists of pieces, as a subword tokenizer makes them; '_' starts a
word.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from .arrays import ArrayWorkload
from .parts import mean, split_slices
from .transformer import Transformer, greedy_translations

SPLIT_SIZES = {'train': 2048, 'validation': 256, 'test': 256}
# Pieces of the longest sentence or translation, its end marker included.
LENGTH = 17
PAD, END = 0, 1
_NUM_SPECIAL = 2
_FILE = pathlib.Path(__file__).with_name('translation.txt')


@functools.cache
def _lines() -> list[str]:
  return _FILE.read_text(encoding='utf-8').splitlines()


def language() -> list[str]:
  """The pieces of both languages; the first one's token is 2."""
  return _lines()[0].split()


def vocab_size() -> int:
  """Number of pieces of both languages and of special tokens."""
  return _NUM_SPECIAL + len(language())


def load_texts() -> list[list[list[str]]]:
  """Pieces of all sentences and of their translations, in the splits' order."""
  pairs = [line.split(' | ') for line in _lines()[1:]]
  return [[text.split() for text in side] for side in zip(*pairs)]


@functools.cache
def load_pairs() -> dict[str, dict[str, np.ndarray]]:
  """By split, 'inputs' and 'targets' as from `encode`; no pair is in two."""
  inputs, targets = map(encode, load_texts())
  return {
    split: {'inputs': inputs[there], 'targets': targets[there]}
    for split, there in split_slices(SPLIT_SIZES).items()
  }


def encode(sentences: Iterable[Iterable[str]]) -> np.ndarray:
  """Token ids, ended and padded, shape (sentences, LENGTH), int32.

  ValueError for a sentence that does not fit; KeyError for a piece that neither
  language has.
  """
  ids = {piece: i for i, piece in enumerate(language(), _NUM_SPECIAL)}
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
  """Text of each row of token ids up to its first END; PAD is nothing."""
  texts = ['', '', *language()]
  sentences = []
  for row in tokens.tolist():
    end = row.index(END) if END in row else len(row)
    joined = ''.join(texts[token] for token in row[:end])
    sentences.append(joined.replace('_', ' ').strip())
  return sentences


class TranslationWorkload(ArrayWorkload):
  """Sentences of a rule-made language, a small Transformer, after WMT."""

  name = 'translation'
  target_metric_name, metric_rises = 'bleu', True
  num_train_examples, num_validation_examples, num_test_examples = (
    SPLIT_SIZES.values()
  )
  num_eval_train_examples = 128
  eval_batch_size, default_batch_size = 128, 32
  step_hint, eval_every_steps = 800, 40
  max_allowed_runtime_sec, eval_period_time_sec = 600, 2
  packages = ('sacrebleu',)
  gated = False

  def load_split(
    self, split: str, data_dir: str | None
  ) -> dict[str, np.ndarray]:
    """Generated pairs; the tokens up to the end marker count."""
    pairs = load_pairs()[split]
    weights = (pairs['targets'] != PAD).astype(np.float32)
    return {**pairs, 'weights': weights}

  def _make_model(self) -> nn.Module:
    return Transformer(vocab_size(), gated=self.gated)

  def _fake_inputs(self) -> tuple[jax.Array, jax.Array]:
    tokens = jnp.ones((1, LENGTH), jnp.int32)
    return tokens, tokens

  def _model_inputs(self, batch: spec.Batch) -> tuple[jax.Array, jax.Array]:
    return batch['inputs'], batch['targets']

  def _eval_batch(
    self,
    params: spec.ParameterContainer,
    batch: spec.Batch,
    model_state: spec.ModelAuxiliaryState,
  ) -> dict[str, jax.Array]:
    outputs = super()._eval_batch(params, batch, model_state)
    translations = greedy_translations(self._model, params, batch['inputs'])
    return {**outputs, 'translations': translations}

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    targets = batch['targets']
    correct = (jnp.argmax(logits, axis=-1) == targets) * batch['weights']
    outputs = super()._eval_outputs(logits, batch)
    return {**outputs, 'accuracy': correct, 'targets': targets}

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    import sacrebleu

    is_there = outputs['weights'].any(axis=1)
    translations, references = (
      decode(outputs[key][is_there]) for key in ('translations', 'targets')
    )
    bleu = sacrebleu.corpus_bleu(translations, [references])
    return {
      'loss': mean(outputs, 'loss'),
      'accuracy': mean(outputs, 'accuracy'),
      'bleu': float(bleu.score),
    }


class GatedTranslationWorkload(TranslationWorkload):
  """After WMT's variant with gated linear units and tanh."""

  name, gated = 'translation_glu', True
