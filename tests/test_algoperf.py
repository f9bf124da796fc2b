"""Against an installed copy of the real benchmark, either generation."""

from __future__ import annotations

import importlib
import json
import pathlib

import pytest

from soft_reset import submission
from soft_reset.schedule_params import SCHEDULE_PARAMS

ROOT = pathlib.Path(submission.__file__).parent
PACKAGES = ('algoperf', 'algorithmic_efficiency')

pytestmark = pytest.mark.algoperf


def import_benchmark(name):
  """A module of whichever generation is importable; skips if none is."""
  for package in PACKAGES:
    try:
      return importlib.import_module(f'{package}.{name}')
    except ModuleNotFoundError as e:
      if e.name != package:
        raise
  pytest.skip(f'none of {", ".join(PACKAGES)} is installed')


@pytest.mark.parametrize('as_list', [False, True])
def test_the_search_space_works_with_the_benchmarks_generator(as_list):
  halton = import_benchmark('halton')
  space = json.loads((ROOT / 'tuning_search_space.json').read_text())
  if as_list:
    space = [{name: s['feasible_points'][0] for name, s in space.items()}]
  points = halton.generate_search(space, 2)
  assert len(points) == (1 if as_list else 2)
  for point in points:
    assert SCHEDULE_PARAMS.override(point) == SCHEDULE_PARAMS


def test_every_workload_has_a_batch_size():
  registry = import_benchmark('workloads.workloads')
  for name in registry.WORKLOADS:
    base = registry.get_base_workload_name(name)
    assert submission.get_batch_size(name) > 0
    assert submission.get_batch_size(base) > 0
