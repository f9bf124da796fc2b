"""Rules of the benchmark that can be read off the shipped files.

RULES.md says which rule each of these tests guards.
"""

import ast
import pathlib
import re

import pytest

from reset_cycles import submission
from reset_cycles.cli import handed_in

ROOT = pathlib.Path(submission.__file__).parent
# What is handed in; __init__.py files have nothing that a run calls.
TREES = {
  path.relative_to(ROOT).as_posix(): ast.parse(text)
  for path, text in handed_in.modules(ROOT / 'submission.py', {}).items()
  if path.name != '__init__.py'
}
BATCH_SIZES = '_BATCH_SIZES'

# What the submission may know of a workload; RULES.md lists the same.
WORKLOAD_ATTRIBUTES = set(
  """
  has_reached_validation_target init_model_fn loss_fn max_allowed_runtime_sec
  metrics_logger model_fn model_params_types num_train_examples param_shapes
  step_hint
  target_metric_name validation_target_value
  """.split()
)
# In words of the source, apart from the benchmark's names of workloads.
DATA_SETS_AND_MODELS = set(
  """
  bleu cifar conformer criteo deepspeech dlrm fastmri imagenet librispeech
  mnist ogbg resnet transformer unet vit wmt
  """.split()
)
STANDARD = set(
  """
  __future__ collections contextlib csv dataclasses difflib enum errno fractions
  functools inspect io json math numbers os pathlib re statistics sys types typing
  zlib
  """.split()
)
THIRD_PARTY = {'absl', 'flax', 'jax', 'matplotlib', 'numpy', 'optax'}
# How a module could get at the environment, at JAX's settings, at other
# programs or around this list.
FORBIDDEN_NAMES = set(
  """
  __import__ debug_callback environ environb eval exec getenv io_callback
  import_module popen pure_callback putenv system unsetenv
  """.split()
)
# Ways to open or list files; os is dealt with below.
FILES = set(
  """
  glob iterdir open read_bytes read_text rename touch unlink write_bytes
  write_text
  """.split()
)


def nodes_of(name, kind):
  return [node for node in ast.walk(TREES[name]) if isinstance(node, kind)]


def texts(name):
  """Strings and identifiers of a module; not docstrings, not batch sizes."""
  skipped = set()
  for node in nodes_of(name, (ast.Expr, ast.Assign)):
    targets = [getattr(t, 'id', '') for t in getattr(node, 'targets', [])]
    if BATCH_SIZES in targets:
      skipped |= {id(inner) for inner in ast.walk(node.value)}
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
      skipped.add(id(node.value))
  for node in nodes_of(name, ast.AST):
    if id(node) in skipped:
      continue
    for field in ('id', 'attr', 'name', 'arg', 'value', 'module'):
      text = getattr(node, field, None)
      if isinstance(text, str):
        yield text


def attributes_of(name, owner):
  """The attributes that a module takes from what has a name."""
  return {
    node.attr
    for node in nodes_of(name, ast.Attribute)
    if getattr(node.value, 'id', '') == owner
  }


def words(text):
  """Lower-case parts of a text: 'OgbgWorkload' -> {'ogbg', 'workload'}."""
  return {w.lower() for w in re.findall(r'[A-Z]?[a-z]+|[A-Z]+', text)}


def test_what_is_handed_in():
  """The four modules of the root, core/, engine/ and some optimizers."""
  root = {'early_switching', 'schedule_params', 'soft_reset', 'submission'}
  rooms = {
    path.relative_to(ROOT).as_posix()
    for room in ('core', 'engine')
    for path in (ROOT / room).rglob('[!_]*.py')
  }
  names = (
    *('adamw', 'average', 'clocked', 'muon', 'orthogonal', 'peaks'),
    *('precise', 'roles', 'schedule_free', 'step'),
  )
  optimizers = {f'optimizers/{name}.py' for name in names}
  assert set(TREES) == {f'{name}.py' for name in root} | rooms | optimizers


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

  readers = [
    (name, getattr(statement, 'name', ast.unparse(statement)[:12]))
    for name, tree in TREES.items()
    for statement in tree.body
    if BATCH_SIZES in names(statement)
  ]
  assert readers == [('submission.py', 'get_batch_size')]


def test_what_is_asked_of_a_workload():
  asked = set().union(*(attributes_of(name, 'workload') for name in TREES))
  assert asked == WORKLOAD_ATTRIBUTES


# What decides, and what it is made of.
DECIDING = [
  name
  for name in TREES
  if re.search('schedules|optimizers|peak|evaluation|control|state', name)
  or re.search('early_switching|soft_reset', name)
]


@pytest.mark.parametrize('name', DECIDING)
def test_what_decides_never_sees_the_workload(name):
  """Not even under another name: nobody asks for an attribute of one."""
  words_of = [words(text) for text in texts(name) if text != 'workload']
  assert not any('workload' in found for found in words_of)
  loads = [n.id for n in nodes_of(name, ast.Name) if n.id == 'workload']
  assert loads == []
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
  assert sorted(set(calls)) == [
    ('_fresh_model', 'vars'),
    ('spec_of', 'type'),
    ('traced_forms', 'vars'),
  ]


def test_who_reads_flags():
  """Among them is the workload's name, which is not read."""
  readers = [
    name
    for name in TREES
    for node in nodes_of(name, ast.ImportFrom)
    if 'flags' in [alias.name for alias in node.names]
  ]
  assert readers == ['core/workload.py']
  flags = [
    node.slice.value
    for node in nodes_of('core/workload.py', ast.Subscript)
    if getattr(node.value, 'id', '') == 'values'
  ]
  assert flags == ['max_global_steps']


@pytest.mark.parametrize('name', TREES)
def test_no_environment_no_settings_no_other_programs(name):
  found = {text for text in texts(name) if text in FORBIDDEN_NAMES}
  assert found == set()
  assert attributes_of(name, 'os') <= {'getpid', 'replace'}
  assert 'os' not in [n.module for n in nodes_of(name, ast.ImportFrom)]
  code = ast.unparse(TREES[name])
  assert 'jax.config' not in code and 'from jax import config' not in code


@pytest.mark.parametrize('name', TREES)
def test_imports(name):
  """Own modules relatively; no benchmark package, clock, threads, kernels."""
  names = [a.name for n in nodes_of(name, ast.Import) for a in n.names]
  froms = nodes_of(name, ast.ImportFrom)
  names += [node.module for node in froms if node.level == 0]
  assert {name.split('.')[0] for name in names} <= STANDARD | THIRD_PARTY


def test_which_modules_open_files():
  """The run's own, beside the benchmark's logs; see RULES.md."""

  def calls(name):
    return {
      getattr(call.func, 'attr', getattr(call.func, 'id', ''))
      for call in nodes_of(name, ast.Call)
    }

  openers = {name: sorted(calls(name) & FILES) for name in TREES}
  assert {name: found for name, found in openers.items() if found} == {
    'core/whole_files.py': ['iterdir', 'unlink', 'write_bytes'],
    'engine/records.py': ['read_text'],
  }
