"""Submissions are imported from their file's path, with their helpers."""

import pathlib
import sys

import pytest

import reset_cycles
from helpers.fakes import write_package
from reset_cycles import submission
from reset_cycles.mini_algoperf.submission_loader import (
  REQUIRED,
  load_submission,
)

FUNCTIONS = '\n'.join(
  f'def {name}(*args): return helper.NAME' for name in REQUIRED
)


def write(folder, name, imports='from . import helper'):
  """A package whose functions return the name that its helper knows."""
  write_package(folder, f'NAME = {name!r}\n', 'helper.py')
  return write_package(folder, f'{imports}\n{FUNCTIONS}\n')


def named(path):
  return load_submission(path).get_batch_size('digits')


def test_this_projects_submission():
  path = pathlib.Path(reset_cycles.__file__).parent / 'submission.py'
  for given in (None, str(path)):
    loaded = load_submission(given)
    assert loaded.update_params is submission.update_params
    assert loaded.get_eval_batch_size is None


def test_helpers_are_imported_relatively(tmp_path):
  path = write(tmp_path / 'mine', 'a')
  assert named(path) == 'a'
  assert load_submission(path).prepare_for_eval is None
  inner = write(tmp_path / 'mine/inner', 'b', 'from .. import helper')
  assert named(inner) == 'a'


def test_folders_of_the_same_name_are_apart(tmp_path):
  paths = [write(tmp_path / name / 'json', name) for name in ('one', 'two')]
  assert [named(path) for path in paths] == ['one', 'two']
  assert 'one' not in sys.modules['json'].__file__


@pytest.mark.parametrize('imports', ['import not_there', 'def ('])
def test_what_cannot_be_imported_is_an_error_of_the_path(imports, tmp_path):
  path = write(tmp_path / 'mine', 'a', imports)
  with pytest.raises(ValueError, match='submission.py: cannot be imported'):
    load_submission(path)


def test_a_package_that_fails_can_be_loaded_once_it_is_mended(tmp_path):
  path = write(tmp_path / 'mine', 'a', 'from . import WORD, helper')
  init = tmp_path / 'mine' / '__init__.py'
  init.write_text('import not_there\n')
  with pytest.raises(ValueError, match='not_there'):
    load_submission(path)
  init.write_text('WORD = 1\n')
  assert named(path) == 'a'
