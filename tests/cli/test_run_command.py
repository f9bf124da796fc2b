"""Every flag of `soft-reset run` arrives where it belongs."""

from __future__ import annotations

import errno
import itertools
import os
import pathlib

import jax
import pytest

from helpers.fakes import (
  BATCH_SIZE,
  FakeWorkload,
  write_submission,
)
from helpers.run_files import TRIAL, read_csv, read_json, run
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import experiment_folder, runner

pytestmark = pytest.mark.usefixtures('fake_workload')


@pytest.fixture
def trials(monkeypatch):
  """The trials that would have been trained."""
  seen = []
  monkeypatch.setattr(runner, 'train', lambda trial, *_: seen.append(trial))
  return seen


@pytest.mark.parametrize(
  ('flag', 'name', 'value'),
  [
    ('--max_global_steps=7', 'max_global_steps', 7),
    ('--eval_every=3', 'eval_every', 3),
    ('--eval_by=time', 'eval_by', 'time'),
    ('--nostop_at_targets', 'stop_at_targets', False),
    ('--stop_at_targets', 'stop_at_targets', True),
    ('--nosave_checkpoints', 'save_checkpoints', False),
    ('--save_intermediate_checkpoints', 'save_intermediate_checkpoints', True),
    ('--tuning_ruleset=self', 'tuning_ruleset', 'self'),
  ],
)
def test_a_setting(flag, name, value, trials):
  assert run(flag) == 0
  assert getattr(trials[0].options, name) == value


def test_the_folder_of_data(trials):
  assert run('--data_dir=~/x') == 0
  assert trials[0].data_dir == str(pathlib.Path.home() / 'x')


@pytest.mark.parametrize('generation', ['jit', 'pmap'])
def test_the_generation(generation, trials):
  assert run(f'--generation={generation}') == 0
  assert trials[0].workload.generation == generation
  assert trials[0].model_params['w'].ndim == {'jit': 1, 'pmap': 2}[generation]


def test_the_seed_and_the_key_of_either_ruleset(trials):
  assert run('--rng_seed=5') == 0
  space = '[{"learning_rate": 0.1}]'
  pathlib.Path('space.json').write_text(space)
  external = ('--tuning_ruleset=external', '--tuning_search_space=space.json')
  assert run('--rng_seed=5', '--experiment_name=other', *external) == 0
  key = jax.random.PRNGKey(5)
  # As the benchmark: under external the key is split once more; of what is left
  # the run takes the last of four.
  for trial, first in zip(trials, (key, jax.random.split(key)[0])):
    expected = jax.random.split(first, 4)[3]
    assert trial.rng.tolist() == expected.tolist()


def write_sizes(size, eval_size):
  path = pathlib.Path(write_submission(pathlib.Path('sizes')))
  text = path.read_text().replace(
    'get_batch_size = _fake.get_batch_size',
    f'def get_batch_size(name): return {size}',
  )
  path.write_text(
    f'{text}def get_eval_batch_size(name):\n  return {eval_size}\n'
  )
  return f'--submission_path={path}'


def test_the_submissions_batch_sizes(trials):
  assert run(write_sizes('{"fake": 16}[name]', 32)) == 0
  assert trials[0].sizes.training == 16
  assert trials[0].sizes.evaluation == 32


def test_an_unknown_name_gets_the_workloads_batch_sizes(trials):
  # ValueError is the API's way to say that it doesn't know the name.
  unknown = 'int("unknown")'
  assert run(write_sizes(unknown, unknown)) == 0
  assert trials[0].sizes.training == BATCH_SIZE
  assert trials[0].sizes.evaluation == BATCH_SIZE


@pytest.mark.parametrize('size', ['None', '8.0', '0', '12'])
def test_a_batch_size_that_is_none(size, capsys):
  assert run(write_sizes(size, 8)) == 2
  assert 'get_batch_size=' in capsys.readouterr().err


def test_two_processes_do_not_share_a_folder(capsys):
  folder = pathlib.Path('runs', 'fake', 'fake_jax').resolve()
  with experiment_folder.locked(folder):
    assert run() == 2
  assert 'is in use by another run' in capsys.readouterr().err
  assert not pathlib.Path('runs').exists()
  assert run() == 0


