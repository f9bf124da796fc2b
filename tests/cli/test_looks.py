"""`reset-cycles report` and `plot`."""

import pathlib
import re
import shutil

import pytest

from helpers.log_files import EVENTS, write_run
from reset_cycles.cli import main as cli

PNG = b'\x89PNG'


@pytest.fixture
def trials(tmp_path, monkeypatch):
  """Folders with runs, trial_1, _2 and _10; the current one is above them."""
  monkeypatch.chdir(tmp_path)
  found = [pathlib.Path('runs/digits_jax', f'trial_{n}') for n in (1, 2, 10)]
  for seed, folder in zip((1, 2, 10), found):
    folder.mkdir(parents=True)
    write_run(folder, EVENTS, seed=seed)
  shutil.copytree(found[0], 'runs/.running/trial_1')  # passed over
  return found


def test_plot_draws_every_trial_below_a_folder(trials, capsys):
  for place, drawn in (('runs', 3), (str(trials[0]), 1)):
    assert cli.main(['plot', place]) == 0
    paths = capsys.readouterr().out.splitlines()
    assert len(paths) == drawn
    for path in map(pathlib.Path, paths):
      assert path.read_bytes().startswith(PNG)
      path.unlink()


def test_the_page_has_every_trial_once(trials, capsys):
  # Half of a line: the run is going.
  with (trials[0] / 'eval_measurements.csv').open('a') as log:
    log.write('7.0,')
  page = pathlib.Path('report.html')
  page.write_text('mine')
  assert cli.main(['report', 'runs']) == 2
  said = '--out=report.html exists: give another name, or'
  assert said in capsys.readouterr().err
  assert page.read_text() == 'mine'
  assert cli.main(['report', 'runs', str(trials[0]), '--overwrite']) == 0
  assert capsys.readouterr().out == 'report.html\n'
  text = page.read_text(encoding='utf-8')
  assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
  seeds = re.findall(r'<h3>Run \d: digits: peaks, seed (\d+)<', text)
  assert seeds == ['1', '10', '2']
