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
[path] = sys.argv[1:]
module = importlib.import_module(path[:-3].replace('/', '.'))
assert all(callable(getattr(module, name)) for name in names)
assert module.get_batch_size('ogbg') == 512
known = [m for m in sys.modules if m.split('.')[0] in ('reset_cycles', 'sklearn')]
assert known == [], known
print('imported', module.__name__)
"""


def test_the_shipped_files_import_as_the_runner_does(tmp_path):
  out = tmp_path / 'submissions'
  assert cli.main(['export', f'--out={out}', '--name=x']) == 0
  path = 'submissions/self_tuning/x/submission.py'
  done = subprocess.run(
    [sys.executable, '-c', _RUNNER, path],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.split() == [
    *('imported', 'submissions.self_tuning.x.submission')
  ]


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
