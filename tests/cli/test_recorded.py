"""`soft-reset replay`, `score`, `report` and `plot`."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pytest

from helpers.log_files import EVENTS, write_run
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import files
from reset_cycles.studies.real_runs import reading

PNG = b'\x89PNG'
WORKLOADS = (
  'workload,metric,direction,validation_target,step_hint_v05,max_runtime_v05\n'
  'up,accuracy,rises,1,100,100\n'
)


def write_recorded(root, submissions=('a',)):
  """Four trials of each; the second one reaches its target after 40 seconds."""
  header = 'board,ruleset,submission,framework,study,workload,trial,hparams\n'
  lines = [
    f'v05,external,{name},jax,study_0,up,trial_{i},\n'
    for name in submissions
    for i in range(1, 5)
  ]
  (root / 'runs.csv').write_text(header + ''.join(lines))
  (root / 'workloads.csv').write_text(WORKLOADS)
  count = len(lines)
  metric = np.full((count, 3), 0.11)
  metric[1::4] = [0.5, 0.8, 1.0]
  np.savez(
    root / 'evaluations.npz',
    first=np.arange(0, 3 * count + 1, 3),
    step=np.tile([10, 20, 40], count),
    seconds=np.tile([10.0, 20.0, 40.0], count),
    loss=np.ones(3 * count),
    metric=metric.ravel(),
  )


@pytest.fixture
def replay(tmp_path, monkeypatch, capsys):
  """replay(*flags): the output about recorded runs in the current folder."""
  monkeypatch.chdir(tmp_path)
  write_recorded(tmp_path)

  def run(*flags):
    assert cli.main(['replay', '--runs=.', *flags]) == 0
    return capsys.readouterr().out

  return run


def test_the_table(replay):
  assert replay() == (
    '  rule      cases  reached, 1.5×  time   reached, 3×  time   '
    'false alarms\n'
    '  never     4      0.750          0.650  1.000        0.333  0 of 1\n'
    '  thesis    4      0.750          0.650  1.000        0.333  0 of 1\n'
    '  floor     4      1.000          0.467  1.000        0.233  0 of 1\n'
    '  progress  4      1.000          0.467  1.000        0.233  0 of 1\n'
    '  race      4      1.000          0.517  1.000        0.258  –\n'
    '  oracle    4      1.000          0.367  1.000        0.183  0 of 1\n'
  )


def test_json_and_a_picture(replay):
  rule = '{"name": "floor", "shares": [0.4], "least": [0.2]}'
  rules = ('--rule=never', f'--rule={rule}')
  never, floor = json.loads(
    replay('--json', '--out=x.png', '--budget=1', *rules)
  )
  assert never == {
    'rule': 'never',
    'budget': 1.0,
    'cases': 4,
    'reached': 0.5,
    'time': pytest.approx((0.8 + 0.4 + 1 + 1) / 4),
    'false_alarms': 0,
  }
  assert floor['rule'] == json.loads(rule)
  assert pathlib.Path('x.png').read_bytes().startswith(PNG)


def test_by_submission(replay):
  out = replay('--by=submission', '--rule=never')
  header, row = out.splitlines()
  assert header.split()[:2] == ['rule', 'submission']
  assert row.split()[:3] == ['never', 'a', '4']


def test_what_a_race_costs(replay, capsys):
  lines = replay('--costs', '--rule=race', '--budget=1').splitlines()
  assert [line.split() for line in lines[1:]] == [
    'race 1× yes 1 1.000 0.800 1.000 0.400 0.000 0.077'.split(),
    'no 3 1.000 0.767 1.000 0.800'.split(),
  ]
  flags = ('--costs', '--rule=race', '--json', '--by=workload')
  row = json.loads(replay(*flags))[0]
  assert (row['workload'], row['good_row_reached']) == ('up', 1.0)
  assert cli.main(['replay', '--runs=.', '--costs', '--rule=floor']) == 2
  assert '--rule=floor is not a race' in capsys.readouterr().err


def test_left_out(replay, tmp_path, capsys):
  write_recorded(tmp_path, ('a', 'b'))
  flags = ['--left-out=submission', '--budget=1', '--rule=floor']
  lines = replay(*flags, '--rule=never').splitlines()
  assert [line.split() for line in lines[1:]] == [
    ['1×', 'a', 'floor', '4', '1.000', '0.700'],
    ['1×', 'b', 'floor', '4', '1.000', '0.700'],
    ['1×', 'all', '8', '1.000', '0.700'],
  ]
  objects = json.loads(replay(*flags, '--rule=never', '--json'))
  assert objects[2]['submission'] is None
  assert cli.main(['replay', '--runs=.', *flags]) == 2
  assert 'give at least two --rule' in capsys.readouterr().err


def test_logs_of_a_users_own(tmp_path, capsys):
  for trial in range(4):
    place = tmp_path / f'mine/study_0/ogbg_jax/trial_{trial}'
    place.mkdir(parents=True)
    (place / 'eval_measurements.csv').write_text(
      'global_step,accumulated_submission_time,validation/loss,'
      'validation/mean_average_precision\n1,1,1,0.1\n2,2,1,0.2\n3,3,1,0.3\n'
    )
  words = [f'--logs={tmp_path}', '--rule=never', '--json', '--budget=1']
  assert cli.main(['replay', *words]) == 0
  [row] = json.loads(capsys.readouterr().out)
  assert (row['cases'], row['reached']) == (4, 1.0)


def test_scores_of_logs(tmp_path, monkeypatch, capsys):
  """Two submissions; the second takes twice the time."""
  monkeypatch.chdir(tmp_path)
  meta = {'target_metric_name': 'accuracy', 'validation_target_value': 0.5}
  for name, seconds in (('one', 10), ('two', 20)):
    place = pathlib.Path('logs', name, 'study_0', 'digits_jax', 'trial_1')
    place.mkdir(parents=True)
    recorded = {f'workload.{key}': value for key, value in meta.items()}
    files.write_json(place / 'meta_data_0.json', recorded)
    (place / 'eval_measurements.csv').write_text(
      f'accumulated_submission_time,validation/accuracy\n1,0.1\n{seconds},0.5\n'
    )
  assert cli.main(['score', 'logs', '--out=x.png']) == 0
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
  assert pathlib.Path('x.png').read_bytes().startswith(PNG)


def test_scores_of_recorded_runs(capsys):
  assert cli.main(['score']) == 0
  out = capsys.readouterr().out
  assert '1  schedule_free_adamw  0.8542  7 of 8\n' in out
  assert cli.main(['score', str(reading.SHIPPED), '--ruleset=self']) == 0
  assert capsys.readouterr().out == out
  assert cli.main(['score', '--board=a100']) == 0
  assert '  1  ' in capsys.readouterr().out


@pytest.fixture
def trials(tmp_path, monkeypatch):
  """Folders with runs, trial_1, _2 and _10; the current one is above them."""
  monkeypatch.chdir(tmp_path)
  found = [pathlib.Path('runs/digits_jax', f'trial_{n}') for n in (1, 2, 10)]
  for seed, folder in zip((1, 2, 10), found):
    folder.mkdir(parents=True)
    write_run(folder, EVENTS, seed=seed)
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
  assert seeds == ['1', '2', '10']
