"""The rules of the house: who may import whom, sizes, types, names."""

from __future__ import annotations

import ast
import collections
import graphlib
import pathlib

import pytest

from reset_cycles import submission

ROOT = pathlib.Path(submission.__file__).parent
# Each room may import those before it, and itself.
ORDER = (
  'settings schedules early_switching soft_reset optimizers averaging '
  'cycles control schedule_params training submission experiments'
).split()
MAY = {room: set(ORDER[: i + 1]) for i, room in enumerate(ORDER)}
MAY['early_switching'] = {'settings', 'schedules'}
MAY['soft_reset'] = {'settings', 'schedules'}
MAY['mini_algoperf'] = {'mini_algoperf'}
MAY['loop'] = {*ORDER[: ORDER.index('training')], 'loop'}
MAY['studies'] = {*ORDER, 'mini_algoperf', 'studies'}
MAY['cli'] = {*MAY['studies'], 'cli'}
SOURCES = sorted(
  path
  for room in MAY
  for path in [*ROOT.glob(f'{room}.py'), *ROOT.glob(f'{room}/**/*.py')]
)
TREES = {
  str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in SOURCES
}


def rooms_imported(name, tree):
  """First names of all modules of the package that a module imports."""
  folder = name.split('/')[:-1]
  for node in ast.walk(tree):
    if isinstance(node, ast.ImportFrom) and node.level:
      base = folder[: len(folder) + 1 - node.level]
      base += (node.module or '').split('.') if node.module else []
      yield from [base[0]] if base else [alias.name for alias in node.names]


@pytest.mark.parametrize('name', TREES)
def test_imports_go_one_way(name):
  room = name.split('/')[0].removesuffix('.py')
  assert set(rooms_imported(name, TREES[name])) <= MAY[room]


def files_imported(name, tree):
  """The files that a module names in its imports, inside functions too."""
  folder = pathlib.PurePath(name).parents
  for node in ast.walk(tree):
    if isinstance(node, ast.ImportFrom) and node.level:
      module = folder[node.level - 1] / (node.module or '').replace('.', '/')
      for alias in node.names:
        tried = [module / alias.name, module, module / '__init__']
        found = [f'{path}.py' for path in tried if f'{path}.py' in TREES]
        yield from found[:1]


def test_no_imports_go_in_a_circle():
  graph = {name: set(files_imported(name, TREES[name])) for name in TREES}
  assert 'training/run_state.py' in graph['training/run.py']
  assert 'training/evaluated.py' in graph['training/run.py']
  assert len([*graphlib.TopologicalSorter(graph).static_order()]) == len(TREES)


def functions():
  for name, tree in TREES.items():
    for node in ast.walk(tree):
      if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield name, node


def test_no_function_is_longer_than_40_lines():
  def lines(node):
    docstring = ast.get_docstring(node, clean=False) or ''
    skipped = docstring.count('\n') + 1 if docstring else 0
    return node.end_lineno - node.lineno + 1 - skipped

  long = [(name, n.name, lines(n)) for name, n in functions() if lines(n) > 40]
  assert long == []


def test_parameters_and_results_have_types():
  bare, count = [], 0
  for name, node in functions():
    arguments = node.args
    given = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    given += [a for a in (arguments.vararg, arguments.kwarg) if a]
    given = [a for a in given if a.arg not in ('self', 'cls')]
    count += len(given)
    bare += [(name, node.name, a.arg) for a in given if not a.annotation]
  assert count > 1000
  assert len(bare) < 0.03 * count, bare


def test_no_class_has_the_name_of_another():
  where = collections.defaultdict(list)
  for name, tree in TREES.items():
    for node in tree.body:
      if isinstance(node, ast.ClassDef):
        where[node.name].append(name)
  assert {c: names for c, names in where.items() if len(names) > 1} == {}


def test_no_root_module_has_the_packages_name():
  package = submission.__name__.split('.')[0]
  assert package not in {path.stem for path in ROOT.glob('*.py')}
