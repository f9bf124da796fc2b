"""`reset-cycles run` and `set-targets`: flags, files, ends, resuming."""

import dataclasses
import itertools
import json
import pathlib
import signal

import pytest
from absl import flags

from helpers.fakes import BATCH_SIZE, FakeWorkload, write_own, write_submission
from helpers.run_files import (
  TRIAL,
  WHOLE,
  assert_same_run,
  evaluated_steps,
  read_csv,
  read_json,
  run,
  snapshot,
)
from reset_cycles.any_optax.from_optax import FromOptax
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import (
  RunOptions,
  experiment,
  experiment_folder,
  files,
  runner,
  user_code,
)
from reset_cycles.mini_algoperf.trial import Trial
from reset_cycles.schedule_params import SCHEDULE_PARAMS, THESIS
from reset_cycles.views import paths

# What runs leave is compared with what other runs leave.
pytestmark = pytest.mark.usefixtures('fake_workload')


def one_error(capsys):
  """The one line on stderr."""
  captured = capsys.readouterr()
  (line,) = captured.err.splitlines()
  assert captured.out == ''
  return line.removeprefix('reset-cycles: error: ')


# Flags.


@pytest.fixture
def trials(monkeypatch):
  """The trials that would have been trained."""
  seen = []
  monkeypatch.setattr(runner, 'train', lambda trial, *_: seen.append(trial))
  return seen


@pytest.mark.parametrize(('generation', 'ndim'), [('jit', 1), ('pmap', 2)])
def test_the_generation(generation, ndim, trials):
  assert run(f'--generation={generation}') == 0
  assert trials[0].workload.generation == generation
  assert trials[0].model_params['w'].ndim == ndim
  assert read_json('flags_0.json')['generation'] == generation


def own(*flags):
  """Runs this project's own submission."""
  flags = ['--experiment_dir=runs', '--max_global_steps=12', *flags]
  return cli.main(['run', '--workload=fake', '--rng_seed=3', *flags])


def test_settings_by_name_and_from_a_file(trials):
  lion = {'class': 'FromOptax', 'name': 'lion'}
  values = {'optimizer': lion, 'relative_peak': None}
  pathlib.Path('lion.json').write_text(json.dumps(values))
  names = ('thesis', 'lion.json')
  for i, name in enumerate(names):
    assert own(f'--settings={name}', f'--experiment_name=run_{i}') == 0
  found = [trial.optimizer_state[1].config.settings for trial in trials]
  changes = {'optimizer': FromOptax('lion'), 'relative_peak': None}
  expected = dataclasses.replace(SCHEDULE_PARAMS, **changes)
  assert found == [THESIS, expected]


@pytest.mark.parametrize(
  ('flags', 'said'),
  (
    (('--settings=thesi',), '--settings=thesi: must be a .json file or one of'),
    (('--settings=none.json',), 'none.json'),
    (
      ('--settings=thesis', '--submission_path=mine/submission.py'),
      '--submission_path has settings: give no --settings.',
    ),
    (('--settings=pair.json',), "optimizer=FromOptax(name='lion'"),
  ),
  ids=('name', 'file', 'submission', 'pair'),
)
def test_settings_that_are_none(flags, said, trials, capsys):
  lion = {'optimizer': {'class': 'FromOptax', 'name': 'lion'}}
  pathlib.Path('pair.json').write_text(json.dumps(lion))
  write_submission(pathlib.Path('mine'))
  assert own(*flags) == 2
  assert said in one_error(capsys)
  assert trials == []


@pytest.mark.parametrize(
  ('size', 'eval_size', 'found'),
  [
    ('{"fake": 16}[name]', '32', (16, 32)),
    # ValueError is the API's way to say that it doesn't know the name.
    ('int("unknown")', 'int("unknown")', (BATCH_SIZE, BATCH_SIZE)),
  ],
)
def test_the_submissions_batch_sizes(size, eval_size, found, trials):
  path = pathlib.Path(write_submission(pathlib.Path('sizes')))
  path.write_text(
    f'{path.read_text()}\ndef get_batch_size(name): return {size}\n'
    f'def get_eval_batch_size(name): return {eval_size}\n'
  )
  assert run(f'--submission_path={path}') == 0
  sizes = trials[0].sizes
  assert (sizes.training, sizes.evaluation) == found


