"""Rules of the benchmark that can be read off the shipped files.

RULES.md says which rule each of these tests guards.
"""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

from reset_cycles import submission
from reset_cycles.cli import handed_in

ROOT = pathlib.Path(submission.__file__).parent
SHIPPED = sorted(ROOT / file for file in handed_in.files(experiments=True))
TREES = {
  str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in SHIPPED
}
WORKLOAD_TABLE = '_WORKLOADS_OF_BATCH_SIZE'

# What the submission may know of a workload; RULES.md lists the same.
WORKLOAD_ATTRIBUTES = {
  'eval_period_time_sec',
  'has_reached_validation_target',
  'init_model_fn',
  'loss_fn',
  'max_allowed_runtime_sec',
  'metrics_logger',
  'model_fn',
  'param_shapes',
  'step_hint',
  'target_metric_name',
  'validation_target_value',
}
# In words of the source, apart from the benchmark's names of workloads.
DATA_SETS_AND_MODELS = set(
  (
    'bleu cifar conformer criteo deepspeech dlrm fastmri imagenet librispeech '
    'mnist ogbg resnet transformer unet vit wmt'
  ).split()
)
STANDARD = set(
  (
    '__future__ collections csv dataclasses difflib errno fractions functools '
    'inspect io json math numbers os pathlib re statistics sys time types '
    'typing'
  ).split()
)
THIRD_PARTY = {'absl', 'jax', 'matplotlib', 'numpy', 'optax'}
# How a module could get at the environment, at JAX's settings, at other
# programs or around this list.
FORBIDDEN_NAMES = {
  '__import__',
  'config',
  'debug_callback',
  'environ',
  'environb',
  'eval',
  'exec',
  'getenv',
  'io_callback',
  'import_module',
  'popen',
  'pure_callback',
  'putenv',
  'system',
  'unsetenv',
}


def nodes_of(name, kind):
  return [node for node in ast.walk(TREES[name]) if isinstance(node, kind)]


def docstrings(tree):
  """The constants that are statements of their own."""
  return {
    id(node.value)
    for node in ast.walk(tree)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
  }


def table_of_batch_sizes(tree):
  """What is in the assignment of the batch sizes: the nodes' ids."""
  return {
    id(inner)
    for node in ast.walk(tree)
    if isinstance(node, ast.Assign)
    and WORKLOAD_TABLE in [getattr(t, 'id', '') for t in node.targets]
    for inner in ast.walk(node.value)
  }


def texts(name):
  """Strings and identifiers of a module; not docstrings, not batch sizes."""
  tree = TREES[name]
  skipped = docstrings(tree)
  if name == 'submission.py':
    skipped |= table_of_batch_sizes(tree)
  for node in ast.walk(tree):
    if id(node) in skipped:
      continue
    for field in ('id', 'attr', 'name', 'arg', 'value', 'module'):
      text = getattr(node, field, None)
      if isinstance(text, str):
        yield text


def words(text):
  """Lower-case parts of a text: 'OgbgWorkload' -> {'ogbg', 'workload'}."""
  return {w.lower() for w in re.findall(r'[A-Z]?[a-z]+|[A-Z]+', text)}


def test_the_lists_are_those_of_a_whole_submission():
  assert {'submission.py', 'training/run.py'} <= set(TREES)
  assert ast.unparse(ast.parse(handed_in.INIT)).count('\n') == 0
  assert len(submission._BATCH_SIZES) == 36
  assert words('x.OgbgWorkload_wmt-ViT') >= {'ogbg', 'workload', 'wmt'}


@pytest.mark.parametrize('name', TREES)
def test_no_workload_is_named_outside_get_batch_size(name):
  found = [
    text
    for text in texts(name)
    if words(text) & DATA_SETS_AND_MODELS
    or any(known in text for known in submission._BATCH_SIZES)
  ]
  assert found == []


def test_batch_sizes_are_read_by_get_batch_size_alone():
  def names(tree):
    return {
      node.id
      for node in ast.walk(tree)
      if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }

  tables = {WORKLOAD_TABLE, '_BATCH_SIZES'}
  readers = [
    (name, getattr(statement, 'name', ast.unparse(statement)[:12]))
    for name, tree in TREES.items()
    for statement in tree.body
    if names(statement) & tables
  ]
  assert readers == [
    ('submission.py', '_BATCH_SIZES'),
    ('submission.py', 'get_batch_size'),
  ]


def test_what_is_asked_of_a_workload():
  asked = {
    node.attr
    for name in TREES
    for node in nodes_of(name, ast.Attribute)
    if isinstance(node.value, ast.Name) and node.value.id == 'workload'
  }
  assert asked == WORKLOAD_ATTRIBUTES
  rules = (ROOT / 'RULES.md').read_text()
  assert [a for a in sorted(asked) if f'`{a}`' not in rules] == []


# Folders and modules that make settings, shapes, averages and decisions.
DECIDING = re.compile(
  'settings/|schedules/|optimizers/|averaging/|cycles/|control/|'
  '(early_switching|soft_reset|schedule_params).py'
)


@pytest.mark.parametrize('name', [n for n in TREES if DECIDING.match(n)])
def test_what_decides_never_sees_the_workload(name):
  """Not even under another name: nobody asks for an attribute of one."""
  assert [text for text in texts(name) if 'workload' in words(text)] == []
  asked = {node.attr for node in nodes_of(name, ast.Attribute)}
  assert asked & WORKLOAD_ATTRIBUTES <= {'step_hint'}


