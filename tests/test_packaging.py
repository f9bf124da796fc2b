"""The shipped folder, imported as the benchmark's runner does."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

from reset_cycles import submission
from reset_cycles.cli import main as cli

ROOT = pathlib.Path(submission.__file__).parent

# The runner turns the path into a module name, from its own root.
_RUNNER = """
import importlib, sys
sys.path.insert(0, '.')
names = ['init_optimizer_state', 'update_params', 'data_selection',
         'get_batch_size', 'prepare_for_eval']
for path in sys.argv[1:]:
  module = importlib.import_module(path[:-3].replace('/', '.'))
  assert all(callable(getattr(module, name)) for name in names)
  assert module.get_batch_size('ogbg') == 512
  print('imported', module.__name__)
known = [m for m in sys.modules if m.split('.')[0] in ('reset_cycles', 'sklearn')]
assert known == [], known
"""


# In experiments/, what is no submission by itself.
NO_SUBMISSIONS = {'__init__.py', 'settings.py'}


def test_the_shipped_files_import_as_the_runner_does(tmp_path):
  submissions = tmp_path / 'submissions'
  flags = [f'--out={submissions}', '--name=x', '--experiments']
  assert cli.main(['export', *flags]) == 0
  folder = submissions / 'self_tuning' / 'x'
  own = {path.name for path in (folder / 'experiments').glob('*.py')}
  experiments = sorted(own - NO_SUBMISSIONS)
  assert len(experiments) == 17
  paths = [
    f'submissions/self_tuning/x/{path}'
    for path in ['submission.py', *(f'experiments/{n}' for n in experiments)]
  ]
  done = subprocess.run(
    [sys.executable, '-c', _RUNNER, *paths],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  names = [path[:-3].replace('/', '.') for path in paths]
  assert done.stdout.splitlines() == [f'imported {name}' for name in names]


PACKAGE_DIR = '[tool.setuptools.package-dir]'
PACKAGE_DATA = '[tool.setuptools.package-data]'


def test_every_folder_of_modules_is_packaged():
  """Read line by line: Python 3.9 has no reader of TOML."""
  lines = (ROOT / 'pyproject.toml').read_text().splitlines()
  begin = lines.index('packages = [')
  listed = [line.strip(' ",') for line in lines[begin + 1 :]]
  packages = listed[: listed.index(']')]
  mapped = dict(
    [part.strip('" ') for part in line.split(' = ')]
    for line in lines[lines.index(PACKAGE_DIR) + 1 : lines.index(PACKAGE_DATA)]
    if ' = ' in line
  )
  found = {
    '.'.join(['reset_cycles', *path.parent.relative_to(ROOT).parts])
    for path in ROOT.glob('**/__init__.py')
    if not re.match(r'\.|build$', path.relative_to(ROOT).parts[0])
  }
  assert set(packages) == found
  for package in found - {'reset_cycles'}:
    folder = package.removeprefix('reset_cycles.').replace('.', '/')
    assert mapped[package] == folder


def test_the_submission_form():
  """Read as the form's own check does: line by line, comments cut off."""
  lines = (ROOT / 'submission_info.yml').read_text().splitlines()
  pairs = [line.split('#')[0].strip().split(': ', 1) for line in lines]
  info = {key: json.loads(value) for key, value in pairs}
  assert set(info) == {
    'submission_name',
    'submission_folder',
    'authors',
    'affiliations',
    'version',
    'ruleset',
    'framework',
    'description',
  }
  assert all(value.strip() for value in info.values())
  assert re.fullmatch('[a-z0-9_]+', info['submission_folder'])
  assert info['ruleset'] == 'self-tuning'
  assert info['framework'] == 'JAX'


def test_licence():
  text = (ROOT / 'LICENSE').read_text()
  assert re.search(r'Apache License\s+Version 2\.0, January 2004', text)