def test_options_are_absls_flags_during_a_run():
  values, was_parsed = flags.FLAGS, flags.FLAGS.is_parsed()
  flags.DEFINE_string('experiment_dir', None, 'as in the benchmark')
  names = set(values)
  try:
    with experiment.flags_published(RunOptions('digits', rng_seed=5)):
      assert values.experiment_dir == 'experiment_runs'
      assert (values.experiment_name, values.rng_seed) == ('digits', 5)
    assert run('--max_global_steps=1') == 0
    assert values['experiment_dir'].value is None
    assert (set(values), values.is_parsed()) == (names, was_parsed)
  finally:
    delattr(values, 'experiment_dir')


# Files.


def test_a_run_and_what_it_leaves(monkeypatch, capsys):
  monkeypatch.setattr(FakeWorkload, 'validation_target_value', 0.0045)
  assert run() == 0
  assert sorted(path.name for path in TRIAL.iterdir()) == [
    'checkpoint_12', 'eval_measurements.csv', 'flags_0.json',
    'measurements.csv', 'meta_data_0.json', 'metric.png',
  ]  # fmt: skip
  assert (TRIAL / 'metric.png').read_bytes().startswith(b'\x89PNG')
  assert evaluated_steps() == [1, 5, 10, 12]
  rows = read_csv('eval_measurements.csv')
  assert list(rows[0]) == [
    'accumulated_eval_time', 'accumulated_logging_time',
    'accumulated_submission_time', 'global_step', 'preemption_count', 'score',
    'test/accuracy', 'test/loss', 'test/num_examples', 'total_duration',
    'train/accuracy', 'train/loss', 'validation/accuracy', 'validation/loss',
    'validation/num_examples',
  ]  # fmt: skip
  assert rows[1]['validation/accuracy'] == '0.005'
  assert rows[1]['score'] == rows[1]['accumulated_submission_time']
  logging = [float(row['accumulated_logging_time']) for row in rows]
  assert logging[0] == 0 < logging[1] < logging[2]
  measured = read_csv('measurements.csv')
  steps = [row['global_step'] for row in measured]
  assert steps == ['1', '5', '10', '12', '12']
  given = {name for name, value in measured[-1].items() if value}
  assert given == {'global_step', 'preemption_count', 'score'}
  meta = read_json('meta_data_0.json')
  assert (meta['rng_seed'], meta['workload.step_hint']) == (3, 30)
  assert meta['workload.target_metric_name'] == 'accuracy'
  assert {'jax_version', 'device_kind', 'device_count'} < set(meta)
  values = read_json('flags_0.json')
  assert values['tuning_ruleset'] == 'self'
  captured = capsys.readouterr()
  assert [line.split(':')[0] for line in captured.err.splitlines()] == [
    f'step {n}' for n in (1, 5, 10, 12)
  ]
  assert 'accuracy 0.005' in captured.err
  assert captured.out.startswith('fake: 12 steps in ')
  assert 'ended:     --max_global_steps=12 is reached' in captured.out
  said = 'validation/accuracy 0.0045 reached at step 5 after '
  assert said in captured.out
  assert 'best 0.012 at step 12, last 0.012' in captured.out
  assert f'files:     {TRIAL}' in captured.out


@pytest.mark.parametrize(
  ('splits', 'said'),
  [
    ('all', 'both targets are reached'),
    ('validation', 'the validation target is reached'),
  ],
)
def test_the_targets_that_end_a_run(splits, said, monkeypatch, capsys):
  """Of the test split there are two, of which one is not looked at."""
  monkeypatch.setattr(FakeWorkload, 'validation_target_value', 0.0045)
  monkeypatch.setattr(FakeWorkload, 'test_target_value', 0.0045)
  assert run(f'--eval_splits={splits}') == 0
  assert f'ended:     {said}\n' in capsys.readouterr().out


# What cannot be drawn.


@pytest.fixture
def own_run():
  """own_run(*flags): 12 steps of our submission, each cycle of 5 steps."""
  changes = 'reset=Cyclic(), early_switching=False, budget_factor=0.5'
  words = ['run', '--workload=fake', write_own(changes)]
  words += ['--experiment_dir=runs', '--max_global_steps=12', '--rng_seed=3']
  return lambda *flags: cli.main([*words, *flags])


