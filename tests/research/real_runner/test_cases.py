"""The sizes of the cases, beside those of their data."""

from reset_cycles.mini_algoperf.workloads import translation
from reset_cycles.research.real_runner import cases, data, patched


def test_sizes_of_further_workloads_fit_their_data():
  """What main's cifar asserts, and a piece for each letter."""
  properties = cases.CASES['cifar10'].properties
  held = properties['num_validation_examples']
  assert held == data.CIFAR10_HELD
  trained = (10_000 - held) * data.CIFAR10_TIMES
  assert properties['num_train_examples'] == trained == 50_000 - held
  letters = set(''.join(data.NAMES))
  for name in ('spoken_conformer', 'spoken_deepspeech'):
    assert cases.CASES[name].model['vocab_size'] == len(letters) + 1 + 3


def test_sizes_on_real_data_fit_each_other():
  """A whole split is a batch; a token for each piece, an output for an assay."""
  tox21, multi30k = (cases.CASES[name] for name in cases.REAL)
  properties = tox21.properties
  for split in ('validation', 'test'):
    held = data.TOX21_SIZES[split]
    assert properties[f'num_{split}_examples'] == held
    assert properties['eval_batch_size'] == held
  assert properties['_num_outputs'] == 12
  properties = multi30k.properties
  assert properties['_vocab_size'] == multi30k.model['vocab_size'] == 2000
  held = properties['num_validation_examples']
  assert held % properties['eval_batch_size'] == 0


def test_the_sizes_of_sentences_are_those_of_their_language():
  """A token for each piece, for padding, for what is never seen, for the end."""
  case = cases.CASES['sentences']
  size = len(translation.language()) + patched.SPECIAL
  assert case.properties['_vocab_size'] == case.model['vocab_size'] == size
  longest = max(
    len(text.split())
    for split in data.sentences().values()
    for side in split.values()
    for text in side
  )
  # No pair is left out, and a translation has room for one token that starts it.
  assert case.model['length'] >= longest + 2
  for split, pairs in data.sentences().items():
    if split != 'train':
      held = case.properties[f'num_{split}_examples']
      assert (
        held <= len(pairs['de'])
        and held % case.properties['eval_batch_size'] == 0
      )
