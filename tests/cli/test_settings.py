"""`soft-reset export`: the folder that is handed in."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from reset_cycles.cli import closure
from reset_cycles.cli import main as cli
from reset_cycles.cli import settings as exporting
from reset_cycles.core.records import as_plain
from reset_cycles.experiments.settings import RUNS
from reset_cycles.schedule_params import SCHEDULE_PARAMS, SOFT_RESET, THESIS

# As the runner does it, leaving what Python leaves. In packages whose names are
# not this one's.
IMPORT = """
import importlib, os, sys
names = sys.argv[1:]
sys.path[:0] = [os.path.abspath(name) for name in names]
sys.dont_write_bytecode = False
for name in names:
  made = importlib.import_module(f'self_tuning.{name}.submission')
  functions = ['update_params', 'data_selection', 'prepare_for_eval']
  assert all(callable(getattr(made, name)) for name in functions)
  assert made.get_batch_size('ogbg') == 512
  print(repr(made.init_optimizer_state.args[0]))
files = [getattr(m, '__file__', None) or '' for m in sys.modules.values()]
print(*[os.path.relpath(f) for f in files if f.startswith(os.getcwd())])
known = {m.split('.')[0] for m in sys.modules} & {'reset_cycles', 'sklearn'}
assert not known, known
"""
SETTINGS = {
  'soft_reset': SOFT_RESET,
  'thesis': THESIS,
  **{name: RUNS[name] for name in ('peaks_kept', 'decays_full')},
}


def export(*flags):
  return cli.main(['export', *flags])


def entries(folder):
  return sorted(path.name for path in folder.iterdir())


def test_exactly_what_the_benchmark_imports(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  code = set()
  for name in SETTINGS:
    flags = (f'--out={name}', f'--settings={name}', '--authors=A "B"')
    assert export(*flags) == 0
    assert entries(pathlib.Path(name)) == ['self_tuning']
    own = pathlib.Path(name, 'self_tuning', name)
    files = {path for path in own.rglob('*') if path.is_file()}
    modules = {path for path in files if path.suffix == '.py'}
    lines = sum(len(path.read_text().splitlines()) for path in modules)
    said = capsys.readouterr().out
    assert f'{len(modules)} modules with {lines:,} lines' in said
    assert f'submissions/{own}/submission.py' in said
    assert sorted(path.name for path in files - modules) == [
      *('LICENSE', 'README.md', 'submission_info.yml'),
      'tuning_search_space.json',
    ]
    form = (own / 'submission_info.yml').read_text()
    assert f'\nsubmission_folder: "{name}"\n' in form
    assert '\nauthors: "A \\"B\\""\n' in form
    # Parts come along only where settings name them.
    assert (own / 'parts' / 'shapes.py').exists() == (name == 'decays_full')
    code |= modules
  done = subprocess.run(
    [sys.executable, '-c', IMPORT, *SETTINGS],
    env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  *settings, imported = done.stdout.splitlines()
  assert settings == [repr(params) for params in SETTINGS.values()]
  assert set(map(pathlib.Path, imported.split())) == code
  # What is left of the import would be a submission to the checker.
  for name in SETTINGS:
    assert entries(pathlib.Path(name, 'self_tuning')) == [name]


def test_nothing_that_is_not_used(tmp_path):
  """Classes that only other settings name stay behind; the rest is as it was."""
  found = {}
  for name in ('soft_reset', 'thesis'):
    assert export(f'--out={tmp_path / name}', f'--settings={name}') == 0
    own = tmp_path / name / 'self_tuning' / name
    text = '\n'.join(path.read_text() for path in sorted(own.rglob('*.py')))
    found[name] = set(re.findall(r'^(?:class|def) (\w+)', text, re.M))
    # Every statement, with the comment above it, is the package's.
    for path in own.rglob('*.py'):
      whole = (closure.ROOT / path.relative_to(own)).read_text()
      chunks = re.split(r'\n{3,}', path.read_text())[1:-1]
      assert all(chunk in whole for chunk in chunks), path
  ours = {'ScheduleFreeAdamW', 'Cooldown', 'Race', 'Progress', 'TimeHorizon'}
  theirs = {'AdamW', 'SmoothedLossRule', 'is_stopping_early', 'StepHorizon'}
  assert found['soft_reset'] >= ours and not found['soft_reset'] & theirs
  assert found['thesis'] >= theirs and not found['thesis'] & ours
  neither = {'FullReset', 'KeptMomentum', 'Cyclic'}
  assert not neither & (found['soft_reset'] | found['thesis'])
  # Neither a name that is missing nor an import that is left over.
  checked = [sys.executable, '-m', 'ruff', 'check', '--isolated', '--select=F']
  subprocess.run([*checked, tmp_path], check=True)


def test_a_statement_that_would_be_lost_is_refused():
  text = (closure.ROOT / 'schedule_params.py').read_text()
  for line in (
    'for x in (): pass',
    'TABLE["a"] = 1',
    'try: pass\nfinally: pass',
  ):
    with pytest.raises(ValueError, match=f'line {text.count(chr(10)) + 1}: '):
      closure.closure({'schedule_params.py': f'{text}{line}\n'})


def test_the_search_space_changes_nothing():
  for params in (SOFT_RESET, THESIS, *RUNS.values()):
    space = json.loads(exporting.search_space(params))
    point = {name: v['feasible_points'][0] for name, v in space.items()}
    # A further cycle's rate is a product, which may be rounded.
    for cycle, own in zip(params.override(point).cycles, params.cycles):
      rate = own.hparams.learning_rate
      assert cycle.hparams.learning_rate == pytest.approx(rate, rel=1e-15)
      hparams = dataclasses.replace(cycle.hparams, learning_rate=rate)
      assert dataclasses.replace(cycle, hparams=hparams) == own


def test_the_search_space_of_the_root_is_that_of_the_settings_in_force():
  kept = (closure.ROOT / 'tuning_search_space.json').read_text()
  assert kept == exporting.search_space(SCHEDULE_PARAMS)


def test_the_submission_form():
  """Read as the form's own check does: line by line, comments cut off."""
  lines = (closure.ROOT / 'submission_info.yml').read_text().splitlines()
  pairs = [line.split('#')[0].strip().split(': ', 1) for line in lines]
  info = {key: json.loads(value) for key, value in pairs}
  assert set(info) == {
    *('submission_name', 'submission_folder', 'authors', 'affiliations'),
    *('version', 'ruleset', 'framework', 'description'),
  }
  assert all(value.strip() for value in info.values())
  assert re.fullmatch('[a-z0-9_]+', info['submission_folder'])
  assert (info['ruleset'], info['framework']) == ('self-tuning', 'JAX')


def test_settings_from_a_file(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  params = dataclasses.replace(THESIS, budget_factor=3.5)
  pathlib.Path('mine.json').write_text(json.dumps(as_plain(params)))
  flags = ['--name=my_own_2', '--tuning_ruleset=external', '--affiliation=C']
  assert export('--out=new/x', '--params=mine.json', *flags) == 0
  own = tmp_path / 'new' / 'x' / 'external_tuning' / 'my_own_2'
  form = (own / 'submission_info.yml').read_text().splitlines()
  assert {'ruleset: "external-tuning"', 'affiliations: "C"'} <= set(form)
  assert 'budget_factor=3.5' in (own / 'schedule_params.py').read_text()


def test_a_full_disk_names_the_target(tmp_path, monkeypatch, capsys):
  def write_bytes(path, content):
    raise OSError(errno.ENOSPC, 'No space left on device')

  monkeypatch.setattr(pathlib.Path, 'write_bytes', write_bytes)
  assert export(f'--out={tmp_path}/x') == 2
  [line] = capsys.readouterr().err.splitlines()
  assert str(tmp_path) in line
  assert line.endswith('cannot be written: No space left on device.')
  assert entries(tmp_path) == []
