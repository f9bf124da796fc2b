"""`soft-reset experiments`: the list, a figure's cycles and commands."""

from __future__ import annotations

import pathlib
import shlex

import pytest

from reset_cycles.cli import main as cli
from reset_cycles.experiments import thesis
from reset_cycles.mini_algoperf import submission_loader


def test_the_list_has_a_line_for_every_figure(capsys):
  assert cli.main(['experiments']) == 0
  lines = capsys.readouterr().out.splitlines()
  assert [line.split()[0] for line in lines[1 : len(thesis.FIGURES) + 1]] == (
    list(thesis.FIGURES)
  )
  assert max(map(len, lines)) <= 80
  assert lines[-3].startswith('  figA.1c  ogbg      2x      three peaks')


@pytest.mark.parametrize('name', thesis.FIGURES)
def test_a_figure_is_explained(name, capsys):
  assert cli.main(['experiments', name]) == 0
  out = capsys.readouterr().out
  figure = thesis.FIGURES[name]
  assert out.startswith(f'{name}: {figure.title}\n')
  stand_in = figure.workload.stand_in
  assert f'Workload: {figure.workload.name}, here {stand_in}.\n' in out
  assert out.count('\nHere:\n') == len(figure.runs)
  for line in out.splitlines():
    assert len(line) <= 84 or line.lstrip().startswith('--submission_path=')
  for run in figure.runs:
    assert f'\n{run}\n{"-" * len(run)}\nResets: ' in out


def test_cycles_that_two_runs_share_are_shown_once(capsys):
  cli.main(['experiments', 'fig3.8a'])
  out = capsys.readouterr().out
  assert out.count('Cycles with the step_hint of ogbg in 2024, 80,000:') == 1
  assert out.count('Cycles with the step_hint of ogbg now, 52,000:') == 1
  assert out.count('Cycles with the step_hint of molecules, 1,500:') == 1
  assert out.count('Cycles: as above.') == 1
  assert 'Resets: FullReset.\n' in out
  assert 'Resets: SoftReset.\n' in out
  assert 'Early switching: off, S(t) is logged; SmoothedLossRule.\n' in out


def test_the_commands(capsys, monkeypatch):
  monkeypatch.chdir(pathlib.Path(thesis.__file__).parents[1])
  cli.main(['experiments', 'fig3.11'])
  lines = capsys.readouterr().out.replace('\\\n', '').splitlines()
  name = 'failed_start_soft'
  exported, benchmark, own = (
    shlex.split(next(line for line in lines if line.startswith(start)))
    for start in ('  soft-reset export', '  python3', f'  EXPERIMENT={name}')
  )
  folder = f'submissions/{name}'
  assert exported[2:] == [f'--settings={name}', f'--out={folder}']
  path = f'{folder}/self_tuning/{name}/submission.py'
  assert f'--submission_path={path}' in benchmark
  assert own[1:3] == ['soft-reset', 'run']
  context = cli.cli.commands['run'].make_context('run', own[3:])
  assert context.params['workload'] == 'molecules'
  assert not context.params['stop_at_targets']
  submission_loader.load_submission(context.params['submission_path'])
