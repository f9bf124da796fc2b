"""Workload `translation`: encoding, BLEU, teacher forcing, both generations."""

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

KEY = jax.random.PRNGKey(0)


@pytest.fixture(scope='module')
def workload():
  made = TranslationWorkload()
  made.params, _ = made.init_model_fn(KEY)
  return made


def test_encoding_and_back():
  first, second = translation.language()[:2]
  tokens = translation.encode([[first, second, 's'], []])
  assert tokens.shape == (2, translation.LENGTH)
  assert tokens[0, :2].tolist() == [2, 3]
  assert tokens[0, 3:5].tolist() == tokens[1, :2].tolist() == [END, PAD]
  text = f'{first[1:]} {second[1:]}s'
  assert translation.decode(tokens) == [text, '']
  # A text ends at the first end marker.
  tokens = np.array([[2, END, 3, END], [PAD, 2, PAD, 2], [END, 2, 2, 2]])
  word = first[1:]
  assert translation.decode(tokens) == [word, f'{word} {word}', '']


def test_padding_counts_for_no_metric(workload):
  words = [p for p in translation.language() if p[0] == '_'][:6]
  # One of six words is wrong, the fifth: of the n-grams 5/6, 3/5, 2/4 and 1/3
  # are right. The lengths agree: no brevity penalty.
  wrong = [*words[:4], words[0], words[5]]
  bleu = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
  for rows in ([words], [words, []]):
    weights = (translation.encode(rows) > 0).astype(np.float32)
    weights[1:] = 0
    outputs = {
      'loss': 2.0 * weights,
      'accuracy': 0.5 * weights,
      'translations': translation.encode([wrong, *rows[1:]]),
      'targets': translation.encode(rows),
      'weights': weights,
    }
    expected = {'loss': 2.0, 'accuracy': 0.5, 'bleu': bleu}
    assert workload._metrics(outputs) == pytest.approx(expected)


def test_teacher_forcing_sees_the_targets(workload):
  """The model is given the translations up to the token before."""
  size = jax.local_device_count()
  batch = next(workload._build_input_queue(KEY, 'train', None, size))
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
  assert first == pytest.approx(second, rel=1e-4)
  # Untrained: about as good as a guess among all pieces.
  uniform = math.log(translation.vocab_size())
  assert uniform < first['loss'] < uniform + 1
  assert 0 <= first['bleu'] < 1
