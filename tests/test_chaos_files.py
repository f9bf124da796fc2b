"""Killed processes, killed between any two writes, full disks: nothing is lost."""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from helpers.fakes import FakeWorkload, write_own
from helpers.run_files import assert_same_run, python_path, xla_flags
from reset_cycles.cli import main as cli
from reset_cycles.engine.records import CYCLES, read_events
from reset_cycles.mini_algoperf import workloads

TIMES = int(os.environ.get('CHAOS', '1'))
repeats_exactly = pytest.mark.skipif(
  jax.__version_info__ < (0, 5),
  reason='sums over several CPU devices come in no fixed order',
)


def flags_of(workload, changes):
  """Flags of a run of our submission."""
  words = (f'--workload={workload}', write_own(changes))
  return ['run', *words, '--experiment_dir=runs', '--rng_seed=3']


def trial(name, workload='fake'):
  return pathlib.Path('runs', name, f'{workload}_jax', 'trial_1').absolute()


def assert_same(one, other):
  """Same boundaries, tau and rates in cycles.csv, same arrays at the end."""
  assert read_events(one / CYCLES) == read_events(other / CYCLES)
  assert_same_run(one, other)


class Disk:
  """Watches what is written below a folder.

  What is on the disk before a write is what a process leaves that is killed
  there: nothing is lost of what was handed to the system before.
  """

  def __init__(self):
    self.root, self.calls, self._before = None, 0, None
    sys.addaudithook(self._hear)  # for good: there is no way to remove one

  @contextlib.contextmanager
  def watched(self, root, before=lambda number: None):
    """Calls before(number of the write, from 0) for each write below root."""
    self.root, self.calls, self._before = str(root), 0, before
    try:
      yield self
    finally:
      self.root = None

  def _hear(self, event, args):
    is_write = event in ('os.rename', 'os.remove', 'os.mkdir')
    if event == 'open' and isinstance(args[2], int):
      is_write = bool(args[2] & (os.O_WRONLY | os.O_RDWR))
    if not (is_write and self.root and str(args[0]).startswith(self.root)):
      return
    root, self.root = self.root, None  # what `before` does is no event
    try:
      self._before(self.calls)
    finally:
      self.root, self.calls = root, self.calls + 1


@pytest.fixture(scope='session')
def disk():
  return Disk()


class Fitting(FakeWorkload):
  """Its steps end a run, however busy the machine is."""

  eval_every_steps = 3
  max_allowed_runtime_sec = 10_000

  def __init__(self, generation='jit'):
    super().__init__(generation, accuracy=lambda step: step / 20)


@pytest.fixture
def train(fake_workload, monkeypatch):
  """train(name, *flags): the exit status of a run in runs/name.

  12 steps in three cycles, the second of which is abandoned or not.
  """
  monkeypatch.setitem(workloads.WORKLOADS, 'fake', Fitting)
  pathlib.Path('runs').mkdir()
  words = flags_of('fake', 'budget_factor=0.4')
  words += ['--max_global_steps=12', '--nostop_at_targets']
  return lambda name, *flags: cli.main(
    [*words, f'--experiment_name={name}', *flags]
  )


def some(count, of):
  """Numbers from 0 on, evenly spread; all in `make chaos`."""
  if TIMES > 1:
    return range(of)
  return sorted({int(i) for i in np.linspace(0, of - 1, count)})


@repeats_exactly
def test_killed_between_any_two_writes(train, disk, tmp_path):
  """What lies on the disk then is enough for a run to go on as if not."""
  runs, states = pathlib.Path('runs').absolute(), tmp_path / 'states'

  def keep(number):
    shutil.copytree(runs, states / str(number))

  with disk.watched(runs, keep) as seen:
    assert train('whole') == 0
  assert seen.calls > 40
  for number in some(3, of=seen.calls):
    state = states / str(number) / 'whole'
    if state.exists():
      shutil.copytree(state, runs / f'killed_{number}')
    assert train(f'killed_{number}', '--resume_last_run') == 0
    assert_same(trial(f'killed_{number}'), trial('whole'))


@repeats_exactly
def test_a_write_that_fails(train, disk, capsys):
  """A full disk ends the run or costs a file; with room again it goes on."""
  runs = pathlib.Path('runs').absolute()
  with disk.watched(runs) as seen:
    assert train('whole') == 0
  for wanted in some(2, of=seen.calls):

    def fill(number, wanted=wanted):
      if number == wanted:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    name = f'full_{wanted}'
    with disk.watched(runs, fill):
      status = train(name)
    assert status in (0, 2)
    assert (status == 0) == ('error: ' not in capsys.readouterr().err)
    assert train(name, '--resume_last_run') == 0
    assert_same_run(trial(name), trial('whole'), ['eval_measurements.csv'])


COMMANDS = """
import json, sys
from reset_cycles.cli.main import main
for words in json.loads(sys.argv[1]):
  if status := main(words):
    sys.exit(status)
"""


def words_of(name):
  """Of a run on `digits`: 126 steps, three cycles of 42.

  No early switch, whatever the losses are.
  """
  words = flags_of('digits', 'budget_factor=0.06, early_switching=False')
  words += ['--eval_every=14', '--eval_splits=validation']
  return [*words, f'--experiment_name={name}']


def start(*command):
  """On one device, as a user's CPU is.

  Runs over several repeat up to rounding only before jax 0.5.
  """
  with open('output.txt', 'a') as output:
    return subprocess.Popen(
      command,
      env={
        **os.environ,
        'PYTHONPATH': python_path(),
        'XLA_FLAGS': xla_flags(num_devices=1),
        'JAX_DISABLE_MOST_OPTIMIZATIONS': '1',  # compiling takes the longest
      },
      stdout=output,
      stderr=subprocess.STDOUT,
    )


def test_killed_after_a_reset_and_resumed(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  killed, whole = trial('killed', 'digits'), trial('whole', 'digits')
  script = pathlib.Path(sys.executable).with_name('reset-cycles')
  process = start(script, *words_of('killed'))
  while process.poll() is None:
    if 'reset' in (row['event'] for row in read_events(killed / CYCLES)):
      break
    time.sleep(0.01)
  process.kill()
  said = pathlib.Path('output.txt').read_text()
  assert process.wait() == -signal.SIGKILL, said
  steps = [int(p.name.split('_')[1]) for p in killed.glob('check*_*')]
  assert 0 < max(steps) < 126
  # One process for both: it takes seconds to import what it needs.
  both = [*words_of('killed'), '--resume_last_run'], words_of('whole')
  process = start(sys.executable, '-c', COMMANDS, json.dumps(both))
  assert process.wait() == 0
  resets = [e for e in read_events(whole / CYCLES) if e['event'] == 'reset']
  assert [e['global_step'] for e in resets] == ['42', '84']
  assert 0 < float(resets[0]['tau']) <= 1
  for name in ('schedule_params.json', 'lr_schedule.png', 'metric.png'):
    assert (whole / name).stat().st_size > 0
  assert_same(killed, whole)
