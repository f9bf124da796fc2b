"""Spoken digits in the form of the benchmark's LibriSpeech, without it."""

import sys
import types

import numpy as np

from reset_cycles.research.real_runner import data, speech


def test_speech_is_read_in_the_benchmarks_form(monkeypatch):
  """A second of audio without padding; the tokens with theirs, to the longest."""
  loaded = []
  torch_data = types.SimpleNamespace(
    DataLoader=lambda *args, **how: loaded.append((args, how))
  )
  for name, module in {
    'torch': types.SimpleNamespace(),
    'torch.utils': types.SimpleNamespace(),
    'torch.utils.data': torch_data,
  }.items():
    monkeypatch.setitem(sys.modules, name, module)
  monkeypatch.setattr(data, 'NAMES', ('one', 'three'))
  tokenizer = types.SimpleNamespace(
    tokenize=lambda text: types.SimpleNamespace(
      numpy=lambda: np.arange(3, 3 + len(text))
    )
  )
  split = {
    'audio': np.array([[5, -5], [7, 0]], np.int16),
    'text': np.array(['three', 'one']),
  }
  workload = types.SimpleNamespace()
  speech.give_speech(workload, {'validation': split}, tokenizer)
  found = workload.LibriSpeechDataset(
    split='dev-clean+dev-other', data_dir='there'
  )
  assert len(found) == 2
  (audio, silence), (tokens, padding) = found[1]
  assert (audio.tolist(), silence.tolist()) == ([7, 0], [0, 0])
  assert (tokens.tolist(), padding.tolist()) == (
    [3, 4, 5, 0, 0],
    [0, 0, 0, 1, 1],
  )
  assert {each.dtype for each in (audio, silence, tokens, padding)} == {
    np.dtype(np.float32)
  }
  workload.torch.utils.data.DataLoader(found, num_workers=4, shuffle=True)
  how = {'num_workers': 0, 'prefetch_factor': None, 'shuffle': True}
  assert loaded == [((found,), how)]


def test_letters_are_trained_once_on_the_names(tmp_path, monkeypatch):
  asked = []

  def train(*, model_writer, sentence_iterator, **how):
    model_writer.write(b'model')
    asked.append((tuple(sentence_iterator), how))

  trainer = types.SimpleNamespace(train=train)
  module = types.SimpleNamespace(SentencePieceTrainer=trainer)
  monkeypatch.setitem(sys.modules, 'sentencepiece', module)
  for _ in range(2):
    speech.train_pieces(tmp_path / 'new' / 'pieces', 19)
  assert (tmp_path / 'new' / 'pieces').read_bytes() == b'model'
  how = {'vocab_size': 19, 'model_type': 'char', 'character_coverage': 1.0}
  assert asked == [(data.NAMES, how)]
