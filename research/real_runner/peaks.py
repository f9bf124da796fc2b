"""The share of its weights' size that published peaks are, on main's models."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from ...core import workload as workload_facts
from ...optimizers.peaks import RelativePeak, SpectralPeak
from ...optimizers.step import RunStart
from ...schedule_params import MUON
from ...submission import get_batch_size
from ..board.rivals import published_muon

PUBLISHED = 0.0025  # of Schedule-Free AdamW
# Of the JAX entry.
PUBLISHED_MUON = published_muon.MULTIPLE * published_muon.LEARNING_RATE
WORKLOADS = (
  *('criteo1tb', 'fastmri', 'imagenet_resnet', 'imagenet_vit', 'mnist', 'ogbg'),
  *('librispeech_conformer', 'librispeech_deepspeech', 'wmt'),
)


def known_workloads(benchmark: pathlib.Path) -> Any:
  """The module that knows the benchmark's workloads, from its checkout."""
  sys.path.insert(0, str(benchmark.resolve()))
  return importlib.import_module('algoperf.workloads.workloads')


def rows(known: Any, workloads: Sequence[str]) -> Iterator[str]:
  """A table, row by row: a workload's model is made, and nothing is trained.

  Args:
    known: as `known_workloads` returns it.
    workloads: the benchmark's names.
  """
  columns = (
    'size of the weights',
    'share',
    'size of the matrices',
    'Muon: share',
    "MUON's share",
    'epochs',
    'factor',
  )
  yield f'| workload | {" | ".join(columns)} |'
  yield f'|{" --- |" * 8}'
  for name in workloads:
    about = known.WORKLOADS[name]
    workload = known.import_workload(
      f'algoperf/workloads/{about["workload_path"]}_jax/workload.py',
      about['workload_class_name'],
      workload_init_kwargs={},
    )
    params, _ = workload.init_model_fn(jax.random.PRNGKey(0))
    size = RelativePeak(1.0).peak(RunStart(params))
    answers = workload_facts.forms_of(workload, params, jax.random.PRNGKey(0))
    start = RunStart(params, tuple(answer.form for answer in answers))
    matrices = SpectralPeak(1.0).peak(start)
    steps = int(MUON.budget_factor * workload.step_hint)
    rule: Any = MUON.relative_peak
    sizes = f'{size:.4f} | {PUBLISHED / size:.3f} | {matrices:.3f}'
    shares = (PUBLISHED_MUON, rule.peak(start._replace(steps=steps)))
    shown = ' | '.join(f'{peak / matrices:.4f}' for peak in shares)
    size = get_batch_size(name)
    per_epoch = workload_facts.steps_per_epoch(workload, size)
    assert per_epoch is not None  # the benchmark's know their examples
    factor = MUON.decay_factor(steps, per_epoch)
    seen = f'{steps / per_epoch:.1f} | {factor:.1f}'
    yield f'| {name} | {sizes} | {shown} | {seen} |'
