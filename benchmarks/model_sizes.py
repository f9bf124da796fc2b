"""The memory that training and a reset need, calculated.

  .venv/bin/python benchmarks/model_sizes.py

For the benchmark's eight workloads with AdamW on 8 devices of 16 GB, with
everything except the batch replicated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from reset_cycles.schedule_params import THESIS

FLOAT = 4  # bytes; all parameters and statistics of the workloads are float32
NUM_RESETS = THESIS.num_cycles - 1
# Of a device with 16 GiB, JAX reserves 75 % by default.
DEVICE_BYTES = 0.75 * 16 * 2**30


class Size(NamedTuple):
  """A workload's model, in numbers of elements."""

  params: int
  leaves: int
  largest: tuple[int, ...]  # shape of the largest leaf
  statistics: int  # batch statistics


# Source: jax.eval_shape of init_model_fn of the benchmark's own workloads, in
# v0.5.0 (jax 0.4.13) and main of September 2025 (jax 0.7.0). The two differ
# only in DeepSpeech, whose LSTM is written out in main.
SIZES = {
  'criteo1tb': Size(539_267_457, 17, (4_194_304, 128), 0),
  'fastmri': Size(7_756_097, 24, (3, 3, 512, 512), 0),
  'imagenet_resnet': Size(25_557_032, 161, (3, 3, 512, 512), 53_120),
  'imagenet_vit': Size(22_122_472, 200, (384, 1536), 0),
  'librispeech_conformer': Size(32_321_792, 154, (10_240, 512), 4_096),
  'librispeech_deepspeech (v0.5.0)': Size(18_393_600, 40, (10_240, 512), 9_216),
  'librispeech_deepspeech (main)': Size(18_381_312, 178, (10_240, 512), 9_216),
  'ogbg': Size(3_554_176, 66, (1_024, 256), 0),
  'wmt': Size(133_521_408, 185, (32_000, 1_024), 0),
}


def on_paper(size: Size) -> dict[str, float]:
  """Bytes of a model: on each device, and of its fresh models on the host."""
  params, stats = FLOAT * size.params, FLOAT * size.statistics
  leaf = FLOAT * math.prod(size.largest)
  step = 4 * params + stats  # parameters, gradient, two moments
  return {
    'params': params,
    'moments': 2 * params,
    'statistics': stats,
    'largest leaf': leaf,
    'step': step,
    'reset': 3 * params + stats + leaf,  # parameters, moments, a fresh leaf
    'left in a step': DEVICE_BYTES - step,
    'fresh, host': NUM_RESETS * (params + stats),
  }


def megabytes(count: float) -> str:
  """Bytes as text in units of 10^6."""
  return f'{count / 1e6:,.1f}'


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """A table in Markdown; the first column is text."""
  rule = ['---', *['---:'] * (len(head) - 1)]
  return '\n'.join(f'| {" | ".join(row)} |' for row in (head, rule, *rows))


def paper_table() -> str:
  """A table with a row per workload, in MB."""
  rows = [
    [name, f'{size.params:,}', *map(megabytes, on_paper(size).values())]
    for name, size in SIZES.items()
  ]
  return as_table(
    ['workload', 'parameters', *on_paper(SIZES['criteo1tb'])], rows
  )


if __name__ == '__main__':
  print(paper_table())
