"""Workload `translation`: loss, BLEU, batches, both generations."""

from __future__ import annotations

import itertools
import math

import flax.jax_utils
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.mini_algoperf import spec
from reset_cycles.mini_algoperf.workloads import translation_data
from reset_cycles.mini_algoperf.workloads.translation import TranslationWorkload
from reset_cycles.mini_algoperf.workloads.translation_data import LENGTH

NUM_DEVICES = jax.local_device_count()
KEY = jax.random.PRNGKey(0)


@pytest.fixture(scope='module')
def workload():
  made = TranslationWorkload()
  made.params, _ = made.init_model_fn(KEY)
  return made


def test_loss_masks_tokens_and_smooths(workload):
  logits = np.zeros((1, 3, 10), np.float32)
  # Softmax of the first token: 3/12 for piece 4, 1/12 for the nine others.
  logits[0, 0, 4] = math.log(3)
  labels = np.array([[4, 7, 0]])
  mask = np.array([[1.0, 1.0, 0.0]])
  loss = workload.loss_fn(labels, logits, mask)
  np.testing.assert_allclose(
    loss['per_example'], [[math.log(4), math.log(10), 0]], rtol=1e-6
  )
  np.testing.assert_allclose(loss['summed'], math.log(40), rtol=1e-6)
  assert loss['n_valid_examples'] == 2
  assert workload.loss_fn(labels, logits)['n_valid_examples'] == 3
  # s = 0.1: weight 0.91 on the label; log 12 - 0.91 log 3 = 1.485169.
  smooth = workload.loss_fn(labels, logits, np.array([[1.0, 0, 0]]), 0.1)
  np.testing.assert_allclose(smooth['summed'], 1.485169, rtol=1e-6)


def test_a_masked_logit_that_is_not_finite_costs_nothing(workload):
  logits = np.zeros((1, 2, 10), np.float32)
  logits[0, 1, 3] = math.nan
  loss = workload.loss_fn(np.array([[1, 0]]), logits, np.array([[1.0, 0.0]]))
  np.testing.assert_allclose(loss['summed'], math.log(10), rtol=1e-6)


def outputs(pairs):
  """What `_metrics` is given for translations and references in pieces."""
  translations, references = zip(*pairs)
  targets = translation_data.encode(references)
  weights = (targets > 0).astype(np.float32)
  return {
    'loss': 2.0 * weights,
    'accuracy': 0.5 * weights,
    'translations': translation_data.encode(translations),
    'targets': targets,
    'weights': weights,
  }


def test_bleu_by_hand(workload):
  words = [p for p in translation_data.language().pieces if p[0] == '_'][:6]
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


def test_a_wrong_ending_is_a_wrong_word(workload):
  word = translation_data.language().pieces[0]
  reference = [word, 's'] * 5
  metrics = workload._metrics(outputs([([word, 'ed'] * 5, reference)]))
  assert metrics['bleu'] == 0


def test_training_covers_every_pair_once_an_epoch(workload):
  queue = workload._build_input_queue(KEY, 'train', None, 32)
  batches = list(itertools.islice(queue, 2048 // 32))
  seen = np.concatenate([np.asarray(batch['inputs']) for batch in batches])
  everything = translation_data.load_pairs()['train'].inputs
  assert not np.array_equal(seen, everything)
  np.testing.assert_array_equal(
    np.unique(seen, axis=0), np.unique(everything, axis=0)
  )
  np.testing.assert_array_equal(
    batches[0]['weights'], np.asarray(batches[0]['targets']) > 0
  )


def test_evaluation_batches_are_padded(workload):
  batches = workload._eval_batches('validation', 256, None, 96)
  assert [batch['inputs'].shape for batch in batches] == [(96, LENGTH)] * 3
  last = np.asarray(batches[-1]['weights'])
  assert last[:64].any(axis=1).all()
  assert not last[64:].any()
  joined = np.concatenate([np.asarray(b['inputs']) for b in batches])[:256]
  np.testing.assert_array_equal(
    joined, translation_data.load_pairs()['validation'].inputs
  )


def test_parameter_types(workload):
  types = workload.model_params_types
  block = types['decoder_0']
  attention = block['cross_attention']
  assert attention['query']['kernel'] == spec.ParameterType.ATTENTION_Q
  assert attention['key']['kernel'] == spec.ParameterType.ATTENTION_K
  assert attention['value']['kernel'] == spec.ParameterType.ATTENTION_V
  assert attention['out']['kernel'] == spec.ParameterType.ATTENTION_OUT
  assert block['layernorm_0']['scale'] == spec.ParameterType.LAYER_NORM_SCALE
  assert block['dense_0']['kernel'] == spec.ParameterType.WEIGHT
  embedding = types['embedding']['embedding']
  assert embedding == spec.ParameterType.EMBEDDING
  assert workload.is_output_params('output')
  assert workload.param_shapes['output']['kernel'] == spec.ShapeTuple(
    (96, translation_data.vocab_size())
  )


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
  uniform = math.log(translation_data.vocab_size())
  assert uniform < first['loss'] < uniform + 1
  assert 0 <= first['bleu'] < 1


def test_a_diverged_model_is_evaluated(workload):
  params = jax.tree_util.tree_map(lambda x: x * math.nan, workload.params)
  result = workload._eval_model_on_split(
    'validation', 64, 64, params, None, None, None
  )
  assert math.isnan(result['loss'])
  assert result['bleu'] == 0