def test_the_type_of_the_loss_is_not_looked_at():
  """It is an argument of two functions, which throw it away."""
  found = {(name, t) for name in TREES for t in texts(name) if 'loss_type' in t}
  assert found == {('submission.py', 'loss_type')}
  loads = [
    node
    for node in nodes_of('submission.py', ast.Name)
    if node.id == 'loss_type' and not isinstance(node.ctx, ast.Del)
  ]
  assert loads == []


def test_a_workloads_class_is_looked_at_for_its_spec_module_only():
  """type, vars, getattr and the like, with the workload as argument."""
  calls = [
    (function.name, call.func.id)
    for name in TREES
    for function in nodes_of(name, ast.FunctionDef)
    for call in ast.walk(function)
    if isinstance(call, ast.Call)
    and isinstance(call.func, ast.Name)
    and call.func.id
    in {'dir', 'getattr', 'hasattr', 'id', 'isinstance', 'repr', 'str'}
    | {'setattr', 'type', 'vars'}
    and any(getattr(arg, 'id', '') == 'workload' for arg in call.args)
  ]
  assert sorted(set(calls)) == [('fresh_model', 'vars'), ('spec_of', 'type')]


def test_flags_are_read_for_the_folder_alone():
  """Among them is the workload's name: it may become part of a path only."""
  readers = [
    name
    for name in TREES
    if any(
      a.name == 'flags' for n in nodes_of(name, ast.ImportFrom) for a in n.names
    )
  ]
  assert readers == ['training/folder.py']
  named = [
    function.name
    for name in TREES
    for function in nodes_of(name, ast.FunctionDef)
    if any(getattr(n, 'value', '') == 'workload' for n in ast.walk(function))
  ]
  assert named == ['find_folder']


# Imports the modules of a folder of ours, so that each registers its part.
DISCOVERY = 'settings/discovery.py'


@pytest.mark.parametrize('name', TREES)
def test_no_environment_no_settings_no_other_programs(name):
  allowed = {'import_module'} if name == DISCOVERY else set()
  found = {text for text in texts(name) if text in FORBIDDEN_NAMES}
  assert found == allowed
  of_os = {
    node.attr
    for node in nodes_of(name, ast.Attribute)
    if isinstance(node.value, ast.Name) and node.value.id == 'os'
  }
  assert of_os <= {'getpid', 'replace'}
  assert 'os' not in [n.module for n in nodes_of(name, ast.ImportFrom)]


@pytest.mark.parametrize('name', TREES)
def test_imports(name):
  """Own modules relatively; no benchmark package, no threads, no kernels."""
  imported = {
    alias.name.split('.')[0]
    for node in nodes_of(name, ast.Import)
    for alias in node.names
  } | {
    node.module.split('.')[0]
    for node in nodes_of(name, ast.ImportFrom)
    if node.level == 0
  }
  discovery = {'importlib', 'pkgutil'} if name == DISCOVERY else set()
  assert imported <= STANDARD | THIRD_PARTY | discovery
  own = {path.stem for path in SHIPPED} | {''}
  own |= {path.parent.name for path in SHIPPED}
  for node in nodes_of(name, ast.ImportFrom):
    if node.level and node.module is None:
      assert {alias.name for alias in node.names} <= own
    elif node.level:
      assert set(node.module.split('.')) <= own


# Ways to open or list files; os is dealt with above.
FILES = {
  'glob',
  'open',
  'read_bytes',
  'read_text',
  'rename',
  'touch',
  'unlink',
  'write_bytes',
  'write_text',
}


def test_which_modules_open_files():
  """The run's own and the log of evaluations; see RULES.md."""

  def calls(name):
    return {
      getattr(call.func, 'attr', getattr(call.func, 'id', ''))
      for call in nodes_of(name, ast.Call)
    }

  openers = {name: sorted(calls(name) & FILES) for name in TREES}
  assert {name: found for name, found in openers.items() if found} == {
    'training/configuration.py': ['glob', 'read_text'],
    'training/events.py': ['open', 'read_text'],
    'training/folder.py': ['glob', 'read_text'],
    'training/workload.py': ['open'],
    'training/writing.py': ['unlink', 'write_bytes'],
  }


def test_where_the_clock_is_read():
  """To foresee evaluations, and nowhere else; see RULES.md."""
  importers = [
    name
    for name in TREES
    if any(
      alias.name == 'time'
      for node in nodes_of(name, ast.Import)
      for alias in node.names
    )
  ]
  assert importers == ['training/forecast.py']
  callers = {
    name
    for name in TREES
    for call in nodes_of(name, ast.Call)
    if ast.unparse(call.func) == 'forecast_lib.now'
  }
  assert callers == {'training/evaluated.py'}


def test_the_size_of_an_evaluations_batch_is_the_benchmarks():
  assert not hasattr(submission, 'get_eval_batch_size')


def test_rules_name_tests_and_functions_that_exist():
  rules = (ROOT / 'RULES.md').read_text()
  tests = re.findall(r'`(test_\w+\.py)::\s*(\w+)`', rules)
  assert len(tests) > 20
  missing = [
    (file, name)
    for file, name in tests
    if not any(
      f'\ndef {name}(' in path.read_text()
      for path in (ROOT / 'tests').rglob(file)
    )
  ]
  modules = {path.stem: path.read_text() for path in SHIPPED}
  named = re.findall(r'`(\w+)\.(\w+)`', rules)
  missing += [
    (module, name)
    for module, name in named
    if module in modules
    and name not in ('py', 'yml')
    and not re.search(
      rf'^((def|class) {name}\b|{name} =)', modules[module], re.M
    )
  ]
  assert missing == []
