"""The console script: help, start-up, how it ends."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from helpers.run_files import python, python_path
from reset_cycles.cli import main as cli
from reset_cycles.console import program

COMMANDS = cli.cli.commands
PLOT = COMMANDS['plot']


def started(code, **settings):
  """Python code as a process of its own."""
  return subprocess.Popen(
    [sys.executable, '-c', code],
    env={**os.environ, 'PYTHONPATH': python_path()},
    stderr=subprocess.PIPE,
    text=True,
    **{'stdout': subprocess.PIPE, **settings},
  )


# Help.


def test_help(capsys):
  assert cli.main(['--help']) == 0
  out = capsys.readouterr().out
  assert cli.main(['help']) == 0
  assert capsys.readouterr().out == out
  assert all(f'\n  {name} ' in out for name in COMMANDS)
  assert '...' not in out.partition('Commands:')[2]
  assert cli.main([]) == 2
  assert 'Commands:' in capsys.readouterr().err


@pytest.mark.parametrize('word', ['--help', '-help', '-h', '-?'])
def test_help_of_a_command(word, capsys):
  for name, command in COMMANDS.items():
    assert cli.main([name, word]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f'Usage: reset-cycles {name} ')
    assert max(map(len, out.splitlines())) <= 80
    for param in command.params:
      assert param.param_type_name == 'argument' or param.opts[0] in out


@pytest.mark.parametrize(
  ('words', 'found'),
  [
    ('sco', 'score scoreboard'),
    ('run --workload mol', 'molecules'),
    ('study --workloads digits,chai', 'digits,chains'),
    ('study --workloads hel', 'held_out'),
    ('figures --only fig3.11,fig3.10', 'fig3.11,fig3.10'),
    ('experiments fig3.9', 'fig3.9a fig3.9b'),
    ('export --settings peaks_s', 'peaks_soft'),
  ],
)
def test_completion(words, found, monkeypatch, capsys):
  monkeypatch.setenv('_RESET_CYCLES_COMPLETE', 'bash_complete')
  monkeypatch.setenv('COMP_WORDS', f'reset-cycles {words}')
  monkeypatch.setenv('COMP_CWORD', str(len(words.split())))
  assert cli.main([]) == 0
  lines = [f'plain,{word}\n' for word in found.split()]
  assert capsys.readouterr().out == ''.join(lines)


@pytest.mark.parametrize(
  ('words', 'kept'),
  [
    ('results -shipped --jobs 3', {'shipped': True, 'jobs': 3}),
    ('results --shipped=true', {'shipped': True}),
    ('results --noshipped -jobs=3', {'shipped': False, 'jobs': 3}),
    ('results --shipped=False', {'shipped': False}),
    ('schedule --step-hint=3', {'step_hint': 3}),
    ('study --out=~/x', {'out': pathlib.Path.home() / 'x'}),
  ],
)
def test_the_forms_of_flags(words, kept):
  name, *words = words.split()
  context = COMMANDS[name].make_context(name, words)
  assert kept.items() <= context.params.items()


# Start-up.


def test_flags_are_read_without_jax():
  code = (
    'import sys; from reset_cycles.cli import main\n'
    'for words in ["--help", "run --bogus", "run --help", "run", "schedule"]:\n'
    '  main.main(words.split())\n'
    'sys.exit("jax" in sys.modules or "numpy" in sys.modules)'
  )
  python(code)


IMPORTING = """
import sys, time
from reset_cycles.cli import main

class Finder:
  def find_spec(self, name, *unused):
    if name == 'reset_cycles.views.run_plot':
      print('importing', flush=True)
      time.sleep(60)

sys.meta_path.insert(0, Finder())
try:
  status = main.main(['plot', '.'])
except BaseException as e:
  print('raised', e)
sys.exit(status)
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EACH = pytest.mark.parametrize(
  'number', SIGNALS, ids=lambda number: number.name
)


@EACH
def test_ctrl_c_while_modules_are_imported(number):
  with started(IMPORTING) as process:
    assert process.stdout.readline() == 'importing\n'
    process.send_signal(number)
    out, err = process.communicate()
  assert (process.returncode, out) == (130, '')
  assert err == 'reset-cycles: interrupted.\n'


# How a command ends.


@EACH
def test_all_signals_say_the_same(number, monkeypatch, capsys):
  def run(folder):
    signal.raise_signal(number)
    raise AssertionError('the command goes on')

  monkeypatch.setattr(PLOT, 'callback', run)
  before = [signal.getsignal(n) for n in SIGNALS]
  assert cli.main(['plot', '.']) == 130
  assert capsys.readouterr().err == 'reset-cycles: interrupted.\n'
  assert [signal.getsignal(n) for n in SIGNALS] == before


PRINTING = (
  'import sys; from reset_cycles.cli import main\n'
  'plot = main.cli.commands["plot"]\n'
  'plot.callback = lambda folder: print("line\\n" * 100_000)\n'
  'sys.exit(main.main(["plot", "."]))'
)


def test_a_reader_that_goes_away():
  """As `| head -n 1` does; there is more to say than a pipe holds."""
  with started(PRINTING) as process:
    assert process.stdout.readline() == 'line\n'
    process.stdout.close()
    assert process.stderr.read() == ''
  assert process.returncode == program.NO_READER


@pytest.mark.skipif(
  not pathlib.Path('/dev/full').exists(), reason='there is no /dev/full'
)
def test_output_onto_a_full_disk():
  with (
    open('/dev/full', 'w') as full,
    started(PRINTING, stdout=full) as process,
  ):
    [line] = process.stderr.read().splitlines()
  assert 'No space left on device' in line
  assert process.returncode == 2
