"""`soft-reset score`."""

from __future__ import annotations

import json
import pathlib

import pytest

from reset_cycles.cli import main as cli
from reset_cycles.studies.real_runs import reading

META = {
  'workload.target_metric_name': 'accuracy',
  'workload.validation_target_value': 0.5,
}


@pytest.fixture
def logs(tmp_path, monkeypatch):
  """Two submissions; the second takes twice the time."""
  monkeypatch.chdir(tmp_path)
  for name, seconds in (('one', 10), ('two', 20)):
    place = pathlib.Path('logs', name, 'study_0', 'digits_jax', 'trial_1')
    place.mkdir(parents=True)
    (place / 'meta_data_0.json').write_text(json.dumps(META))
    (place / 'eval_measurements.csv').write_text(
      f'accumulated_submission_time,validation/accuracy\n1,0.1\n{seconds},0.5\n'
    )
  return 'logs'


def test_scores_of_logs(logs, capsys):
  assert cli.main(['score', logs, '--out=x.png']) == 0
  # 67 of 100 points are at 2 and more: 66.5 of 99 stairs.
  assert capsys.readouterr().out == (
    '     submission  score   targets\n'
    '  1  one         1.0000  1 of 1\n'
    '  2  two         0.6717  1 of 1\n'
    '\n'
    'Seconds to the target, median over studies; (3/5): in three of five.\n'
    '  workload  1   2\n'
    '  digits    10  20\n'
  )
  assert pathlib.Path('x.png').read_bytes()[:4] == b'\x89PNG'
  assert cli.main(['score', logs, '--out=x.png']) == 2
  assert '--out=x.png exists' in capsys.readouterr().err


def test_recorded_runs(capsys):
  assert cli.main(['score']) == 0
  out = capsys.readouterr().out
  assert '1  schedule_free_adamw  0.8542  7 of 8\n' in out
  assert cli.main(['score', str(reading.SHIPPED), '--ruleset=self']) == 0
  assert capsys.readouterr().out == out
  assert cli.main(['score', '--board=a100']) == 0
  assert '  1  ' in capsys.readouterr().out


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    (['no'], 'no: there is no such folder'),
    ([''], "'': there is no such folder"),
    (['.'], 'give a folder of logs'),
    (['logs', '--board=v05'], 'logs has no runs.csv'),
    (['--board=v07'], 'no runs of board=v07 with ruleset=self'),
    (['--out=x.pdf'], '--out=x.pdf must end in .png'),
    (['--out=no/x.png'], '--out=no/x.png: there is no folder no'),
    (['--ruleset=own'], 'is not one of'),
  ],
)
def test_bad_input(logs, capsys, words, message):
  assert cli.main(['score', *words]) == cli.BAD_INPUT
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1
