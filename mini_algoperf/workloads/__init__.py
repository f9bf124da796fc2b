"""The workloads of the stand-in, by name."""

from __future__ import annotations

from .base import MiniWorkload
from .digits import DigitsWorkload
from .molecules import MoleculesWorkload
from .translation import TranslationWorkload

WORKLOADS = {
  'digits': DigitsWorkload,
  'molecules': MoleculesWorkload,
  'translation': TranslationWorkload,
}


def get_workload(name: str, generation: str = 'jit') -> MiniWorkload:
  """Makes a workload.

  Args:
    name: a key of `WORKLOADS`.
    generation: 'jit' (current benchmark) or 'pmap' (that of 2024).

  Raises:
    ValueError: the name or the generation is unknown.
  """
  if name not in WORKLOADS:
    raise ValueError(
      f'workload: {name!r} is unknown; use one of '
      f'{", ".join(sorted(WORKLOADS))}'
    )
  return WORKLOADS[name](generation=generation)
