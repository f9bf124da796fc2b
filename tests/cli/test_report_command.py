"""`soft-reset report`: from folders to a page."""

from __future__ import annotations

import pathlib
import re

import pytest

from helpers.log_files import EVENTS, write_run
from reset_cycles.cli import main as cli


@pytest.fixture
def trial(tmp_path, monkeypatch):
  """A folder with a run; the current folder is the one above it."""
  folder = tmp_path / 'runs' / 'digits_jax' / 'trial_1'
  folder.mkdir(parents=True)
  write_run(folder, EVENTS)
  monkeypatch.chdir(tmp_path)
  return folder


def test_the_page_has_every_trial_once(trial, capsys):
  for number in (10, 2):
    other = trial.with_name(f'trial_{number}')
    other.mkdir()
    write_run(other, seed=number)
  # Half of a line: the run is going.
  with (trial / 'eval_measurements.csv').open('a') as log:
    log.write('7.0,')
  assert cli.main(['report', 'runs', str(trial), '--out=page.html']) == 0
  assert capsys.readouterr().out == 'page.html\n'
  text = pathlib.Path('page.html').read_text(encoding='utf-8')
  assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
  assert re.findall(r'<h3>Run (\d): digits: peaks, seed (\d+)<', text) == [
    ('1', '1'),
    ('2', '2'),
    ('3', '10'),
  ]


def test_a_page_is_replaced_only_if_asked(trial, capsys):
  page = pathlib.Path('report.html')
  page.write_text('mine')
  assert cli.main(['report', 'runs']) == 2
  error = capsys.readouterr().err
  assert '--out=report.html exists: give another name, or' in error
  assert page.read_text() == 'mine'
  assert cli.main(['report', 'runs', '--overwrite']) == 0
  assert 'digits' in page.read_text(encoding='utf-8')


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    ([], "Missing argument 'DIR...'"),
    (['runs', 'nowhere'], 'nowhere: there is no such folder'),
    ([''], "'': there is no such folder"),
    (['d.html'], 'd.html has no trial: give an experiment'),
    (['runs', '--out=page.png'], '--out=page.png must end in .html'),
    (['runs', '--out=a/p.html'], '--out=a/p.html: there is no folder a'),
    (['runs', '--out=d.html', '--overwrite'], '--out=d.html is a folder'),
    (['runs', '--otu=p.html'], "No such option '--otu'"),
  ],
)
def test_bad_input(words, message, trial, capsys):
  pathlib.Path('d.html').mkdir()
  before = sorted(pathlib.Path().rglob('*'))
  assert cli.main(['report', *words]) == 2
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1
  assert sorted(pathlib.Path().rglob('*')) == before


@pytest.mark.parametrize(
  ('name', 'content', 'message'),
  [
    ('meta_data_0.json', '{', 'meta_data_0.json is not valid JSON'),
    ('cycles.csv', 'global_step,event\nx,reset\n', 'cycles.csv: global_step'),
    (
      'schedule_params.json',
      '{}',
      'settings: class is missing',
    ),
    (
      'eval_measurements.csv',
      'global_step,validation/error_rate,accumulated_submission_time\n1,x,2\n',
      "eval_measurements.csv: validation/error_rate is 'x' in a row",
    ),
  ],
)
def test_damaged_logs_are_named(name, content, message, trial, capsys):
  (trial / name).write_text(content)
  assert cli.main(['report', 'runs']) == 2
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1
  assert not pathlib.Path('report.html').exists()
