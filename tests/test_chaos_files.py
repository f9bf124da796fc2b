"""Killed between any two writes, full disks, damaged files: nothing is lost."""

from __future__ import annotations

import errno
import pathlib
import shutil

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st

from disk import Disk, failing, keeping
from fitting import FittingWorkload, write_fitting_submission
from reset_cycles.cli import main as cli
from reset_cycles.control.state import Target
from reset_cycles.mini_algoperf import checkpoints, workloads
from reset_cycles.training.events import EventLog, read_events
from reset_cycles.training.workload import logged_evaluations
from run_files import assert_same_run
from test_chaos import TIMES, examples

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
    return cli.main(
      [
        'run',
        '--workload=fitting',
        f'--submission_path={path}',
        '--experiment_dir=runs',
        f'--experiment_name={name}',
        '--rng_seed=3',
        '--max_global_steps=12',
        '--nostop_at_targets',
        *flags,
      ]
    )

  return run


def some(count, of):
  """Numbers from 0 on, evenly spread; all in `make chaos`."""
  if TIMES > 1:
    return range(of)
  return sorted({int(i) for i in np.linspace(0, of - 1, count)})


def assert_same(name, other='whole'):
  trials = [pathlib.Path('runs', n) / TRIAL for n in (name, other)]
  assert read_events(trials[0]) == read_events(trials[1])
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
  for number in some(4, of=seen.calls):
    state = states / str(number) / 'whole'
    if state.exists():
      shutil.copytree(state, runs / f'killed_{number}')
    assert train(f'killed_{number}', '--resume_last_run') == 0
    assert_same(f'killed_{number}')


@repeats_exactly
@pytest.mark.parametrize('code', [errno.ENOSPC, errno.EACCES])
def test_a_write_that_fails(code, train, disk, capsys):
  """A full disk ends the run or costs a file; with room again it goes on."""
  runs = pathlib.Path('runs').absolute()
  runs.mkdir()
  with disk.watched(runs) as seen:
    assert train('whole') == 0
  for number in some(2, of=seen.calls):
    name = f'full_{number}'
    with disk.watched(runs, failing({number}, code)):
      status = train(name)
    assert status in (0, 2)
    assert (status == 0) == ('error: ' not in capsys.readouterr().err)
    assert train(name, '--resume_last_run') == 0
    assert_same_run(
      runs / name / TRIAL, runs / 'whole' / TRIAL, ['eval_measurements.csv']
    )


# Damages to what is on the disk already.

ROWS = [
  (step, {'event': 'clock', 'cycle': 1, 'pace': 1 / (step + 3)})
  for step in range(7)
]


def log_of(folder, rows):
  log = EventLog(folder)
  log.keep_before(0)
  for step, row in rows:
    log.append([row], step)
  return (folder / 'cycles.csv').read_bytes()


@examples(40)
@hypothesis.given(share=st.floats(0, 1), step=st.integers(0, 6))
def test_a_log_that_was_cut_off_keeps_its_whole_lines(tmp_path, share, step):
  """And the resumed run's lines are not glued to half of one."""
  content = log_of(tmp_path, ROWS)
  kept = content[: int(share * len(content))]
  (tmp_path / 'cycles.csv').write_bytes(kept)
  whole = max(kept.count(b'\n') - 1, 0)
  log = EventLog(tmp_path)
  log.keep_before(step)
  for at, row in ROWS[step:]:
    log.append([row], at)
  steps = [int(row['global_step']) for row in read_events(tmp_path)]
  assert steps == [*range(min(whole, step)), *range(step, 7)]


@examples(40)
@hypothesis.given(share=st.floats(0, 1))
def test_evaluations_of_a_log_that_was_cut_off(tmp_path, share):
  """None of them is half a number."""
  lines = ['global_step,validation/accuracy,validation/loss']
  lines += [f'{s},{s / 7},{1 / (s + 1)}' for s in range(1, 9)]
  content = '\n'.join([*lines, '']).encode()
  cut = content[: int(share * len(content))]
  (tmp_path / 'eval_measurements.csv').write_bytes(cut)
  target = Target('validation/accuracy', 0.8, True)
  found = logged_evaluations(tmp_path, -1, 100, target)
  whole = max(cut.count(b'\n') - 1, 0)
  assert [e.step for e in found] == list(range(1, whole + 1))
  assert [e.metric for e in found] == [s / 7 for s in range(1, whole + 1)]


@pytest.fixture(scope='module')
def checkpoint():
  state = {
    'model_params': {'w': np.linspace(0, 1, 50, dtype=np.float32)},
    'eval_results': {'0': {'0': 1, '1': {'validation/loss': 0.5}}},
    'global_step': 7,
  }
  return checkpoints.to_bytes(state)


@examples(150)
@hypothesis.given(data=st.data())
def test_a_damaged_checkpoint_is_never_taken_for_a_whole_one(
  tmp_path, checkpoint, data
):
  where = data.draw(st.integers(0, len(checkpoint) - 1))
  damaged = data.draw(
    st.sampled_from(['cut', 'flipped', 'filled with zeros', 'longer'])
  )
  content = {
    'cut': checkpoint[:where],
    'flipped': checkpoint[:where]
    + bytes([checkpoint[where] ^ data.draw(st.integers(1, 255))])
    + checkpoint[where + 1 :],
    'filled with zeros': checkpoint[:where] + bytes(len(checkpoint) - where),
    'longer': checkpoint + b'\0',
  }[damaged]
  path = tmp_path / 'checkpoint_7'
  path.write_bytes(content)
  if content == checkpoint:
    return
  with pytest.raises(ValueError, match='checkpoint_7 is damaged'):
    checkpoints.read(path)


class BackwardClock:
  """Seconds that pass, and now and then are set back by an hour."""

  def __init__(self):
    self.now = 1e6

  def __call__(self):
    self.now += 0.5 if int(self.now * 2) % 7 else -3600.0
    return self.now


@repeats_exactly
def test_a_clock_that_goes_backwards(train, monkeypatch):
  """Evaluations by step: the run is the same, whatever its times are."""
  assert train('whole') == 0
  monkeypatch.setattr('time.time', BackwardClock())
  assert train('backwards') == 0
  monkeypatch.undo()
  trials = [pathlib.Path('runs', n) / TRIAL for n in ('backwards', 'whole')]
  assert read_events(trials[0]) == read_events(trials[1])
