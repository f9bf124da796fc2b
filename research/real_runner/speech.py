"""Spoken digits in place of LibriSpeech, where main's own workload reads it."""

from __future__ import annotations

import io
import pathlib
import types
from typing import Any

import numpy as np

from ...mini_algoperf import files
from . import data

# The benchmark's names of its splits begin with these.
_SPLITS = {'train': 'train', 'dev': 'validation', 'test': 'test'}


def train_pieces(file: pathlib.Path, size: int) -> None:
  """Trains SentencePiece on the names' letters, unless there is a model.

  Args:
    file: of the model.
    size: how many pieces it has: the letters, a word's start, and three of
      SentencePiece's own.
  """
  import sentencepiece

  if file.exists():
    return
  file.parent.mkdir(parents=True, exist_ok=True)
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(data.NAMES),
    model_writer=model,
    vocab_size=size,
    model_type='char',
    character_coverage=1.0,
  )
  files.write_whole(file, model.getvalue())


class Recordings:
  """A split, as the benchmark's `LibriSpeechDataset` has one.

  Each example is ((audio, its padding), (tokens, their padding)), with shapes
  (SECOND,) and (longest text,), dtype=float32; padding is 1 where nothing is.

  Args:
    split: fields `audio` and `text`.
    tokens: of each text.
  """

  def __init__(self, split: Any, tokens: dict[str, list[int]]):
    longest = max(map(len, tokens.values()))
    rows = {
      text: (
        np.array([*each, *[0] * (longest - len(each))], np.float32),
        (np.arange(longest) >= len(each)).astype(np.float32),
      )
      for text, each in tokens.items()
    }
    self._audio = split['audio']
    self._targets = [rows[text] for text in split['text'].tolist()]

  def __len__(self) -> int:
    return len(self._targets)

  def __getitem__(self, index: int) -> Any:
    audio = self._audio[index].astype(np.float32)
    # The silence after a digit is part of it: so the shortest has frames enough
    # for its letters.
    return (audio, np.zeros_like(audio)), self._targets[index]


def give_speech(workload: Any, splits: data.Splits, tokenizer: Any) -> None:
  """Has main's LibriSpeech read our recordings, in its own process.

  Args:
    workload: the module that both of its workloads take their data from.
    splits: of `data.spoken_digits`.
    tokenizer: the benchmark's, with the pieces of the names.
  """
  from torch.utils.data import DataLoader

  tokens = {name: tokenizer.tokenize(name).numpy() for name in data.NAMES}
  workload.LibriSpeechDataset = lambda split, data_dir: Recordings(
    splits[_SPLITS[split.partition('-')[0]]], tokens
  )

  def loader(*args: Any, **kwargs: Any) -> Any:
    return DataLoader(
      *args, **{**kwargs, 'num_workers': 0, 'prefetch_factor': None}
    )

  torch_data = types.SimpleNamespace(DataLoader=loader)
  workload.torch = types.SimpleNamespace(
    utils=types.SimpleNamespace(data=torch_data)
  )
