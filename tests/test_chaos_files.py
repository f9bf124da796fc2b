"""Killed between any two writes, and full disks: nothing is lost."""

from __future__ import annotations

import os
import pathlib
import shutil

import jax
import numpy as np
import pytest

from helpers.disk import Disk, full_at, keeping
from helpers.fitting import FittingWorkload, write_fitting_submission
from helpers.run_files import assert_same_run
from reset_cycles.cli import main as cli
from reset_cycles.core.records import CYCLES, read_events
from reset_cycles.mini_algoperf import workloads

TIMES = int(os.environ.get('CHAOS', '1'))
TRIAL = pathlib.Path('fitting_jax', 'trial_1')
repeats_exactly = pytest.mark.skipif(
  jax.__version_info__ < (0, 5),
  reason='sums over several CPU devices come in no fixed order',
)


@pytest.fixture(scope='session')
def disk():
  return Disk()


@pytest.fixture
def train(fake_workload, monkeypatch):
  """train(name, *flags): the exit status of a run in runs/name."""
  monkeypatch.setitem(workloads.WORKLOADS, 'fitting', FittingWorkload)
  path = write_fitting_submission(pathlib.Path('ours'))

  def run(name, *flags):
    words = [
      *('run', '--workload=fitting', f'--submission_path={path}'),
      *('--experiment_dir=runs', f'--experiment_name={name}', '--rng_seed=3'),
      *('--max_global_steps=12', '--nostop_at_targets'),
    ]
    return cli.main([*words, *flags])

  return run


def some(count, of):
  """Numbers from 0 on, evenly spread; all in `make chaos`."""
  if TIMES > 1:
    return range(of)
  return sorted({int(i) for i in np.linspace(0, of - 1, count)})


def assert_same(name, other='whole'):
  trials = [pathlib.Path('runs', n) / TRIAL for n in (name, other)]
  events, others = (read_events(trial / CYCLES) for trial in trials)
  assert events == others
  # measurements.csv also has the training loss of the step before each event;
  # a resumed run has not taken that step.
  assert_same_run(*trials, ['eval_measurements.csv'])
  left = [p.name for p in trials[0].iterdir()]
  assert not [n for n in left if n.endswith('.tmp') and 'killed' not in name]


@repeats_exactly
def test_killed_between_any_two_writes(train, disk, tmp_path):
  """What lies on the disk then is enough for a run to go on as if not."""
  runs, states = pathlib.Path('runs').absolute(), tmp_path / 'states'
  runs.mkdir()
  with disk.watched(runs, keeping(runs, states)) as seen:
    assert train('whole') == 0
  assert seen.calls > 40
  for number in some(3, of=seen.calls):
    state = states / str(number) / 'whole'
    if state.exists():
      shutil.copytree(state, runs / f'killed_{number}')
    assert train(f'killed_{number}', '--resume_last_run') == 0
    assert_same(f'killed_{number}')


@repeats_exactly
def test_a_write_that_fails(train, disk, capsys):
  """A full disk ends the run or costs a file; with room again it goes on."""
  runs = pathlib.Path('runs').absolute()
  runs.mkdir()
  with disk.watched(runs) as seen:
    assert train('whole') == 0
  for number in some(2, of=seen.calls):
    name = f'full_{number}'
    with disk.watched(runs, full_at(number)):
      status = train(name)
    assert status in (0, 2)
    assert (status == 0) == ('error: ' not in capsys.readouterr().err)
    assert train(name, '--resume_last_run') == 0
    assert_same_run(
      runs / name / TRIAL, runs / 'whole' / TRIAL, ['eval_measurements.csv']
    )
