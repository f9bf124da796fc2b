"""The console script: files of a run, bad input, resuming, help."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import jax
import pytest
from absl import flags

from helpers.fakes import FakeWorkload, write_submission
from helpers.run_files import (
  TRIAL,
  assert_same_run,
  python_path,
  read_csv,
  read_json,
  run,
  snapshot,
)
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import (
  RunOptions,
  checkpoints,
  experiment,
  experiment_folder,
  targets,
  workloads,
)

pytestmark = pytest.mark.usefixtures('fake_workload')


# Files.


def test_files_of_a_run():
  assert run() == 0
  names = sorted(path.name for path in TRIAL.iterdir())
  assert names == [
    'checkpoint_12',
    'eval_measurements.csv',
    'flags_0.json',
    'measurements.csv',
    'meta_data_0.json',
    'metric.png',
  ]
  assert (TRIAL / 'metric.png').read_bytes().startswith(b'\x89PNG')


def test_columns_of_the_evaluations():
  run()
  rows = read_csv('eval_measurements.csv')
  assert [row['global_step'] for row in rows] == ['1', '5', '10', '12']
  assert list(rows[0]) == [
    'accumulated_eval_time',
    'accumulated_logging_time',
    'accumulated_submission_time',
    'global_step',
    'preemption_count',
    'score',
    'test/accuracy',
    'test/loss',
    'test/num_examples',
    'total_duration',
    'train/accuracy',
    'train/loss',
    'validation/accuracy',
    'validation/loss',
    'validation/num_examples',
  ]
  assert rows[1]['validation/accuracy'] == '0.005'
  assert rows[1]['score'] == rows[1]['accumulated_submission_time']


def test_measurements_end_with_the_score():
  run()
  rows = read_csv('measurements.csv')
  assert [row['global_step'] for row in rows] == ['1', '5', '10', '12', '12']
  given = {name for name, value in rows[-1].items() if value}
  assert given == {'global_step', 'preemption_count', 'score'}


def test_what_the_submission_logs_is_in_the_measurements(monkeypatch):
  class Logging(FakeWorkload):
    def eval_model(self, *args):
      self.metrics_logger.append_scalar_metrics({'extra': 1.5}, args[-1])
      return super().eval_model(*args)

  monkeypatch.setitem(workloads.WORKLOADS, 'fake', Logging)
  assert run('--max_global_steps=1') == 0
  rows = read_csv('measurements.csv')
  assert rows[0]['extra'] == '1.5'
  assert rows[0]['preemption_count'] == ''
  assert rows[1]['extra'] == ''
  assert 'extra' not in read_csv('eval_measurements.csv')[0]


def test_meta_data_and_flags():
  run('--generation=pmap')
  meta = read_json('meta_data_0.json')
  assert meta['rng_seed'] == 3
  assert meta['workload.step_hint'] == 30
  assert meta['workload.target_metric_name'] == 'accuracy'
  assert {'jax_version', 'device_kind', 'device_count'} < set(meta)
  values = read_json('flags_0.json')
  assert values['generation'] == 'pmap'
  assert values['experiment_name'] == 'fake'
  assert values['tuning_ruleset'] == 'self'


def test_closing_summary_and_lines(capsys):
  run()
  captured = capsys.readouterr()
  assert [line.split(':')[0] for line in captured.err.splitlines()] == [
    'step 1',
    'step 5',
    'step 10',
    'step 12',
  ]
  assert 'accuracy 0.005' in captured.err
  assert captured.out.startswith('fake: 12 steps in ')
  assert 'validation/accuracy 0.8 not reached' in captured.out
  assert 'best 0.012 at step 12, last 0.012' in captured.out
  assert str(TRIAL) in captured.out


def test_summary_says_when_the_target_was_reached(capsys, monkeypatch):
  monkeypatch.setattr(FakeWorkload, 'validation_target_value', 0.0045)
  run()
  out = capsys.readouterr().out
  assert 'validation/accuracy 0.0045 reached at step 5 after ' in out


def test_nothing_is_written_with_nosave_checkpoints():
  assert run('--nosave_checkpoints') == 0
  assert checkpoints.checkpoint_paths(TRIAL) == []


def test_all_checkpoints_are_kept_on_demand():
  run('--save_intermediate_checkpoints')
  names = [path.name for path in checkpoints.checkpoint_paths(TRIAL)]
  assert names == [f'checkpoint_{step}' for step in (12, 10, 5, 1)]


def test_two_trials_of_the_external_ruleset(capsys):
  space = [{'dropout_rate': 0.1}, {'dropout_rate': 0.2}]
  pathlib.Path('space.json').write_text(json.dumps(space))
  external = ('--tuning_ruleset=external', '--tuning_search_space=space.json')
  assert run(*external, '--num_tuning_trials=2') == 0
  folders = [TRIAL, TRIAL.with_name('trial_2')]
  points = [read_json('hparams.json', folder) for folder in folders]
  assert points[0] != points[1]
  for folder in folders:
    assert len(read_csv('eval_measurements.csv', folder)) == 4
    assert (folder / 'metric.png').exists()
  assert capsys.readouterr().out.count('12 steps') == 2


def test_evaluation_every_n_steps_and_by_time():
  assert run('--eval_every=4') == 0
  steps = [row['global_step'] for row in read_csv('eval_measurements.csv')]
  assert steps == ['1', '4', '8', '12']
  # The real clock: twelve steps take less than the period of four seconds.
  assert run('--eval_by=time', '--overwrite') == 0
  steps = [row['global_step'] for row in read_csv('eval_measurements.csv')]
  assert steps == ['1', '12']


# Existing folders.


def test_an_existing_experiment_is_not_touched(capsys):
  run()
  before = snapshot(pathlib.Path('runs'))
  capsys.readouterr()
  assert run() == 2
  assert one_error(capsys).startswith('soft-reset: error: experiment folder ')
  assert snapshot(pathlib.Path('runs')) == before


def test_overwrite_replaces_the_experiment():
  run()
  (TRIAL / 'old').touch()
  assert run('--overwrite', '--max_global_steps=6') == 0
  assert not (TRIAL / 'old').exists()
  assert len(read_csv('eval_measurements.csv')) == 3
  assert [path.name for path in TRIAL.parent.parent.iterdir()] == ['fake_jax']


def refuse(*args):
  raise ValueError('switch_lam=2 must be at most 1')


def test_a_failing_set_up_leaves_the_old_run_in_place(monkeypatch, capsys):
  run()
  before = snapshot(pathlib.Path('runs'))
  monkeypatch.setattr(FakeWorkload, 'init_model_fn', refuse)
  capsys.readouterr()
  assert run('--overwrite') == 2
  assert one_error(capsys) == (
    'soft-reset: error: switch_lam=2 must be at most 1'
  )
  assert snapshot(pathlib.Path('runs')) == before


def test_a_failing_set_up_leaves_no_folder(monkeypatch):
  monkeypatch.setattr(FakeWorkload, 'num_train_examples', 0)
  monkeypatch.setattr(
    FakeWorkload,
    'init_model_fn',
    lambda *_: (_ for _ in ()).throw(OSError('x')),
  )
  assert run() == 2
  assert not pathlib.Path('runs').exists()


def test_an_empty_folder_may_be_used():
  TRIAL.parent.mkdir(parents=True)
  assert run() == 0


def test_claim_keeps_an_empty_folder_when_the_set_up_fails(tmp_path):
  folder = tmp_path / 'a' / 'b'
  folder.mkdir(parents=True)
  with pytest.raises(OSError), experiment_folder.claim(folder, False, False):
    (folder / 'file').touch()
    raise OSError
  assert list(folder.iterdir()) == []


# Bad input: one line, exit 2, nothing written.


def one_error(capsys):
  """The one line on stderr."""
  captured = capsys.readouterr()
  (line,) = captured.err.splitlines()
  assert captured.out == ''
  assert line.startswith('soft-reset: error: ')
  return line


SEARCH = '--tuning_search_space=space.json'


@pytest.mark.parametrize(
  'arguments, message',
  [
    (['--workload='], "'' is unknown"),
    (['--workload=nothing'], "'nothing' is unknown; use one of"),
    (['--generation=tpu'], "'--generation': 'tpu' is not one of"),
    (['--framework=pytorch'], "'--framework': 'pytorch' is not 'jax'"),
    (['--no_such_flag'], "No such option '--no_such_flag'"),
    (['digits'], 'unexpected extra argument (digits)'),
    (['--max_global_steps=0'], "'--max_global_steps': 0 is not in"),
    (['--max_global_steps=many'], "'--max_global_steps': 'many' is not"),
    (['--eval_every=0'], "'--eval_every': 0 is not in the range"),
    (['--eval_every=5', '--eval_by=time'], '--eval_every=5'),
    (['--rng_seed=-1'], "'--rng_seed': -1 is not in the range 0<=x"),
    (['--num_tuning_trials=0'], "'--num_tuning_trials': 0 is not in"),
    (['--overwrite', '--resume_last_run'], 'contradict each other'),
    ([SEARCH], 'space.json needs --tuning_ruleset=external'),
    (['--tuning_ruleset=external'], 'needs a JSON file'),
    (['--tuning_ruleset=external', SEARCH], 'space.json: there is no such'),
    (['--submission_path=no.py'], 'no.py: there is no such file'),
    (['--submission_path=text.txt'], 'must be a Python file'),
    (['--submission_path=alone/submission.py'], 'no __init__.py'),
    (['--submission_path=part/submission.py'], 'update_params, data_selection'),
    (['--submission_path=needy/submission.py'], "No module named 'not_there'"),
    (['--experiment_dir=text.txt'], 'text.txt'),
  ],
)
def test_bad_input(arguments, message, capsys):
  pathlib.Path('text.txt').write_text('')
  pathlib.Path('alone').mkdir()
  pathlib.Path('alone', 'submission.py').write_text('')
  write_submission(
    pathlib.Path('part'), functions=['init_optimizer_state', 'get_batch_size']
  )
  needy = pathlib.Path(write_submission(pathlib.Path('needy')))
  needy.write_text('import not_there\n')
  before = snapshot(pathlib.Path())
  assert run(*arguments) == 2
  assert message in one_error(capsys)
  after = snapshot(pathlib.Path())
  assert {p for p in after if p.parts[0] == 'runs'} == set()
  assert {path: after[path] for path in before} == before


@pytest.mark.parametrize('text', ['{', '[]', '{"a": 1}'])
def test_bad_search_space(text, capsys):
  pathlib.Path('space.json').write_text(text)
  assert run('--tuning_ruleset=external', SEARCH) == 2
  assert 'space.json' in one_error(capsys)


@pytest.mark.parametrize('arguments', [['run'], ['set-targets']])
def test_no_workload(arguments, capsys):
  assert cli.main(arguments) == 2
  line = one_error(capsys)
  assert "Missing option '--workload'" in line


def test_no_such_command(capsys):
  assert cli.main(['train']) == 2
  assert "No such command 'train'" in one_error(capsys)


@pytest.mark.parametrize('attribute', ['default_batch_size', 'eval_batch_size'])
@pytest.mark.parametrize('size', [0, 12])
def test_batch_size_must_divide_by_the_devices(
  attribute, size, monkeypatch, capsys
):
  monkeypatch.setattr(FakeWorkload, attribute, size)
  monkeypatch.setattr(jax, 'local_device_count', lambda: 8)
  assert run() == 2
  line = one_error(capsys)
  assert f'={size} must be a positive multiple of the number of devices' in line


def test_a_bug_in_a_training_step_keeps_its_traceback():
  with pytest.raises(ValueError, match='a bug'):
    run(submission='fail_at=3')


# Resuming.


@pytest.fixture
def ctrl_c():
  """As in a terminal: shells have background processes ignore it."""
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  yield
  signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures('ctrl_c')
def test_ctrl_c_and_resuming(capsys):
  assert run(submission='press_at=[7]') == 130
  # The step in which it was pressed is finished.
  assert capsys.readouterr().err.splitlines()[2:] == [
    'soft-reset: interrupted at step 8; --resume_last_run resumes from the '
    'last checkpoint.'
  ]
  assert (TRIAL / 'metric.png').exists()
  assert run('--resume_last_run') == 0
  assert read_json('flags_1.json')['resume_last_run'] is True
  assert (TRIAL / 'meta_data_1.json').exists()
  run('--experiment_name=whole')
  assert_same_run(TRIAL, pathlib.Path('runs', 'whole', *TRIAL.parts[2:]))


@pytest.mark.usefixtures('ctrl_c')
def test_a_second_ctrl_c_does_not_wait_for_the_end_of_the_step(capsys):
  handler = signal.getsignal(signal.SIGINT)
  assert run(submission='press_at=[7, 7]') == 130
  assert 'interrupted at step 7; ' in capsys.readouterr().err
  assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures('ctrl_c')
def test_ctrl_c_during_the_set_up_leaves_nothing(monkeypatch, capsys):
  def press(self, *args):
    signal.raise_signal(signal.SIGINT)
    return init_model_fn(self, *args)

  init_model_fn = FakeWorkload.init_model_fn
  monkeypatch.setattr(FakeWorkload, 'init_model_fn', press)
  assert run() == 130
  assert capsys.readouterr().err == 'soft-reset: interrupted.\n'
  assert not pathlib.Path('runs').exists()


@pytest.mark.parametrize('generation', ['jit', 'pmap'])
def test_a_killed_process_and_resuming(generation):
  flag = f'--generation={generation}'
  path = write_submission(pathlib.Path('killed'), 'kill_at=8')
  killed = subprocess.run(
    [
      sys.executable,
      '-c',
      'import sys; from helpers import fakes; sys.exit(fakes.main())',
      'run',
      '--workload=fake',
      f'--submission_path={path}',
      '--experiment_dir=runs',
      # No seed: the one that was drawn is in meta_data_0.json.
      flag,
    ],
    env={**os.environ, 'PYTHONPATH': python_path()},
    capture_output=True,
    check=False,
  )
  assert killed.returncode == -signal.SIGKILL, killed.stderr
  seed = read_json('meta_data_0.json')['rng_seed']
  fine = write_submission(pathlib.Path('fine'))
  resumed = [
    'run',
    '--workload=fake',
    f'--submission_path={fine}',
    '--experiment_dir=runs',
    '--max_global_steps=12',
    flag,
  ]
  assert cli.main([*resumed, '--resume_last_run']) == 0
  assert read_json('meta_data_1.json')['rng_seed'] == seed
  whole = [*resumed, '--experiment_name=whole', f'--rng_seed={seed}']
  assert cli.main(whole) == 0
  assert_same_run(TRIAL, pathlib.Path('runs', 'whole', *TRIAL.parts[2:]))


def test_rows_after_the_checkpoint_are_written_once():
  # Killed after the evaluation was logged and before its checkpoint was there.
  def killed(*args):
    raise KeyboardInterrupt

  with pytest.MonkeyPatch.context() as patch:
    save = checkpoints.save
    patch.setattr(
      checkpoints,
      'save',
      lambda *a: killed() if a[1]['global_step'] == 10 else save(*a),
    )
    assert run() == 130
  assert len(read_csv('eval_measurements.csv')) == 3
  assert run('--resume_last_run') == 0
  steps = [row['global_step'] for row in read_csv('eval_measurements.csv')]
  assert steps == ['1', '5', '10', '12']


def test_resuming_before_the_first_checkpoint_starts_again():
  assert run(submission='interrupt_at=0') == 130
  assert run('--resume_last_run') == 0
  assert [row['preemption_count'] for row in read_csv('measurements.csv')] == (
    ['0'] * 5
  )


def test_resuming_what_does_not_exist_starts_it():
  assert run('--resume_last_run') == 0


def test_a_complete_run_is_left_alone(capsys):
  run()
  before = snapshot(TRIAL)
  capsys.readouterr()
  assert run('--resume_last_run') == 0
  captured = capsys.readouterr()
  assert captured.err == ''
  (line,) = captured.out.splitlines()
  assert 'is complete' in line
  assert snapshot(TRIAL) == before


def test_another_seed_is_refused_when_resuming(capsys):
  run(submission='interrupt_at=7')
  capsys.readouterr()
  assert run('--resume_last_run', '--rng_seed=4') == 2
  assert '--rng_seed=4: the run to resume was started with 3' in (
    one_error(capsys)
  )


def test_resumed_hyperparameters_are_those_of_the_first_run():
  pathlib.Path('space.json').write_text('[{"dropout_rate": 0.1}]')
  external = ('--tuning_ruleset=external', SEARCH)
  assert run(*external, submission='interrupt_at=7') == 130
  pathlib.Path('space.json').write_text('[{"dropout_rate": 0.9}]')
  assert run(*external, '--resume_last_run') == 0
  assert read_json('hparams.json') == {'dropout_rate': 0.1}


# The interface.


def test_flags_are_gone_after_a_run():
  was_parsed = flags.FLAGS.is_parsed()
  names = set(flags.FLAGS)
  run()
  assert set(flags.FLAGS) == names
  assert flags.FLAGS.is_parsed() == was_parsed


def test_flags_that_are_defined_already_keep_their_value():
  values = flags.FLAGS
  flags.DEFINE_string('experiment_dir', None, 'as in the benchmark')
  options = RunOptions('digits', rng_seed=5)
  try:
    with experiment.flags_published(options):
      assert values.experiment_dir == 'experiment_runs'
      assert values.experiment_name == 'digits'
      assert values.rng_seed == 5
    assert values['experiment_dir'].value is None
    assert 'rng_seed' not in values
  finally:
    delattr(values, 'experiment_dir')


def test_set_targets_hands_its_flags_on(monkeypatch, capsys):
  calls = []

  def set_targets(search):
    calls.append(search)
    return {'metric': 'm', 'validation_target': 0.5, 'test_target': 0.25}

  monkeypatch.setattr(targets, 'set_targets', set_targets)
  arguments = [
    '--workload=digits',
    '--num_trials=7',
    '--num_seeds=3',
    '--num_steps=4',
    '--data_dir=~/data',
    '--output=targets.json',
  ]
  assert cli.main(['set-targets', *arguments]) == 0
  ((workload, *rest),) = calls
  assert workload.name == 'digits'
  assert rest[:3] == [7, 3, 4]
  assert rest[3] == str(pathlib.Path.home() / 'data')
  assert rest[4] == pathlib.Path('targets.json')
  assert capsys.readouterr().out == (
    'm: validation target 0.5, test target 0.25\n'
  )