def test_a_broken_part_is_told_with_the_call_that_failed():
  """None of the frames is the part's own: the line names its method."""
  said = r'own.py: TypeError: .* \(views/paths.py, line \d+: path = pathlib'
  with (
    pytest.raises(user_code.RunError, match=said),
    user_code.reported('own.py', 'digits', before_first_step=False),
  ):
    paths.folder(3)


@pytest.mark.parametrize(
  ('name', 'content'),
  [
    ('cycles.csv', 'global_step,event\nx,y,z\n'),
    ('schedule_params.json', '{"step_hint": '),
  ],
  ids=['cycles', 'settings'],
)
def test_a_damaged_file_costs_the_picture_and_not_the_summary(
  name, content, own_run, monkeypatch, capsys
):
  def damage(trial, *_):
    train(trial, *_)
    (TRIAL / name).write_text(content)

  train = runner.train
  monkeypatch.setattr(runner, 'train', damage)
  assert own_run('--max_global_steps=5') == 0
  captured = capsys.readouterr()
  assert captured.out.startswith('fake: 5 steps in ')
  (warning,) = [s for s in captured.err.splitlines() if 'warning' in s]
  assert f'metric.png was not drawn: {TRIAL.resolve() / name}' in warning


def test_a_disk_that_is_full_after_the_last_step(monkeypatch, capsys):
  def full(trial):
    raise files.WriteError('checkpoint_1 cannot be written: No space left.')

  monkeypatch.setattr(Trial, 'save_checkpoint', full)
  assert run('--max_global_steps=1') == 0
  captured = capsys.readouterr()
  assert captured.out.startswith('fake: 1 steps in ')
  assert 'warning: checkpoint_1 cannot be written' in captured.err
  # Before it, there are steps to lose.
  assert run('--max_global_steps=2', '--experiment_name=other') == 2


def test_lost_cycles_are_missed_when_resuming(own_run, capsys):
  assert own_run('--max_global_steps=5') == 0
  assert 'warning' not in capsys.readouterr().err
  (TRIAL / 'cycles.csv').unlink()
  assert own_run('--resume_last_run') == 0
  said = 'warning: cycles.csv was lost: cycles before step 5 are unknown.'
  assert said in capsys.readouterr().err


def test_what_is_said_is_in_the_order_of_steps(own_run, capsys):
  assert own_run('--eval_every=5') == 0
  captured = capsys.readouterr()
  said = 'cycles:    3, 0 abandoned\nresets:    step 5 (0), step 10 (0)\n'
  assert f'{said}abandoned: none\n' in captured.out
  steps = [int(s.split()[1].rstrip(':')) for s in captured.err.splitlines()]
  assert steps == sorted(steps) and steps[:2] == [0, 1]


def test_early_stops_are_counted_in_the_summary(capsys):
  """Any second loss of a cycle ends it; losses come at 1, 2, 4, 6, 8 and 10."""
  path = write_own(
    'reset=Cyclic(), budget_factor=0.5, '
    'switching=dataclasses.replace(THESIS.switching, eps1=-1e9)'
  )
  words = ['run', '--workload=fake', path, '--experiment_dir=runs']
  words += ['--max_global_steps=12', '--eval_every=2']
  assert cli.main(words) == 0
  out = capsys.readouterr().out
  assert 'cycles:    3, 3 abandoned\n' in out
  said = ', '.join(f'step {step} (loss rises)' for step in (2, 6, 10))
  assert f'abandoned: {said}\n' in out


# Existing folders.


def test_an_existing_experiment_is_replaced_only_if_asked(capsys):
  run()
  (TRIAL / 'old').touch()
  before = snapshot(pathlib.Path('runs'))
  capsys.readouterr()
  assert run() == 2
  assert one_error(capsys).startswith('experiment folder ')
  assert snapshot(pathlib.Path('runs')) == before
  assert run('--overwrite', '--max_global_steps=6') == 0
  assert not (TRIAL / 'old').exists()
  assert evaluated_steps() == [1, 5, 6]
  assert [path.name for path in TRIAL.parent.parent.iterdir()] == ['fake_jax']


