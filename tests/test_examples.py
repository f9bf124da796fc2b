"""The examples run, in short, say what they promise, and leave a picture."""

from __future__ import annotations

import ast
import importlib
import pathlib
import sys

import pytest

from reset_cycles import submission

FOLDER = pathlib.Path(submission.__file__).parent / 'examples'
EXAMPLES = sorted(path.stem for path in FOLDER.glob('*.py'))
# What the examples share, and the one that tests/mini_algoperf runs.
OTHERS = {'common', 'own_workload'}
PNG = b'\x89PNG'


@pytest.fixture
def example(tmp_path, monkeypatch):
  """Imports an example as if it was run from its folder."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(FOLDER))
  # For the processes that an example starts.
  monkeypatch.setenv('PYTHONPATH', ':'.join(p for p in sys.path if p))
  yield importlib.import_module
  for name in EXAMPLES:
    sys.modules.pop(name, None)


def events(history, name):
  return [event for _, event in history.events if event['event'] == name]


def is_picture(name):
  return pathlib.Path(name).read_bytes().startswith(PNG)


def test_plain_jax(example):
  history = example('plain_jax').main(num_steps=60)
  assert [step for step, e in history.events if e['event'] == 'reset'] == [
    20,
    40,
  ]
  assert all(0 < event['tau'] < 0.6 for event in events(history, 'reset'))
  assert len(history.metrics) == 30
  assert is_picture('plain_jax.png')


def test_flax_train_state(example):
  history = example('flax_train_state').main(num_steps=60)
  reasons = [event['reason'] for event in events(history, 'switch')]
  assert 'loss is not finite' in reasons
  assert [event['tau'] for event in events(history, 'reset')][1] == 1
  assert is_picture('flax_train_state.png')


def test_flax_nnx(example):
  nnx = pytest.importorskip('flax.nnx', reason='flax is too old for nnx')
  assert nnx
  history = example('flax_nnx').main(num_steps=60)
  assert len(events(history, 'reset')) == 2
  assert is_picture('flax_nnx.png')


def test_orbax_resume(example):
  pytest.importorskip('orbax.checkpoint')
  exitcode, same = example('orbax_resume').main(num_steps=60)
  assert exitcode == -9
  assert same
  assert is_picture('orbax_resume.png')


def test_race_peaks(example):
  winner = example('race_peaks').main(num_steps=100)
  assert len(winner.rates) == 100
  assert is_picture('race_peaks.png')


def test_there_is_a_test_of_each():
  tests = {name[5:] for name in globals() if name.startswith('test_')}
  assert set(EXAMPLES) - OTHERS <= tests


@pytest.mark.parametrize('name', EXAMPLES)
def test_an_example_is_short_and_begins_with_what_one_will_see(name):
  text = (FOLDER / f'{name}.py').read_text()
  assert len(text.splitlines()) < 80
  said = ast.get_docstring(ast.parse(text))
  if name not in OTHERS:
    assert 'You will see' in said
    assert f'{name}.png' in said


@pytest.mark.parametrize('name', EXAMPLES)
def test_all_functions_of_an_example_have_types(name):
  tree = ast.parse((FOLDER / f'{name}.py').read_text())
  for node in ast.walk(tree):
    if isinstance(node, ast.FunctionDef):
      arguments = [*node.args.args, node.args.vararg, node.args.kwarg]
      given = [a for a in arguments if a and a.arg != 'self']
      assert node.returns is not None, node.name
      assert all(a.annotation for a in given), node.name
