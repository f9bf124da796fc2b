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
    assert len(line) <= 80 or line.lstrip().startswith('--submission_path=')
  for run in figure.runs:
    assert f'\n{run}\n{"-" * len(run)}\nResets: ' in out


def test_cycles_that_two_runs_share_are_shown_once(capsys):
  cli.main(['experiments', 'fig3.8a'])
  out = capsys.readouterr().out
  assert out.count('Cycles with the step_hint of ogbg in 2024, 80,000:') == 1
  assert out.count('Cycles with the step_hint of ogbg now, 52,000:') == 1
  assert out.count('Cycles with the step_hint of molecules, 1,500:') == 1
  assert out.count('Cycles: as above.') == 1
  assert 'Resets: full.\n' in out
  assert 'Resets: soft, alpha 0.5.\n' in out
  assert (
    'Early switching: off, S(t) is logged; lambda 0.7, epsilon 0.01, 0.01, '
    'k 9, m 9.\n'
  ) in out


def commands(name, capsys):
  """The shell commands of a figure, as lists of words."""
  cli.main(['experiments', name])
  out = capsys.readouterr().out.replace('\\\n', '')
  return [
    shlex.split(line)
    for line in out.splitlines()
    if line.startswith(('  python3', '  soft-reset'))
  ]


def test_the_benchmarks_command(capsys):
  full, _, soft, _ = commands('fig3.9b', capsys)
  folder = 'submissions/mine/self_tuning/soft_reset/experiments'
  assert full == [
    'python3',
    'submission_runner.py',
    '--framework=jax',
    '--workload=wmt',
    f'--submission_path={folder}/peaks_full.py',
    '--tuning_ruleset=self',
    '--data_dir=$DATA',
    '--experiment_dir=$EXPERIMENTS',
    '--experiment_name=peaks_full',
  ]
  assert soft[4] == f'--submission_path={folder}/peaks_soft.py'


@pytest.mark.parametrize('below', [True, False])
def test_our_command_is_understood(below, capsys, monkeypatch, tmp_path):
  root = pathlib.Path(thesis.__file__).parents[1]
  monkeypatch.chdir(root if below else tmp_path)
  (_, (program, command, *flags)) = commands('fig3.11', capsys)
  assert (program, command) == ('soft-reset', 'run')
  options, rest = cli.make_parser().parse_known_args([command, *flags])
  assert rest == []
  assert options.workload == 'molecules'
  assert options.experiment_name == 'failed_start_soft'
  assert not options.stop_at_targets
  path = options.submission_path
  submission_loader.load_submission(path)
  assert (path == 'experiments/failed_start_soft.py') == below


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['fig3.8'], 'near are fig3.8a, fig3.8b, fig3.8c.'),
    (['3.10'], 'near are fig3.1, fig3.10, fig3.11.'),
    (['--figure=fig3.7'], 'unknown flag --figure'),
    (['fig3.7', 'fig3.8a'], "unexpected argument 'fig3.8a'"),
  ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
  assert cli.main(['experiments', *arguments]) == 2
  captured = capsys.readouterr()
  (line,) = captured.err.splitlines()
  assert captured.out == ''
  assert message in line