@pytest.mark.parametrize('name', ['../out', '/abs', 'a/../../b'])
def test_a_name_that_leads_out_of_the_folder(name, capsys):
  assert run(f'--experiment_name={name}') == 2
  assert '--experiment_name=' in capsys.readouterr().err


def test_trials_have_the_first_ones_seed():
  pathlib.Path('space.json').write_text('[{"x": 0.1}, {"x": 0.2}]')
  path = write_submission(pathlib.Path('plain'))
  flags = [
    '--workload=fake',
    f'--submission_path={path}',
    '--experiment_dir=runs',
    '--max_global_steps=2',
    '--tuning_ruleset=external',
    '--tuning_search_space=space.json',
    '--num_tuning_trials=2',
  ]
  assert cli.main(['run', *flags]) == 0  # no seed: one is drawn
  second = TRIAL.with_name('trial_2')
  seeds = [
    read_json('meta_data_0.json', folder)['rng_seed']
    for folder in (TRIAL, second)
  ]
  assert seeds[0] == seeds[1]
  points = [read_json('hparams.json', folder) for folder in (TRIAL, second)]
  assert points == [{'x': 0.1}, {'x': 0.2}]


def test_logging_takes_time_of_its_own():
  assert run() == 0
  times = [
    float(row['accumulated_logging_time'])
    for row in read_csv('eval_measurements.csv')
  ]
  assert times[0] == 0 < times[1] < times[2]


def test_which_splits_are_evaluated():
  assert run() == 0
  assert run('--eval_splits=validation', '--experiment_name=other') == 0
  other = pathlib.Path('runs', 'other', 'fake_jax', 'trial_1')
  rows, fewer = (
    read_csv('eval_measurements.csv', folder) for folder in (TRIAL, other)
  )
  split_of = [name.split('/')[0] for name in rows[0] if '/' in name]
  assert set(split_of) == {'train', 'validation', 'test'}
  assert {n.split('/')[0] for n in fewer[0] if '/' in n} == {'validation'}
  for row, less in zip(rows, fewer):
    assert less['validation/loss'] == row['validation/loss']
  assert len(fewer) == len(rows)


def test_no_trial_begins_before_all_points_are_checked(capsys):
  pathlib.Path('space.json').write_text('[{"beta2": 0.5}, {"beta2": 1.5}]')
  flags = [
    '--workload=fake',
    '--experiment_dir=runs',
    '--tuning_ruleset=external',
    '--tuning_search_space=space.json',
  ]
  assert cli.main(['run', *flags, '--num_tuning_trials=2']) == 2
  assert capsys.readouterr().err == (
    'soft-reset: error: --tuning_search_space=space.json: trial 2: beta2=1.5: '
    'beta2 must be a number in [0, 1).\n'
  )
  assert not pathlib.Path('runs').exists()


def test_data_that_end(capsys, monkeypatch):
  endless = FakeWorkload._build_input_queue

  def queue(*args, **settings):
    return itertools.islice(endless(*args, **settings), 7)

  monkeypatch.setattr(FakeWorkload, '_build_input_queue', queue)
  assert run() == 2
  assert capsys.readouterr().err.splitlines()[-1] == (
    'soft-reset: error: the training data ended after 7 batches: a workload must '
    'give them without end.'
  )


@pytest.mark.parametrize('name', ['checkpoint_5', 'eval_measurements.csv'])
def test_a_disk_that_is_full_in_mid_run(name, capsys):
  write_bytes = pathlib.Path.write_bytes

  def write(path, content):
    if path.name.startswith(f'.{name}.') and (TRIAL / 'checkpoint_1').exists():
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # names no file
    return write_bytes(path, content)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(pathlib.Path, 'write_bytes', write)
    assert run() == 2
  assert capsys.readouterr().err.splitlines()[-1] == (
    f'soft-reset: error: {(TRIAL / name).resolve()} cannot be written: No space '
    'left on device.'
  )
  # What was written stays, and is gone on with once there is space.
  assert run('--resume_last_run') == 0
  steps = [row['global_step'] for row in read_csv('eval_measurements.csv')]
  assert steps == ['1', '5', '10', '12']
