"""What is changed of the benchmark from outside, on parts made here."""

import functools
import math
import pathlib
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.research.real_runner import patched


def test_pieces_are_trained_once_and_on_all_texts(tmp_path, monkeypatch):
  """ü has two bytes, and each line has an end."""
  slices = types.SimpleNamespace(from_tensor_slices=lambda pairs: pairs)
  tf = types.SimpleNamespace(data=types.SimpleNamespace(Dataset=slices))
  monkeypatch.setitem(sys.modules, 'tensorflow', tf)
  asked = []

  def train_tokenizer(dataset, **how):
    asked.append((dataset, how))
    pathlib.Path(how['vocab_path']).touch()

  tokenizer = types.SimpleNamespace(train_tokenizer=train_tokenizer)
  pairs = {'de': ['Büro', ''], 'en': ['a b', 'c']}
  for _ in range(2):
    patched.train_pieces(tokenizer, pairs, tmp_path / 'new', 7)
  how = {
    'vocab_path': str(tmp_path / 'new' / 'wmt_sentencepiece_model'),
    'vocab_size': 7,
    'max_corpus_chars': 6 + 1 + 4 + 2,
    'data_keys': ('de', 'en'),
  }
  assert asked == [(pairs, how)]


def test_a_models_sizes_are_replaced(monkeypatch):
  module = types.SimpleNamespace(
    ConformerConfig=lambda **fields: {'encoder_dim': 512, **fields}
  )
  path, _ = patched.SIZES['librispeech_conformer']
  monkeypatch.setitem(sys.modules, path, module)
  patched.make_smaller('librispeech_conformer', {'encoder_dim': 48})
  assert module.ConformerConfig(use_specaug=True) == {
    'encoder_dim': 48,
    'use_specaug': True,
  }


def test_cifar_is_mended():
  """Whole batches, no parameters as statistics, totals over the examples."""

  class Workload:
    def init_model_fn(self, rng):
      return {'kernel': rng}, {'kernel': rng}

  pipeline = types.SimpleNamespace()
  patched.mend_cifar(pipeline, Workload)
  batches = iter([{'inputs': np.zeros((64, 2))}])
  [batch] = pipeline.jax_utils.prefetch_to_device(batches, 2)
  assert batch['inputs'].shape == (64, 2)
  assert Workload().init_model_fn(5) == ({'kernel': 5}, {})
  totals = {'loss': 6.0, 'accuracy': 3.0}
  found = Workload()._normalize_eval_metrics(4, totals)
  assert found == {'loss': 1.5, 'accuracy': 0.75}


def test_the_test_split_is_translated_where_validation_is_past_its_target(
  monkeypatch,
):
  """The benchmark's workload, as far as its sizes and its BLEU go."""
  scores, predictors = iter((12.0, 12.5, 10.0, 11.0)), []
  reads: list[np.ndarray] = []

  class WmtWorkload:
    validation_target_value = 12.0

    @functools.partial(jax.jit, static_argnums=(0, 2))
    def initialize_cache(self, inputs, length=256):
      return inputs + length

    def predict_step(self):
      """What the benchmark compiles once a call."""
      return self

    def translate_and_calculate_bleu(self, *, ds_iter, max_predict_length):
      assert max_predict_length == 24
      predictors.append(self.predict_step)
      return next(scores)

    def _decode_tokens(self, tokens):
      reads.append(tokens)
      return ' '.join(map(str, tokens))

  fakes = {
    'wmt_jax.models': types.SimpleNamespace(TransformerConfig=dict),
    'input_pipeline': types.SimpleNamespace(preprocess_wmt_data=dict),
    'wmt_jax.workload': types.SimpleNamespace(WmtWorkload=WmtWorkload),
  }
  for name, module in fakes.items():
    monkeypatch.setitem(sys.modules, f'algoperf.workloads.wmt.{name}', module)
  patched.make_translation_smaller({'length': 24, 'emb_dim': 8})
  workload = WmtWorkload()
  workload._eval_iters = {
    split: iter(()) for split in ('eval_train', 'validation', 'test')
  }
  found = [
    [
      workload.translate_and_calculate_bleu(
        ds_iter=batches, max_predict_length=256
      )
      for batches in workload._eval_iters.values()
    ]
    for _ in range(3)
  ]
  nan = math.nan  # 12 is not past a target of 12
  np.testing.assert_array_equal(
    found, [[nan, 12.0, nan], [nan, 12.5, 10.0], [nan, 11.0, nan]]
  )
  assert workload.initialize_cache(jnp.ones(2)).tolist() == [25.0, 25.0]
  # One function for all calls, which is traced once.
  assert len({*map(id, predictors)}) == 1
  assert predictors[0]() is workload
  # A sentence is read once, and another one is not taken for it.
  for tokens, text in (((5, 6), '5 6'), ((5, 7), '5 7'), ((5, 6), '5 6')):
    assert workload._decode_tokens(jnp.array(tokens)) == text
  assert [type(tokens) for tokens in reads] == [np.ndarray] * 2
  models, pipeline, _ = fakes.values()
  assert models.TransformerConfig() == {'emb_dim': 8}
  assert pipeline.preprocess_wmt_data(max_length=256) == {'max_length': 24}


class Order:
  """A data set of indices, reversed when it is shuffled, twice for ever."""

  def __init__(self, indices):
    self.indices = indices

  def shuffle(self, *, seed, buffer_size):
    assert (seed, buffer_size) == (3, 8)
    return Order(self.indices[::-1])

  def repeat(self):
    return Order(self.indices * 2)

  def as_numpy_iterator(self):
    return iter(self.indices)


def test_examples_of_any_shape_come_in_the_order_of_their_indices():
  """The benchmark asks each field for its array, as it would a tensor."""
  rows = [{'edges': np.ones((n, 3)), 'num': np.array([n])} for n in (2, 0, 1)]
  examples = patched.Examples(rows, Order([0, 1, 2]))
  examples = examples.shuffle(seed=3, buffer_size=8).repeat()
  seen = [jax.tree.map(lambda x: x._numpy(), each) for each in examples]
  assert [each['num'].tolist() for each in seen] == [[1], [0], [2]] * 2
  assert [each['edges'].shape for each in seen[:3]] == [(1, 3), (0, 3), (2, 3)]


def test_a_split_is_named_as_tfds_does():
  assert patched.part_of('train[:50000]') == ('train', slice(0, 50_000))
  assert patched.part_of('train[50000:]') == ('train', slice(50_000, None))
  assert patched.part_of('test') == ('test', slice(0, None))


def test_the_counted_clock_advances_with_steps_alone():
  seen = []

  def update_params(*, global_step, eval_results=()):
    seen.append(global_step)

  submission = types.SimpleNamespace(update_params=update_params)
  clock = patched.CountedClock(0.25)
  patched.count_steps(submission, clock)
  start = clock()
  for step in range(4):
    submission.update_params(global_step=step)
  assert (seen, clock() - start) == ([0, 1, 2, 3], 1.0)


def test_properties_are_replaced_by_name():
  class Workload:
    @property
    def step_hint(self):
      return 7

    @property
    def dims(self):
      return (256,)

  workloads = types.SimpleNamespace(import_workload=lambda *_, **__: Workload)
  patched.set_properties(workloads, {'step_hint': 3, 'dims': [4]})
  found = workloads.import_workload('path', 'Workload')
  assert (found.step_hint, found.dims) == (3, (4,))
  patched.set_properties(workloads, {'steps': 3})
  with pytest.raises(SystemExit, match='Workload has no property steps'):
    workloads.import_workload('path', 'Workload')
