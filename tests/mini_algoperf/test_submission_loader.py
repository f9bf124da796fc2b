"""Submissions are imported from their file's path, with their helpers."""

from __future__ import annotations

import pathlib
import sys

import pytest

import reset_cycles
from reset_cycles import submission
from reset_cycles.mini_algoperf import submission_loader

FUNCTIONS = '\n'.join(
  f'def {name}(*args): return helper.NAME'
  for name in submission_loader.REQUIRED
)


def write(path, text=''):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text)
  return str(path)


def write_package(folder, name, imports='from . import helper'):
  """A package whose functions return the name that its helper knows."""
  write(folder / '__init__.py')
  write(folder / 'helper.py', f'NAME = {name!r}\n')
  return write(folder / 'submission.py', f'{imports}\n{FUNCTIONS}\n')


def test_no_path_is_this_projects_submission():
  loaded = submission_loader.load_submission(None)
  assert loaded.update_params is submission.update_params
  assert loaded.get_eval_batch_size is None


def test_a_file_of_this_package_is_imported_as_part_of_it():
  path = pathlib.Path(reset_cycles.__file__).parent / 'submission.py'
  loaded = submission_loader.load_submission(str(path))
  assert loaded.init_optimizer_state is submission.init_optimizer_state


def test_helpers_are_imported_relatively(tmp_path):
  loaded = submission_loader.load_submission(
    write_package(tmp_path / 'mine', 'a')
  )
  assert loaded.get_batch_size('digits') == 'a'
  assert loaded.prepare_for_eval is None


def test_helpers_of_parent_packages(tmp_path):
  write_package(tmp_path / 'outer', 'outer')
  path = write_package(
    tmp_path / 'outer' / 'inner', 'inner', 'from .. import helper'
  )
  loaded = submission_loader.load_submission(path)
  assert loaded.get_batch_size('digits') == 'outer'


def test_folders_of_the_same_name_are_apart(tmp_path):
  paths = [
    write_package(tmp_path / name / 'json', name) for name in ('one', 'two')
  ]
  loaded = [submission_loader.load_submission(path) for path in paths]
  assert [s.get_batch_size('digits') for s in loaded] == ['one', 'two']
  assert 'one' not in sys.modules['json'].__file__


def test_an_import_that_fails_is_an_error_of_the_path(tmp_path):
  path = write_package(tmp_path / 'mine', 'a', 'import not_there')
  with pytest.raises(ValueError, match='submission.py: cannot be imported'):
    submission_loader.load_submission(path)


def test_a_file_that_is_no_python_is_an_error_of_the_path(tmp_path):
  path = write_package(tmp_path / 'mine', 'a', 'def (')
  with pytest.raises(
    ValueError, match='submission.py: cannot be imported.*lin'
  ):
    submission_loader.load_submission(path)


def test_dots_in_the_names_of_folders(tmp_path):
  path = write_package(tmp_path / 'v1.0', 'a')
  assert submission_loader.load_submission(path).get_batch_size('x') == 'a'
  (tmp_path / 'v1.0' / 'inner.1').mkdir()
  inner = write_package(tmp_path / 'v1.0' / 'inner.1', 'b')
  with pytest.raises(ValueError, match="'inner.1' has a dot"):
    submission_loader.load_submission(inner)


def test_a_package_that_fails_can_be_loaded_once_it_is_mended(tmp_path):
  path = write_package(tmp_path / 'mine', 'a')
  init = tmp_path / 'mine' / '__init__.py'
  init.write_text('import not_there\n')
  with pytest.raises(ValueError, match='not_there'):
    submission_loader.load_submission(path)
  init.write_text('')
  assert submission_loader.load_submission(path).get_batch_size('x') == 'a'