@pytest.mark.parametrize('is_there', [False, True])
def test_a_failing_set_up_leaves_everything_as_it_was(
  is_there, monkeypatch, capsys
):
  def refuse(*args):
    raise ValueError('switch_lam=2 must be at most 1')

  if is_there:
    run('--max_global_steps=1')
  before = snapshot(pathlib.Path())
  monkeypatch.setattr(FakeWorkload, 'init_model_fn', refuse)
  capsys.readouterr()
  assert run('--overwrite') == 2
  assert one_error(capsys) == 'switch_lam=2 must be at most 1'
  assert pathlib.Path('runs').exists() == is_there
  assert before.items() <= snapshot(pathlib.Path()).items()


def test_two_processes_do_not_share_a_folder(capsys):
  with experiment_folder.locked(TRIAL.parent.resolve()):
    assert run() == 2
  assert 'is in use by another run' in capsys.readouterr().err
  assert not pathlib.Path('runs').exists()
  assert run('--max_global_steps=1') == 0


# What ends a run.


def test_data_that_end(capsys, monkeypatch):
  endless = FakeWorkload._build_input_queue

  def queue(*args, **settings):
    return itertools.islice(endless(*args, **settings), 7)

  monkeypatch.setattr(FakeWorkload, '_build_input_queue', queue)
  assert run() == 2
  assert capsys.readouterr().err.splitlines()[-1] == (
    'reset-cycles: error: the training data ended after 7 batches: a workload must '
    'give them without end.'
  )


def test_an_error_without_a_line_of_the_users_file_names_the_file(capsys):
  assert run(submission='fail_at=3') == 1
  said = 'fail_at_3/submission.py: ValueError: a bug (tests/helpers/fakes.py, '
  assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_bug_of_this_project_keeps_its_traceback(monkeypatch):
  def bug(*unused):
    raise ValueError('a bug')

  monkeypatch.setattr(runner, 'train', bug)
  with pytest.raises(ValueError, match='a bug'):
    cli.main(['run', '--workload=fake', '--max_global_steps=1'])


@pytest.mark.parametrize('is_first', (False, True))
def test_resuming_with_other_settings_is_refused(is_first, capsys):
  """Those of a file, with the same state, after those in force, or before."""
  pathlib.Path('other.json').write_text('{"label_smoothing": 0.25}')
  other = ['--settings=other.json']
  first, second = (other, []) if is_first else ([], other)
  assert own(*first, '--max_global_steps=1') == 0
  before = snapshot(pathlib.Path('runs'))
  capsys.readouterr()
  assert own(*second, '--resume_last_run') == 2
  assert one_error(capsys) == (
    f'{TRIAL.resolve()}/schedule_params.json: the run in this folder was begun '
    'with another schedule_params; resume it with that one, or start a new '
    'experiment.'
  )
  assert snapshot(pathlib.Path('runs')) == before


def test_ctrl_c_and_resuming(capsys):
  assert run(submission='press_at=[7]') == 130
  # The step in which it was pressed is finished.
  assert capsys.readouterr().err.splitlines()[2:] == [
    'reset-cycles: interrupted at step 8; --resume_last_run resumes from the '
    'last checkpoint.'
  ]
  assert (TRIAL / 'metric.png').exists()
  assert run('--resume_last_run') == 0
  assert read_json('flags_1.json')['resume_last_run'] is True
  assert (TRIAL / 'meta_data_1.json').exists()
  run('--experiment_name=whole')
  assert_same_run(TRIAL, WHOLE)


def test_a_second_ctrl_c_does_not_wait_for_the_end_of_the_step(capsys):
  handler = signal.getsignal(signal.SIGINT)
  assert run(submission='press_at=[7, 7]') == 130
  assert 'interrupted at step 7; ' in capsys.readouterr().err
  assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_during_the_set_up_leaves_nothing(monkeypatch, capsys):
  def press(self, *args):
    signal.raise_signal(signal.SIGINT)
    return init_model_fn(self, *args)

  init_model_fn = FakeWorkload.init_model_fn
  monkeypatch.setattr(FakeWorkload, 'init_model_fn', press)
  assert run() == 130
  assert capsys.readouterr().err == 'reset-cycles: interrupted.\n'
  assert not pathlib.Path('runs').exists()


# Resuming.


@pytest.mark.parametrize('is_there', [False, True])
def test_resuming_before_the_first_checkpoint_starts_again(is_there):
  if is_there:
    assert run(submission='interrupt_at=0') == 130
  assert run('--resume_last_run') == 0
  counts = [row['preemption_count'] for row in read_csv('measurements.csv')]
  assert counts == ['0'] * 5
