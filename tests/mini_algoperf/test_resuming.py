"""Which runs can be gone on with, and what happens to the others."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import flax
import pytest

from fakes import write_submission
from reset_cycles.mini_algoperf import checkpoints, experiment_folder
from run_files import TRIAL, python_path, read_csv, read_json, run, snapshot

pytestmark = pytest.mark.usefixtures('fake_workload')


def refused(capsys, message, *flags):
  """Whether resuming is refused with this message, and nothing is touched."""
  before = snapshot(pathlib.Path('runs'))
  assert run('--resume_last_run', *flags) == 2
  assert message in capsys.readouterr().err
  return snapshot(pathlib.Path('runs')) == before


def interrupt():
  """A run of 12 steps that ends in its step 11, after a checkpoint at 10."""
  assert run(submission='interrupt_at=11') == 130


def test_without_checkpoints_nothing_is_thrown_away(capsys):
  assert run('--nosave_checkpoints') == 0
  assert refused(capsys, 'has no checkpoint that can be read')


def test_a_damaged_checkpoint_costs_nothing_else(capsys):
  assert run() == 0
  path = TRIAL / 'checkpoint_12'
  path.write_bytes(path.read_bytes()[:-5])
  assert refused(capsys, 'has no checkpoint that can be read')


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (['--generation=pmap'], 'was started with jit; give that'),
    (
      ['--tuning_ruleset=external', '--tuning_search_space=space.json'],
      'was started with self; give that',
    ),
  ],
)
def test_a_run_of_another_kind(flags, message, capsys):
  pathlib.Path('space.json').write_text('[{"x": 1}]')
  interrupt()
  assert refused(capsys, message, *flags)


@pytest.mark.parametrize('content', ['{}', '{"rng_seed'])
def test_meta_data_that_cannot_be_used(content, capsys):
  interrupt()
  (TRIAL / 'meta_data_0.json').write_text(content)
  assert refused(capsys, 'meta_data_0.json')


@pytest.mark.parametrize('steps', [7, 10])
def test_a_limit_that_was_passed_already(steps, capsys):
  interrupt()
  assert run('--resume_last_run', f'--max_global_steps={steps}') == 0
  assert 'this run is complete' in capsys.readouterr().out
  assert read_csv('measurements.csv')[-1]['global_step'] == '10'


def test_the_books_go_on():
  """Times count on from the checkpoint, and what was reached stays reached."""
  interrupt()
  raw = checkpoints.read_latest(TRIAL)
  raw['train_state']['accumulated_submission_time'] = 1000.0
  raw['train_state']['validation_goal_reached'] = True
  path = TRIAL / 'checkpoint_10'
  path.write_bytes(flax.serialization.to_bytes(raw))
  assert run('--resume_last_run') == 0
  last = checkpoints.read_latest(TRIAL)['train_state']
  assert 1000 < last['accumulated_submission_time'] < 1100
  assert last['validation_goal_reached']


def kill_in_the_set_up():
  """An --overwrite that is killed after the older run was moved aside."""
  path = write_submission(pathlib.Path('dying'))
  text = pathlib.Path(path).read_text()
  dies = 'import os, signal\n\ndef init_optimizer_state(*unused):\n'
  dies += '  os.kill(os.getpid(), signal.SIGKILL)\n'
  pathlib.Path(path).write_text(text + dies)
  code = 'import sys, fakes; sys.exit(fakes.main())'
  flags = ['--workload=fake', f'--submission_path={path}', '--overwrite']
  killed = subprocess.run(
    [sys.executable, '-c', code, 'run', *flags, '--experiment_dir=runs'],
    env={**os.environ, 'PYTHONPATH': python_path()},
    capture_output=True,
    check=False,
  )
  assert killed.returncode == -signal.SIGKILL, killed.stderr


def test_an_overwriting_run_that_was_killed_in_its_set_up(capsys):
  assert run() == 0
  before = snapshot(pathlib.Path('runs'))
  kill_in_the_set_up()
  assert run('--rng_seed=4') == 2  # the older run is there again, and stays
  assert 'exists: use another --experiment_name' in capsys.readouterr().err
  assert snapshot(pathlib.Path('runs')) == before


def test_an_older_run_left_aside_after_a_set_up_goes():
  assert run() == 0
  before = snapshot(pathlib.Path('runs'))
  aside = experiment_folder._aside(TRIAL.parent)
  (aside / 'trial_1').mkdir(parents=True)
  (aside / 'trial_1' / 'stale').touch()
  assert run('--rng_seed=4') == 2  # the new run is not to be replaced
  assert not aside.exists()
  assert snapshot(pathlib.Path('runs')) == before


def test_a_later_trial_that_cannot_be_set_up_leaves_nothing(capsys):
  path = write_submission(pathlib.Path('picky'))
  text = (
    pathlib.Path(path)
    .read_text()
    .replace(
      'init_optimizer_state = _fake.init_optimizer_state',
      'def init_optimizer_state(workload, params, state, point, rng):\n'
      '  if point.x > 1: raise ValueError(f"x={point.x} is too large")\n'
      '  return _fake.init_optimizer_state(workload, params, state, point, rng)',
    )
  )
  pathlib.Path(path).write_text(text)
  external = [
    f'--submission_path={path}',
    '--tuning_ruleset=external',
    '--tuning_search_space=space.json',
    '--num_tuning_trials=2',
  ]
  space = pathlib.Path('space.json')
  space.write_text(json.dumps([{'x': 1}, {'x': 2}]))
  assert run(*external) == 2
  assert 'x=2 is too large' in capsys.readouterr().err
  second = TRIAL.with_name('trial_2')
  assert (TRIAL / 'checkpoint_12').exists()
  assert not second.exists()
  space.write_text(json.dumps([{'x': 1}, {'x': 0.5}]))
  assert run(*external, '--resume_last_run') == 0
  assert read_json('hparams.json', second) == {'x': 0.5}
