"""Which runs can be gone on with, and what happens to the others."""

import pathlib
import signal

import numpy as np
import pytest

from helpers.fakes import write_submission
from helpers.run_files import (
  TRIAL,
  WHOLE,
  assert_same_run,
  evaluated_steps,
  python,
  read_csv,
  read_json,
  run,
  snapshot,
)
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import checkpoints

pytestmark = pytest.mark.usefixtures('fake_workload')


def refused(capsys, message, *flags):
  """Resuming is refused with this message, and nothing is touched."""
  before = snapshot(pathlib.Path('runs'))
  assert run('--resume_last_run', *flags) == 2
  assert message in capsys.readouterr().err
  assert snapshot(pathlib.Path('runs')) == before


def interrupt(*flags):
  """A run of 12 steps that ends in its step 11, after a checkpoint at 10."""
  assert run(*flags, submission='interrupt_at=11') == 130


def flip_a_bit(path):
  content = path.read_bytes()
  middle = len(content) // 2
  changed = bytes([content[middle] ^ 1])
  path.write_bytes(content[:middle] + changed + content[middle + 1 :])


META, FLAGS = 'meta_data_0.json', 'flags_0.json'


@pytest.mark.parametrize(
  ('begun', 'change', 'resumed', 'message'),
  [
    ([], None, ['--generation=pmap'], 'was started with jit; give that'),
    (
      [],
      None,
      ['--rng_seed=4'],
      'rng_seed=4: the run to resume was started wi',
    ),
    ([], None, ['--eval_every=4'], 'was started without; leave it out'),
    (['--eval_every=4'], None, [], '--eval_every: the run to resume was start'),
    ([], None, ['--eval_by=time'], 'was started with steps; give that'),
    ([], None, ['--eval_splits=validation'], 'was started with all; give that'),
    (['--nosave_checkpoints'], None, [], 'has no checkpoint; --overwrite inst'),
    ([], ('checkpoint_10', flip_a_bit), [], 'checkpoint_10 is damaged'),
    ([], (META, '{}'), [], META),
    ([], (META, '{"rng_seed'), [], META),
    ([], (META, '5'), [], f'{META} must hold an object'),
    ([], (META, '{"rng_seed": null}'), [], f'{META}: rng_seed=None must'),
    ([], (META, '{"rng_seed": "abc"}'), [], f"{META}: rng_seed='abc' must"),
    ([], (FLAGS, '[]'), [], f'{FLAGS} must hold an object'),
  ],
  ids=[
    *('generation', 'seed', 'eval_every', 'no_eval_every', 'eval_by'),
    *('eval_splits', 'none', 'checkpoint', 'no_seed', 'torn', 'number'),
    *('null', 'text', 'list'),
  ],
)
def test_a_run_that_cannot_be_gone_on_with(
  begun, change, resumed, message, capsys
):
  """Of another kind, or with a file that is not as it was."""
  interrupt(*begun)
  if change:
    name, content = change
    path = TRIAL / name
    content(path) if callable(content) else path.write_text(content)
  refused(capsys, message, *resumed)


def test_the_seed_outlives_the_meta_data():
  interrupt()
  (TRIAL / 'meta_data_0.json').unlink()
  path = write_submission(pathlib.Path('plain'))
  flags = ['--workload=fake', f'--submission_path={path}', '--resume_last_run']
  flags += ['--experiment_dir=runs', '--max_global_steps=12']
  assert cli.main(['run', *flags]) == 0  # without a seed
  # What reads a run's folder finds it again.
  assert read_json('meta_data_0.json')['rng_seed'] == 3
  assert read_json('meta_data_1.json')['rng_seed'] == 3
  run('--experiment_name=whole')
  assert_same_run(TRIAL, WHOLE)


@pytest.mark.parametrize('steps', [7, 10])
def test_a_limit_that_was_passed_already(steps, capsys):
  interrupt()
  before = snapshot(TRIAL)
  capsys.readouterr()
  assert run('--resume_last_run', f'--max_global_steps={steps}') == 0
  captured = capsys.readouterr()
  (line,) = captured.out.splitlines()
  assert (captured.err, 'this run is complete' in line) == ('', True)
  assert snapshot(TRIAL) == before


def test_a_higher_limit_goes_on():
  """The evaluation at the end of the first process stays."""
  assert run() == 0
  assert run('--resume_last_run', '--max_global_steps=20') == 0
  assert evaluated_steps() == [1, 5, 10, 12, 15, 20]
  steps = [row['global_step'] for row in read_csv('measurements.csv')]
  assert steps == ['1', '5', '10', '12', '12', '15', '20', '20']
  run('--experiment_name=whole', '--max_global_steps=20')
  ends = [checkpoints.read_latest(folder) for folder in (TRIAL, WHOLE)]
  np.testing.assert_array_equal(*(end['model_params']['w'] for end in ends))


def test_a_set_up_that_fails_puts_the_files_back(capsys):
  """What the submission has written by then, too."""
  path = write_submission(pathlib.Path('writing'))
  with open(path, 'a') as file:
    file.write(
      'import pathlib\n\ndef init_optimizer_state(*args):\n'
      f'  folder = pathlib.Path({str(TRIAL)!r})\n'
      '  (folder / "flags_0.json").write_text("{}")\n'
      '  (folder / "metric.png").unlink()\n'
      '  (folder / "new.txt").touch()\n'
      '  return {}, None  # without its momentum\n'
    )
  interrupt()
  refused(
    capsys, 'optimizer_state has other entries', f'--submission_path={path}'
  )


def test_without_a_checkpoint_the_run_begins_anew(capsys):
  assert run('--resume_last_run') == 0
  said = 'runs/fake/fake_jax/trial_1 has no checkpoint: the run begins anew.'
  assert said in capsys.readouterr().err


def test_an_overwriting_run_that_was_killed_in_its_set_up(capsys):
  """After the older run was moved aside; it comes back."""
  assert run() == 0
  before = snapshot(pathlib.Path('runs'))
  path = write_submission(pathlib.Path('dying'))
  with open(path, 'a') as file:
    file.write(
      'import os\n\ndef init_optimizer_state(*_): os.kill(os.getpid(), 9)\n'
    )
  code = 'import sys; from helpers import fakes; sys.exit(fakes.main())'
  flags = ['--workload=fake', f'--submission_path={path}', '--overwrite']
  flags += ['--experiment_dir=runs']
  python(code, 'run', *flags, status=-signal.SIGKILL)
  assert run('--rng_seed=4') == 2  # the older run is there again, and stays
  assert 'exists: use another --experiment_name' in capsys.readouterr().err
  assert snapshot(pathlib.Path('runs')) == before
