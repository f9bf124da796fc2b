"""`soft-reset export`: the folder that is handed in, and a run from it."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pathlib
import subprocess
import sys

import pytest

from reset_cycles.cli import export as exporting
from reset_cycles.cli import main as cli
from reset_cycles.core.records import as_plain
from reset_cycles.experiments.settings import RUNS
from reset_cycles.schedule_params import SCHEDULE_PARAMS, SOFT_RESET, THESIS

# As the runner does it, leaving what Python leaves. In a package whose name is
# not this one's.
IMPORT = """
import importlib, os, sys
sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = False
made = importlib.import_module(sys.argv[1])
files = [getattr(m, '__file__', None) or '' for m in sys.modules.values()]
own = [os.path.relpath(f) for f in files if f.startswith(os.getcwd())]
params = made.init_optimizer_state.args[0]
print(repr(params))
print('\\n'.join(sorted(own)))
"""


def export(*flags):
  return cli.main(['export', *flags])


def entries(folder):
  return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
  ('name', 'params'),
  [
    ('soft_reset', SOFT_RESET),
    ('thesis', THESIS),
    ('peaks_kept', RUNS['peaks_kept']),
    ('decays_full', RUNS['decays_full']),
  ],
)
def test_exactly_what_the_benchmark_imports(name, params, tmp_path, capsys):
  out = tmp_path / 'new' / 'handed_in'
  assert export(f'--out={out}', f'--settings={name}', '--authors=A "B"') == 0
  assert entries(out.parent) == ['handed_in']
  assert entries(out) == ['self_tuning']
  own = out / 'self_tuning' / name
  files = [path for path in own.rglob('*') if path.is_file()]
  code = [path for path in files if path.suffix == '.py']
  lines = sum(len(path.read_text().splitlines()) for path in code)
  said = capsys.readouterr().out
  assert f'{len(code)} modules with {lines:,} lines' in said
  assert f'submissions/handed_in/self_tuning/{name}/submission.py' in said
  done = subprocess.run(
    [sys.executable, '-c', IMPORT, f'self_tuning.{name}.submission'],
    cwd=out,
    env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  settings, *imported = done.stdout.splitlines()
  assert settings == repr(params)
  assert {out / line for line in imported} == set(code)
  # What is left of the import would be a submission to the checker.
  assert entries(own.parent) == [name]
  assert sorted(path.name for path in files if path not in code) == [
    'LICENSE',
    'README.md',
    'submission_info.yml',
    'tuning_search_space.json',
  ]
  form = (own / 'submission_info.yml').read_text()
  assert f'\nsubmission_folder: "{name}"\n' in form
  assert '\nauthors: "A \\"B\\""\n' in form


def test_parts_come_along_only_where_settings_name_them(tmp_path):
  for name in ('soft_reset', 'decays_full'):
    export(f'--out={tmp_path / name}', f'--settings={name}')
  plain = tmp_path / 'soft_reset' / 'self_tuning' / 'soft_reset'
  assert not (plain / 'parts').exists()
  with_parts = tmp_path / 'decays_full' / 'self_tuning' / 'decays_full'
  assert 'shapes.py' in entries(with_parts / 'parts')


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
  kept = (exporting.ROOT / 'tuning_search_space.json').read_text()
  assert kept == exporting.search_space(SCHEDULE_PARAMS)


def test_settings_from_a_file(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  params = dataclasses.replace(THESIS, budget_factor=3.5)
  pathlib.Path('mine.json').write_text(json.dumps(as_plain(params)))
  flags = ['--name=my_own_2', '--tuning_ruleset=external', '--affiliation=C']
  assert export('--out=x', '--params=mine.json', *flags) == 0
  own = tmp_path / 'x' / 'external_tuning' / 'my_own_2'
  form = (own / 'submission_info.yml').read_text().splitlines()
  assert {'ruleset: "external-tuning"', 'affiliations: "C"'} <= set(form)
  assert 'budget_factor=3.5' in (own / 'schedule_params.py').read_text()


def test_nothing_is_replaced(tmp_path, capsys):
  (tmp_path / 'mine').write_text('x')
  for out in (tmp_path, tmp_path / 'mine'):
    assert export(f'--out={out}') == 2
    assert 'Nothing is replaced' in capsys.readouterr().err
  assert entries(tmp_path) == ['mine']
  assert (tmp_path / 'mine').read_text() == 'x'


def test_a_full_disk_names_the_target(tmp_path, monkeypatch, capsys):
  def write_text(path, *unused, **settings):
    raise OSError(errno.ENOSPC, 'No space left on device')

  monkeypatch.setattr(pathlib.Path, 'write_text', write_text)
  assert export(f'--out={tmp_path}/x') == 2
  assert capsys.readouterr().err == (
    f'soft-reset: error: --out={tmp_path}/x cannot be written: No space left '
    'on device.\n'
  )
  assert entries(tmp_path) == []


def test_a_run_from_the_exported_folder(tmp_path, capsys):
  assert export(f'--out={tmp_path}/out', '--settings=decays_full') == 0
  flags = [
    f'--submission_path={tmp_path}/out/self_tuning/decays_full/submission.py',
    f'--experiment_dir={tmp_path}/runs',
    '--max_global_steps=2',
    '--eval_splits=validation',
  ]
  assert cli.main(['run', '--workload=digits', '--rng_seed=1', *flags]) == 0
  assert 'cycles:   1' in capsys.readouterr().out
