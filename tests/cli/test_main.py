"""The console script: help, start-up, how it ends."""

from __future__ import annotations

import errno
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from reset_cycles.cli import main as cli
from reset_cycles.cli import plot, signals
from run_files import python_path

MAIN = [sys.executable, '-m', 'reset_cycles.cli.main']


def started(*words, code=None, **settings):
  """The console script, or other code, as a process of its own."""
  command = [*MAIN, *words] if code is None else [sys.executable, '-c', code]
  return subprocess.Popen(
    command,
    env={**os.environ, 'PYTHONPATH': python_path()},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    **settings,
  )


# Help.


def test_help(capsys):
  assert cli.main(['--help']) == 0
  out = capsys.readouterr().out
  assert cli.main(['help']) == 0
  assert capsys.readouterr().out == out
  assert all(f'    {name} ' in out for name in cli.COMMANDS)


@pytest.mark.parametrize('name', cli.COMMANDS)
@pytest.mark.parametrize('word', ['--help', '-help', '-h', '-?'])
def test_help_of_a_command(name, word, capsys):
  assert cli.main([name, word]) == 0
  out = capsys.readouterr().out
  assert out.startswith(f'usage: soft-reset {name} ')
  assert max(map(len, out.splitlines())) <= 80
  # Every flag has a line of its own, with what it takes.
  options = cli.make_parser().parse_known_args([name, 'x'])[0]
  for action in options.parser._actions:
    if action.help == '==SUPPRESS==':
      continue
    if action.nargs == '?' and action.option_strings:
      assert f'\n  --[no]{action.dest}\n' in out
    elif action.option_strings:
      assert f'\n  --{action.dest}=' in out


def test_no_command_shows_the_help(capsys):
  assert cli.main([]) == 2
  assert 'commands:' in capsys.readouterr().err


# Start-up.


@pytest.mark.parametrize(
  'words',
  [['--help'], ['run', '--bogus'], ['run', '--help'], ['run'], ['schedule']],
)
def test_flags_are_read_without_jax(words):
  code = (
    'import sys; from reset_cycles.cli import main; '
    f'main.main({words}); sys.exit("jax" in sys.modules or "numpy" in sys.modules)'
  )
  with started(code=code) as process:
    _, err = process.communicate()
  assert process.returncode == 0, err


IMPORTING = """
import os, signal, sys, time
from reset_cycles.cli import main, plot

class Finder:
  def find_spec(self, name, *unused):
    if name == 'reset_cycles.studies.runs.metric_plot':
      print('importing', flush=True)
      time.sleep(60)

sys.meta_path.insert(0, Finder())
open('meta_data_0.json', 'w').close()
try:
  status = main.main(['plot', '.'])
except BaseException as e:
  print('raised', e)
sys.exit(status)
"""


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_modules_are_imported(number, tmp_path):
  with started(code=IMPORTING, cwd=tmp_path) as process:
    assert process.stdout.readline() == 'importing\n'
    process.send_signal(number)
    out, err = process.communicate()
  assert (process.returncode, out) == (130, '')
  assert err == 'soft-reset: interrupted.\n'


# How a command ends.


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_both_signals_say_the_same(number, monkeypatch, capsys):
  before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
  monkeypatch.setattr(signal, 'default_int_handler', before[0])

  def run(options):
    signal.raise_signal(number)
    time.sleep(60)

  monkeypatch.setattr(plot, 'run', run)
  signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    assert cli.main(['plot', '.']) == 130
  finally:
    signal.signal(signal.SIGINT, before[0])
  assert capsys.readouterr().err == 'soft-reset: interrupted.\n'
  assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == (
    before
  )


def test_a_signal_that_is_ignored_stays_so():
  before = signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    with signals.ending_at_once():
      assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
  finally:
    signal.signal(signal.SIGINT, before)


def test_a_reader_that_goes_away():
  """As `| head -n 1` does; there is more to say than a pipe holds."""
  code = (
    'import sys; from reset_cycles.cli import main, plot\n'
    'plot.run = lambda options: print("line\\n" * 100_000)\n'
    'sys.exit(main.main(["plot", "."]))'
  )
  with started(code=code) as process:
    assert process.stdout.readline() == 'line\n'
    process.stdout.close()
    assert process.stderr.read() == ''
  assert process.returncode == cli.NO_READER


@pytest.mark.skipif(
  not pathlib.Path('/dev/full').exists(), reason='there is no /dev/full'
)
def test_output_onto_a_full_disk():
  code = (
    'import sys; from reset_cycles.cli import main, plot\n'
    'plot.run = lambda options: print("a line")\n'
    'sys.exit(main.main(["plot", "."]))'
  )
  with open('/dev/full', 'w') as full:
    done = subprocess.run(
      [sys.executable, '-c', code],
      env={**os.environ, 'PYTHONPATH': python_path()},
      stdout=full,
      stderr=subprocess.PIPE,
      text=True,
      check=False,
    )
  [line] = done.stderr.splitlines()
  assert 'No space left on device' in line
  assert done.returncode == 2


def test_a_full_disk_after_training_had_begun(monkeypatch, capsys):
  def run(options):
    raise OSError(errno.ENOSPC, 'No space left on device')

  monkeypatch.setattr(plot, 'run', run)
  assert cli.main(['plot', '.']) == 2
  [line] = capsys.readouterr().err.splitlines()
  assert line == ('soft-reset: error: [Errno 28] No space left on device')


def test_a_bug_keeps_its_traceback(monkeypatch):
  def run(options):
    raise KeyError('a bug')

  monkeypatch.setattr(plot, 'run', run)
  with pytest.raises(KeyError, match='a bug'):
    cli.main(['plot', '.'])
