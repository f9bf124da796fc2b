"""Against an installed copy of the real benchmark, either generation."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import pathlib
import shutil

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


def checkout_file(*places):
  """A file of the benchmark's checkout; skips if the package came without."""
  root = pathlib.Path(import_benchmark('spec').__file__).parents[1]
  found = [root / place for place in places if (root / place).exists()]
  if not found:
    pytest.skip(f'{root} is no checkout: it has none of {", ".join(places)}')
  return found[0]


def test_the_folder_passes_the_benchmarks_checker(tmp_path):
  path = checkout_file(
    'algorithms/submission_checker.py', 'submissions/submission_checker.py'
  )
  spec = importlib.util.spec_from_file_location('submission_checker', path)
  checker = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(checker)
  folder = tmp_path / 'self_tuning' / 'soft_reset'
  folder.mkdir(parents=True)
  assert not checker.run_checks(tmp_path)
  for pattern in ('*.py', 'submission_info.yml', 'LICENSE'):
    for file in ROOT.glob(pattern):
      shutil.copy(file, folder)
  assert checker.run_checks(tmp_path)


def test_the_functions_have_the_arguments_of_the_benchmarks_template():
  """What its checker is said to check, but does not."""
  path = checkout_file(
    'algorithms/template/submission.py', 'submissions/template/submission.py'
  )
  theirs = {
    node.name: [arg.arg for arg in node.args.args]
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef)
  }
  assert {'init_optimizer_state', 'update_params'} <= set(theirs)
  for name, names in theirs.items():
    parameters = inspect.signature(getattr(submission, name)).parameters
    ours = list(parameters.values())
    assert [p.name for p in ours[: len(names)]] == names
    # The current generation passes train_state, v0.5.0 does not know it.
    assert all(p.default is not p.empty for p in ours[len(names) :])
