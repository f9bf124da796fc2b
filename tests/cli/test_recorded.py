"""`reset-cycles replay`, `score`, `report` and `plot`."""

import pathlib
import re
import shutil

import pytest

from helpers.log_files import EVENTS, write_run, write_trial
from reset_cycles.cli import main as cli

PNG = b'\x89PNG'


@pytest.fixture
def replay(tmp_path, monkeypatch, capsys):
  """replay(*flags): the output about four trials in the current folder.

  The second one reaches its target after 40 seconds.
  """
  monkeypatch.chdir(tmp_path)
  for trial in range(1, 5):
    place = tmp_path / f'a/study_0/up_jax/trial_{trial}'
    metric = (0.5, 0.8, 1.0) if trial == 2 else (0.11,) * 3
    write_trial(place, [(t, t, v, 1.0) for t, v in zip((10, 20, 40), metric)])

  def run(*flags):
    assert cli.main(['replay', '--logs=.', *flags]) == 0
    return capsys.readouterr().out

  return run


def test_replay(replay):
  rule = '{"name": "progress", "min_share": 0.3}'
  rows = replay('--rule=never', f'--rule={rule}').splitlines()[1:]
  # Of 150 and 300 seconds: 80, 40, 160 and 120.
  assert rows[0].split() == ['never', '1.5', '4', '0.750', '0.650', '0', '1']
  assert rows[1].split() == ['never', '3.0', '4', '1.000', '0.333', '0', '1']
  assert rows[2].split()[0] == 'progress(min_share=0.3)'


def test_scores_of_logs(tmp_path, monkeypatch, capsys):
  """Two submissions; the second takes twice the time."""
  monkeypatch.chdir(tmp_path)
  for name, seconds in (('one', 10), ('two', 20)):
    place = pathlib.Path('logs', name, 'study_0', 'digits_jax', 'trial_1')
    write_trial(place, [(10, seconds, 1.0, 1.0)])
  assert cli.main(['score', 'logs']) == 0
  # 67 of 100 points are at 2 and more: 66.5 of 99 stairs.
  assert '  2  two         0.6717  1 of 1\n' in capsys.readouterr().out


def test_scores_of_recorded_runs(capsys):
  assert cli.main(['score']) == 0
  out = capsys.readouterr().out
  assert '1  schedule_free_adamw  0.8542  7 of 8\n' in out


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
