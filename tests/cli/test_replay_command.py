"""`soft-reset replay`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reset_cycles.cli import main as cli

WORKLOADS = (
  'workload,metric,direction,validation_target,step_hint_v05,max_runtime_v05\n'
  'up,accuracy,rises,1,100,100\n'
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """Four trials; the second one reaches its target after 40 seconds."""
  monkeypatch.chdir(tmp_path)
  header = 'board,ruleset,submission,framework,study,workload,trial,hparams\n'
  lines = [f'v05,external,a,jax,study_0,up,trial_{i},\n' for i in range(1, 5)]
  (tmp_path / 'runs.csv').write_text(header + ''.join(lines))
  (tmp_path / 'workloads.csv').write_text(WORKLOADS)
  metric = np.full((4, 3), 0.11)
  metric[1] = [0.5, 0.8, 1.0]
  np.savez(
    tmp_path / 'evaluations.npz',
    first=np.arange(0, 13, 3),
    step=np.tile([10, 20, 40], 4),
    seconds=np.tile([10.0, 20.0, 40.0], 4),
    loss=np.ones(12),
    metric=metric.ravel(),
  )
  return tmp_path


def test_the_table(folder, capsys):
  assert cli.main(['replay', f'--runs={folder}']) == 0
  assert capsys.readouterr().out == (
    '  rule      cases  reached, 1.5×  time   reached, 3×  time   '
    'false alarms\n'
    '  never     4      0.750          0.650  1.000        0.333  0 of 1\n'
    '  thesis    4      0.750          0.650  1.000        0.333  0 of 1\n'
    '  floor     4      1.000          0.467  1.000        0.233  0 of 1\n'
    '  progress  4      1.000          0.467  1.000        0.233  0 of 1\n'
    '  race      4      1.000          0.517  1.000        0.258  –\n'
    '  oracle    4      1.000          0.367  1.000        0.183  0 of 1\n'
  )


def test_json_and_a_picture(folder, capsys):
  words = ['replay', f'--runs={folder}', '--json', '--out=x.png', '--budget=1']
  rule = '{"name": "floor", "shares": [0.4], "least": [0.2]}'
  assert cli.main([*words, '--rule=never', f'--rule={rule}']) == 0
  never, floor = json.loads(capsys.readouterr().out)
  assert never == {
    'rule': 'never',
    'budget': 1.0,
    'cases': 4,
    'reached': 0.5,
    'time': pytest.approx((0.8 + 0.4 + 1 + 1) / 4),
    'false_alarms': 0,
  }
  assert floor['rule'] == json.loads(rule)
  assert (folder / 'x.png').read_bytes()[:4] == b'\x89PNG'


def test_by_submission(folder, capsys):
  words = ['replay', f'--runs={folder}', '--by=submission', '--rule=never']
  assert cli.main(words) == 0
  header, row = capsys.readouterr().out.splitlines()
  assert header.split()[:2] == ['rule', 'submission']
  assert row.split()[:3] == ['never', 'a', '4']


def test_what_a_race_costs(folder, capsys):
  words = ['replay', f'--runs={folder}', '--costs', '--rule=race']
  assert cli.main([*words, '--budget=1']) == 0
  assert [
    line.split() for line in capsys.readouterr().out.splitlines()[1:]
  ] == [
    ['race', '1×', 'yes', '1', '1.000', '0.800', '1.000', '0.400']
    + ['0.000', '0.077'],
    ['no', '3', '1.000', '0.767', '1.000', '0.800'],
  ]
  assert cli.main([*words, '--json', '--by=workload']) == 0
  row = json.loads(capsys.readouterr().out)[0]
  assert (row['workload'], row['good_row_reached']) == ('up', 1.0)


def test_left_out(folder, capsys):
  runs = folder / 'runs.csv'
  header, *lines = runs.read_text().splitlines(keepends=True)
  more = [line.replace(',a,', ',b,') for line in lines]
  runs.write_text(header + ''.join(lines + more))
  arrays = dict(np.load(folder / 'evaluations.npz'))
  twice = {name: np.tile(a, 2) for name, a in arrays.items()}
  twice['first'] = np.arange(0, 25, 3)
  np.savez(folder / 'evaluations.npz', **twice)
  words = ['replay', f'--runs={folder}', '--left-out=submission', '--budget=1']
  assert cli.main([*words, '--rule=never', '--rule=floor']) == 0
  lines = capsys.readouterr().out.splitlines()
  assert [line.split() for line in lines[1:]] == [
    ['1×', 'a', 'floor', '4', '1.000', '0.700'],
    ['1×', 'b', 'floor', '4', '1.000', '0.700'],
    ['1×', 'all', '8', '1.000', '0.700'],
  ]
  assert cli.main([*words, '--json', '--rule=never', '--rule=floor']) == 0
  assert json.loads(capsys.readouterr().out)[2]['submission'] is None


def test_logs_of_a_users_own(folder, capsys):
  for trial in range(4):
    place = folder / f'logs/mine/study_0/ogbg_jax/trial_{trial}'
    place.mkdir(parents=True)
    (place / 'eval_measurements.csv').write_text(
      'global_step,accumulated_submission_time,validation/loss,'
      'validation/mean_average_precision\n1,1,1,0.1\n2,2,1,0.2\n3,3,1,0.3\n'
    )
  words = ['replay', '--logs=logs', '--rule=never', '--json', '--budget=1']
  assert cli.main(words) == 0
  [row] = json.loads(capsys.readouterr().out)
  assert (row['cases'], row['reached']) == (4, 1.0)


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (['--rule=thesi'], 'Did you mean thesis?'),
    (['--budget=0'], '0 must be a number above 0'),
    (['--budget=x'], "'x' is not a valid float"),
    (['--out=x.pdf'], '--out=x.pdf must end in .png'),
    (['--out=no/x.png'], '--out=no/x.png: there is no folder no'),
    (['--runs=no'], '--runs=no: there is no such folder'),
    (['--logs=no'], '--logs=no: there is no such folder'),
    (['--logs=.'], 'give a folder of logs'),
    (['--costs', '--rule=floor'], '--rule=floor is not a race'),
    (['--left_out=workload', '--rule=floor'], 'give at least two --rule'),
    (['--costs', '--left_out=workload'], 'contradict each other'),
    (['--runs='], '--runs=: there is no such folder'),
    (['--runs=.', '--logs=.'], 'contradict each other'),
  ],
)
def test_bad_input(folder, capsys, flags, message):
  assert cli.main(['replay', *flags]) == cli.BAD_INPUT
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1
