"""Workload `translation`: loss, BLEU, batches, both generations."""

from __future__ import annotations

import math

import flax.jax_utils
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.mini_algoperf import spec
from reset_cycles.mini_algoperf.workloads import translation
from reset_cycles.mini_algoperf.workloads.translation import (
  END,
  PAD,
  TranslationWorkload,
)

NUM_DEVICES = jax.local_device_count()
KEY = jax.random.PRNGKey(0)


@pytest.fixture(scope='module')
def workload():
  made = TranslationWorkload()
  made.params, _ = made.init_model_fn(KEY)
  return made


def test_encoding_and_back():
  first, second = translation.language()[:2]
  pieces = [[first, second, 's'], []]
  tokens = translation.encode(pieces)
  assert tokens[0, :5].tolist()[:2] == [2, 3]
  assert tokens[0, 3:5].tolist() == [END, PAD]
  assert tokens[1, :2].tolist() == [END, PAD]
  text = f'{first[1:]} {second[1:]}s'
  assert translation.decode(tokens) == [text, '']


def test_text_ends_at_the_first_end_marker():
  tokens = np.array([[2, END, 3, END], [PAD, 2, PAD, 2], [END, 2, 2, 2]])
  word = translation.language()[0][1:]
  assert translation.decode(tokens) == [word, f'{word} {word}', '']


def test_a_sentence_that_is_too_long_or_unknown():
  piece = translation.language()[0]
  assert translation.encode([[piece] * 16]).shape == (1, 17)
  with pytest.raises(ValueError, match='17 pieces are too many; 16 fit'):
    translation.encode([[piece] * 17])
  with pytest.raises(KeyError):
    translation.encode([['unknown']])


def outputs(pairs):
  """What `_metrics` is given for translations and references in pieces."""
  translations, references = zip(*pairs)
  targets = translation.encode(references)
  weights = (targets > 0).astype(np.float32)
  return {
    'loss': 2.0 * weights,
    'accuracy': 0.5 * weights,
    'translations': translation.encode(translations),
    'targets': targets,
    'weights': weights,
  }


def test_bleu_by_hand(workload):
  words = [p for p in translation.language() if p[0] == '_'][:6]
  # One of six words is wrong, the fifth: of the n-grams 5/6, 3/5, 2/4 and 1/3
  # are right. The lengths agree: no brevity penalty.
  wrong = [*words[:4], words[0], words[5]]
  metrics = workload._metrics(outputs([(wrong, words)]))
  expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
  assert metrics['bleu'] == pytest.approx(expected)
  assert metrics['loss'] == pytest.approx(2.0)
  assert metrics['accuracy'] == pytest.approx(0.5)
  # Padding doesn't count.
  padded = {
    key: np.concatenate([x, np.zeros_like(x)])
    for key, x in outputs([(wrong, words)]).items()
  }
  assert workload._metrics(padded) == pytest.approx(metrics)
  assert workload._metrics(outputs([(words, words)]))['bleu'] == (
    pytest.approx(100)
  )
  assert workload._metrics(outputs([([], words)]))['bleu'] == 0


def test_teacher_forcing_sees_the_targets(workload):
  """The model is given the translations up to the token before."""
  batch = next(workload._build_input_queue(KEY, 'train', None, NUM_DEVICES))
  changed = {**batch, 'targets': jnp.full_like(batch['targets'], 5)}

  @jax.jit
  def logits(params, batch):
    mode = spec.ForwardPassMode.EVAL
    return workload.model_fn(params, batch, None, mode, None, False)[0]

  first, second = (logits(workload.params, b) for b in (batch, changed))
  np.testing.assert_allclose(first[:, 0], second[:, 0], atol=1e-5)
  assert not np.allclose(first[:, 1:], second[:, 1:])


def test_the_generations_evaluate_alike(workload):
  other = TranslationWorkload('pmap')
  # Its own initialisation would take seconds to compile.
  other._model = other._make_model(0.0)
  other_params = flax.jax_utils.replicate(workload.params)
  first, second = (
    w._eval_model_on_split('validation', 64, 64, params, None, None, None)
    for w, params in ((workload, workload.params), (other, other_params))
  )
  assert set(first) == {'loss', 'accuracy', 'bleu'}
  assert first == pytest.approx(second, rel=1e-4)
  # Untrained: about as good as a guess among all pieces.
  uniform = math.log(translation.vocab_size())
  assert uniform < first['loss'] < uniform + 1
  assert 0 <= first['bleu'] < 1
