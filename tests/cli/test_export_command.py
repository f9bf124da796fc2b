"""`soft-reset export`: the folder that is handed in, and a run from it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import real_benchmark
from reset_cycles.cli import handed_in
from reset_cycles.cli import main as cli
from reset_cycles.schedule_params import SCHEDULE_PARAMS
from reset_cycles.training.events import read_events

# The parts of the package, and nothing of the rest of the repository.
ENTRIES = (
  'LICENSE __init__.py averaging control cycles early_switching.py optimizers '
  'schedule_params.py schedules settings soft_reset.py submission.py '
  'submission_info.yml training'
).split()
# As the runner does it, leaving what Python leaves.
IMPORT = """
import importlib, os, sys
sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = False
importlib.import_module('self_tuning.soft_reset.submission')
files = [getattr(m, '__file__', None) or '' for m in sys.modules.values()]
own = [os.path.relpath(f) for f in files if f.startswith(os.getcwd())]
print('\\n'.join(sorted(own)))
"""


def export(*flags):
  return cli.main(['export', *flags])


def entries(folder):
  return sorted(path.name for path in folder.iterdir())


def test_exactly_what_the_benchmark_imports(tmp_path, capsys):
  out = tmp_path / 'new' / 'handed_in'
  assert export(f'--out={out}') == 0
  assert entries(out.parent) == ['handed_in']
  assert entries(out) == ['self_tuning']
  own = out / 'self_tuning' / 'soft_reset'
  assert entries(own.parent) == ['soft_reset']
  assert entries(own) == ENTRIES
  files = [path for path in own.rglob('*') if path.is_file()]
  assert capsys.readouterr().out == (
    f"{own}: {len(files)} files. Copied to the benchmark's folder "
    'submissions/, its runner takes:\n  --tuning_ruleset=self '
    '--submission_path=submissions/'
    'handed_in/self_tuning/soft_reset/submission.py\n'
  )
  done = subprocess.run(
    [sys.executable, '-c', IMPORT],
    cwd=out,
    env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  imported = {f'{out}/{line}' for line in done.stdout.splitlines()}
  assert imported == {str(path) for path in files if path.suffix == '.py'}
  # What is left of the import would be a submission to the checker.
  assert entries(own.parent) == ['soft_reset']


def test_the_list_has_every_module_of_the_root():
  found = {path.name for path in handed_in.ROOT.glob('*.py')}
  assert found == {'__init__.py', *handed_in.MODULES}


def test_the_tests_of_what_is_handed_in_are_those_of_make():
  text = (handed_in.ROOT / 'Makefile').read_text()
  listed = re.search(r'addprefix tests/,\\\n\s*(.*)\)\n', text)[1]
  assert listed.split() == list(handed_in.FOLDERS)


def test_every_file_is_a_copy(tmp_path):
  assert export(f'--out={tmp_path}') == 0
  own = tmp_path / 'self_tuning' / 'soft_reset'
  assert (own / '__init__.py').read_text() == handed_in.INIT
  for path in own.rglob('*'):
    if path.is_file() and path != own / '__init__.py':
      source = handed_in.ROOT / path.relative_to(own)
      assert path.read_bytes() == source.read_bytes(), path


def test_another_name_and_ruleset(tmp_path):
  flags = ['--name=my_own_2', '--tuning_ruleset=external']
  assert export(f'--out={tmp_path}', *flags) == 0
  assert entries(tmp_path) == ['external_tuning']
  own = tmp_path / 'external_tuning' / 'my_own_2'
  assert entries(own) == sorted([*ENTRIES, 'tuning_search_space.json'])
  before = (handed_in.ROOT / handed_in.FORM).read_text().splitlines()
  after = (own / handed_in.FORM).read_text().splitlines()
  assert len(after) == len(before)
  assert sorted(set(after) - set(before)) == [
    'ruleset: "external-tuning"',
    'submission_folder: "my_own_2"',
  ]


def test_the_search_space_has_the_numbers_in_force():
  space = json.loads((handed_in.ROOT / handed_in.SEARCH_SPACE).read_text())
  point = {}
  for name, values in space.items():
    (point[name],) = values['feasible_points']
  assert SCHEDULE_PARAMS.override(point) == SCHEDULE_PARAMS


def test_the_experiments_are_added_on_demand(tmp_path):
  assert export(f'--out={tmp_path}', '--experiments') == 0
  own = tmp_path / 'self_tuning' / 'soft_reset'
  assert entries(own) == sorted([*ENTRIES, 'experiments'])
  found = {path.name for path in (own / 'experiments').rglob('*')}
  there = {p.name for p in (handed_in.ROOT / 'experiments').glob('*.py')}
  assert found == there - {'thesis.py'}


def test_nothing_is_replaced(tmp_path, capsys):
  (tmp_path / 'mine').write_text('x')
  for out in (tmp_path, tmp_path / 'mine'):
    assert export(f'--out={out}') == 2
    assert 'Nothing is replaced' in capsys.readouterr().err
  assert entries(tmp_path) == ['mine']
  assert (tmp_path / 'mine').read_text() == 'x'


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    ([], '--out is missing: give the folder to write.'),
    (['--out=x', '--name=My'], '--name=My: must be lower-case letters'),
    (['--out=x', '--name=a/b'], '--name=a/b: must be lower-case letters'),
    (['--out=x', '--name='], '--name=: must be lower-case letters'),
    (['--out=x', '--name=lambda'], 'no Python keyword'),
    (['--out=x', '--tuning_ruleset=both'], "invalid choice: 'both'"),
    (['--out=file/x'], 'file'),
  ],
)
def test_bad_input(flags, message, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'file').touch()
  assert export(*flags) == 2
  line = capsys.readouterr().err
  assert line.startswith('soft-reset: error: ') and line.count('\n') == 1
  assert message in line
  assert entries(tmp_path) == ['file']


def test_an_error_in_between_leaves_nothing(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(handed_in, 'LICENSE', 'no such file')
  assert export(f'--out={tmp_path}/x') == 2
  assert 'no such file' in capsys.readouterr().err
  assert entries(tmp_path) == []


def test_a_run_from_the_exported_folder(tmp_path):
  """Two cycles of two steps, by settings beside the exported modules."""
  settings = (
    "budget_factor=0.002, early_switching=False, decays=('cosine',) * 2, "
    "warmups=('none',) * 2, alter_lr=(0.0,) * 2, alter_warmup=(0.0,) * 2, "
    'lengths=(1.0,) * 2'
  )
  path = real_benchmark.copy_submission(tmp_path / 'out', settings)
  flags = [
    f'--submission_path={tmp_path}/out/{path}',
    f'--experiment_dir={tmp_path}/runs',
    '--experiment_name=run',
    '--eval_every=1',
  ]
  assert cli.main(['run', '--workload=digits', '--rng_seed=1', *flags]) == 0
  events = read_events(tmp_path / 'runs/run/digits_jax/trial_1')
  assert [(e['event'], e['global_step']) for e in events if e['reason']] == [
    ('reset', '2'),
    ('finish', '4'),
  ]


def test_the_package_has_what_is_exported():
  """An installed package has the modules anyway, and the data that are named."""
  text = (handed_in.ROOT / 'pyproject.toml').read_text()
  named = re.search(r'(?m)^reset_cycles = \[([^]]*)\]$', text)[1]
  data = set(re.findall('"(.*?)"', named))
  assert data >= {handed_in.LICENSE, handed_in.FORM, handed_in.SEARCH_SPACE}
