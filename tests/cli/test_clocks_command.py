"""`soft-reset clocks` and `soft-reset expected`."""

from __future__ import annotations

import numpy as np
import pytest

from reset_cycles.cli import main as cli

WORKLOADS = (
  'workload,metric,direction,validation_target,step_hint_v05,max_runtime_v05\n'
  'up,accuracy,rises,1,100,100\n'
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """Four trials of 12 evaluations; the second one reaches its target."""
  monkeypatch.chdir(tmp_path)
  header = 'board,ruleset,submission,framework,study,workload,trial,hparams\n'
  lines = [f'v05,external,a,jax,study_0,up,trial_{i},\n' for i in range(1, 5)]
  (tmp_path / 'runs.csv').write_text(header + ''.join(lines))
  (tmp_path / 'workloads.csv').write_text(WORKLOADS)
  metric = np.full((4, 12), 0.1)
  metric[1] = np.linspace(0.1, 1.0, 12)
  np.savez(
    tmp_path / 'evaluations.npz',
    first=np.arange(0, 49, 12),
    step=np.tile(1 + 9 * np.arange(12), 4),
    seconds=np.tile(1.0 + 9 * np.arange(12), 4),
    loss=np.ones(48),
    metric=metric.ravel(),
  )
  return tmp_path


def test_the_table_of_clocks(folder, capsys):
  assert cli.main(['clocks', str(folder)]) == 0
  header, own, *rows, _, said = capsys.readouterr().out.splitlines()
  assert header.split()[:3] == ['budget', 'horizon', 'runs']
  assert own.split()[:5] == ['own', 'end', 'time', '4', '100.00%']
  # 100 steps are over at 100 s, where the budget is.
  assert [row.split()[:4] for row in rows] == [
    ['1×', 'time', '4', '100.00%'],
    ['1×', 'steps', '4', '0.00%'],
  ]
  assert said == '4 runs; 0 with fewer than four evaluations are left out.'


def test_another_horizon(folder, capsys):
  setting = '{"name": "time", "margin": 0.5}'
  assert cli.main(['clocks', str(folder), f'--horizon={setting}']) == 0
  assert 'margin' in capsys.readouterr().out


def test_what_is_expected_and_its_picture(folder, capsys):
  assert cli.main(['expected', str(folder), '--out=x.png']) == 0
  lines = capsys.readouterr().out.splitlines()
  assert lines[0] == 'Share of the way, by the share of the run:'
  assert lines[1].split()[0] == 'curve'
  assert (folder / 'x.png').read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize(
  ('words', 'said'),
  (
    (['clocks', 'nowhere'], 'nowhere: there is no such folder.'),
    (['expected', 'nowhere'], 'nowhere: there is no such folder.'),
    (['clocks', '--horizon={"name"'], '--horizon={"name" is not valid JSON'),
    (['clocks', '--horizon=tim'], '--horizon must be one of steps, time'),
    (['expected', '--out=x.pdf'], 'x.pdf'),
  ),
)
def test_bad_input_in_one_line(folder, capsys, words, said):
  assert cli.main(words) == 2
  error = capsys.readouterr().err
  assert said in error
  assert error.count('\n') == 1


def test_runs_of_which_none_reaches(folder, capsys):
  workloads = (folder / 'workloads.csv').read_text()
  (folder / 'workloads.csv').write_text(workloads.replace('rises,1', 'rises,2'))
  assert cli.main(['expected', str(folder)]) == 2
  assert 'no run reaches its target' in capsys.readouterr().err
