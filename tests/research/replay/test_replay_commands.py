"""`reset-cycles replay` and `score`."""

import pathlib

import pytest

from helpers.log_files import write_trial
from reset_cycles.cli import main as cli


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
