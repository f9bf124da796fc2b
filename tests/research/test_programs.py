"""`python -m reset_cycles.research.NAME`: every question has one program."""

import importlib
import pathlib
import re
import sys

import click
import pytest

import reset_cycles
from reset_cycles import research
from reset_cycles.console import program

RESEARCH = pathlib.Path(reset_cycles.__file__).parent / 'research'
QUESTIONS = sorted(path.parent.name for path in RESEARCH.glob('*/__init__.py'))


def run(name, *words):
  module = f'reset_cycles.research.{name}'
  command = getattr(importlib.import_module(f'{module}.__main__'), name)
  return program.run(command, f'python -m {module}', words)


@pytest.mark.parametrize('name', QUESTIONS)
def test_the_help_of_each_question(name, capsys):
  assert run(name, '--help') == 0
  out = capsys.readouterr().out
  assert out.startswith(f'Usage: python -m reset_cycles.research.{name} [OPT')
  command = getattr(
    importlib.import_module(f'reset_cycles.research.{name}.__main__'), name
  )
  for word in getattr(command, 'commands', ()):
    assert isinstance(command, click.Group)
    assert run(name, word, '-h') == 0
    assert f' {word} [OPTIONS]' in capsys.readouterr().out


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    ('board', None),
    ('board studi', "No such command 'studi'"),
    ('board targets --workload=digits', 'has targets of digits already'),
    ('costs --models=digit', "'digit' is unknown"),
    ('costs --memory=digits', "--memory='digits': must be one of clicks"),
    ('growing train --out=x --tasks=image', 'Did you mean images?'),
    ('growing train --out=log.csv', 'log.csv has the columns a,b; a log of'),
    ('growing tables --log=no.csv', "'--log': File 'no.csv' does not exist"),
    ('growing tables --log=log.csv', 'log.csv has the columns a,b; a log of'),
    ('growing tables --picture=x.md', '--out=x.md must end in .png'),
    ('lost_runs --seeds=3-1', '--seeds=3-1: 3-1 must go from low to high'),
    ('lost_runs --log=log.csv', 'log.csv has the columns a,b; a log of'),
    ('muon --devices=0', "'--devices': 0 is not in the range x>=1"),
    (
      'own_loop resets --loops=mlp',
      "--loops='mlp': must be one of mlp_accuracy",
    ),
    ('own_loop resets --seeds=x', '--seeds=x: must be like 1-10 or 3,5,8'),
    ('own_loop resets --log=log.csv', 'log.csv has the columns a,b; a log'),
    ('own_loop train --networks=mlp2', 'Did you mean mlp?'),
    ('own_loop train --log=log.csv', 'log.csv has the columns a,b; a log of'),
    ('own_loop train --networks=cifar', '--real_data is missing; cifar, tox'),
    ('own_loop tables --log=log.csv', 'log.csv has the columns a,b; a log of'),
    ('own_loop times --networks=cifar', '--real_data is missing; the netwo'),
    ('own_loop times --log=log.csv', 'log.csv has the columns a,b; a log of'),
    ('real_runner export no', "Directory 'no' does not exist"),
    ('real_runner run --names=muon', '--names needs --benchmark and --entri'),
    (
      'real_runner run --benchmark=. --entries=. --names=a',
      'a: there is no such folder',
    ),
    (
      'real_runner run --benchmark=. --entries=. --names=entry --data=mnist',
      "--data='mnist': must be one of fashion",
    ),
    (
      'real_runner run --benchmark=. --entries=. --names=entry --data=tox21',
      '--tox21_folder: tox21: there is no such folder',
    ),
    (
      'real_runner run --benchmark=. --entries=. --names=entry'
      ' --data=thesis_tox21',
      "--names='entry': must be one of thesis_one_cycle, ",
    ),
    ('replay replay --rule=progres', 'Did you mean progress?'),
    ('thesis experiments fig3.88', 'Did you mean fig3.8'),
  ],
)
def test_bad_input_is_said_in_one_line(
  words, message, tmp_path, monkeypatch, capfd
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'entry').mkdir()
  (tmp_path / 'log.csv').write_text('a,b\n1,2\n')
  assert run(*words.split()) == 2
  captured = capfd.readouterr()
  assert captured.out == ''
  if message is None:  # what there is
    assert 'Commands:' in captured.err
    return
  assert captured.err.startswith('reset-cycles: error: ')
  assert captured.err.count('\n') == 1
  assert message in captured.err


@pytest.mark.parametrize('words', ['muon', 'real_runner peaks .'])
def test_what_needs_the_benchmark_says_so(words, monkeypatch, capfd):
  monkeypatch.setitem(sys.modules, 'jraph', None)
  monkeypatch.setitem(sys.modules, 'algoperf', None)
  monkeypatch.setenv('XLA_FLAGS', '')
  assert run(*words.split()) == 2
  said = "an environment of the benchmark's main branch has it.\n"
  assert capfd.readouterr().err.endswith(said)


def test_every_question_is_in_the_table_with_its_page_and_its_tests():
  rows = re.findall(r'(?m)^  ([a-z_]+) .* (\S+\.md)$', research.__doc__)
  assert [name for name, _ in rows] == QUESTIONS
  for name, page in rows:
    root = RESEARCH.parent if page.startswith('docs/') else RESEARCH
    assert (root / page).is_file()
    assert [*pathlib.Path(__file__).parent.glob(f'{name}/test_*.py')]
