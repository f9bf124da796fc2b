"""Workloads from a user's file: found, checked, trained."""

import pathlib

import jax
import numpy as np
import pytest

from helpers.fakes import write_submission
from reset_cycles import submission
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import files, targets, user_code
from reset_cycles.mini_algoperf.workloads import get_workload, workload_class

EXAMPLE = pathlib.Path(submission.__file__).parent / 'examples/own_workload.py'
TARGETS = {'validation_target': 0.1, 'test_target': 0.1}


def changed(old, new):
  text = EXAMPLE.read_text()
  assert old in text
  return text.replace(old, new)


@pytest.fixture
def moons(tmp_path, monkeypatch):
  """The example, copied beside nothing, in the current folder."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'mine.py').write_text(EXAMPLE.read_text())
  return 'mine.py:Moons'


def test_the_example_in_both_generations(moons, tmp_path):
  for generation in ('jit', 'pmap'):
    workload = get_workload(moons, generation)
    assert workload.name == 'moons'
    assert workload.generation == generation
    assert workload.targets_file == tmp_path / 'mine_targets.json'
    size = 8 * jax.local_device_count()
    batch = next(
      workload._build_input_queue(jax.random.PRNGKey(0), 'train', None, size)
    )
    assert np.size(batch['targets']) == size
  assert workload_class(moons) is workload_class('./mine.py:Moons')


def test_targets_are_set_beside_the_file_and_reached(moons, capsys):
  search = targets.plan_search(moons, num_trials=1, num_seeds=1, num_steps=30)
  entry = targets.set_targets(search, progress=False)
  written = files.read_json(pathlib.Path('mine_targets.json'))
  assert written == {'workloads': {'moons': entry}}
  workload = get_workload(moons)
  assert workload.validation_target_value == entry['validation_target']
  flags = [f'--workload={moons}', '--max_global_steps=5', '--eval_every=5']
  assert cli.main(['run', *flags, '--rng_seed=1']) == 0
  capsys.readouterr()
  trial = pathlib.Path('experiment_runs/Moons/moons_jax/trial_1')
  assert (trial / 'cycles.csv').exists()  # the submission has found it
  assert files.read_json(trial / 'flags_0.json')['workload'] == moons
  meta = files.read_json(trial / 'meta_data_0.json')
  assert meta['workload.name'] == 'moons'


@pytest.mark.parametrize(
  ('given', 'content', 'said'),
  [
    ('bad.py', '', 'bad.py must name a file and a class in it: file.py:Class'),
    (':Moons', '', ':Moons must name a file and a class'),
    ('no.py:Moons', '', 'no.py: there is no such Python file'),
    ('bad.txt:Moons', '', 'bad.txt: there is no such Python file'),
    ('bad.py:Moon', EXAMPLE.read_text(), 'no subclass Moon .* it has .*Moons'),
    ('bad.py:X', 'X = 1', 'no subclass X of MiniWorkload; it has none'),
    ('bad.py:X', '\n1 / 0', 'imported: ZeroDivisionError: division by zero'),
    ('bad.py:X', '\nraise GeneratorExit', 'imported: GeneratorExit'),
    ('~nobody_at_all/bad.py:X', '', 'bad.py: there is no such Python file'),
    ('bad.py:X', 'X = )', 'cannot be imported: SyntaxError'),
    ('bad.py:X', 'import nowhere_at_all', "No module named 'nowhere_at_all'"),
    *(
      ('bad.py:Moons', changed(old, new), said)
      for old, new, said in (
        ("  name = 'moons'\n", '', 'is not complete; it lacks name'),
        ("'moons'", "'a/b'", "name='a/b' must be letters"),
        ("'moons'", "'digits'", "'digits' is that of a"),
      )
    ),
  ],
)
def test_what_cannot_work_is_refused(
  given, content, said, tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  for name in ('bad.py', 'bad.txt'):
    pathlib.Path(name).write_text(content)
  with pytest.raises(ValueError, match=said):
    get_workload(given)
  assert cli.main(['run', f'--workload={given}']) == 2
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith('reset-cycles: error: ')
  assert 'workload: ' in line
  assert 'frozen' not in line
  if '1 / 0' in content:
    assert 'error: bad.py, line 2: workload: ' in line
  assert not pathlib.Path('experiment_runs').exists()


@pytest.mark.parametrize(
  ('name', 'value', 'right'),
  [
    ('num_train_examples', 0, 'a whole number from 1 to 2147483647'),
    ('default_batch_size', 513, 'at most num_train_examples, 512'),
    ('step_hint', 2**31, 'a whole number from 1 to 2147483647'),
    ('num_validation_examples', 2.5, 'a whole number from 1 to 2147483647'),
    ('eval_every_steps', None, 'a whole number from 1 to 2147483647'),
    ('eval_every_steps', True, 'a whole number from 1 to 2147483647'),
    ('eval_period_time_sec', 0, 'a number of seconds above 0'),
    ('max_allowed_runtime_sec', float('inf'), 'a number of seconds above 0'),
    ('metric_rises', 'no', 'True or False'),
  ],
)
def test_an_attribute_that_cannot_be_right(
  name, value, right, moons, monkeypatch
):
  monkeypatch.setattr(workload_class(moons), name, value)
  with pytest.raises(ValueError) as raised:
    get_workload(moons)
  assert str(raised.value) == (
    f'workload: {moons}: {name}={value!r} must be {right}.'
  )


@pytest.mark.parametrize(
  ('content', 'said'),
  [
    (
      None,
      'no targets for .* `reset-cycles set-targets --workload=mine.py:Moons',
    ),
    ('{"workloads": ', 'mine_targets.json is not valid JSON'),
    ('{"workloads": 1}', 'mine_targets.json: is not a file of targets'),
    ('{"workloads": {"moons": [1]}}', "validation_target of 'moons' is None"),
    (
      '{"workloads": {"moons": {"validation_target": true}}}',
      "validation_target of 'moons' is True, not a number",
    ),
  ],
)
def test_targets_that_cannot_be_used(content, said, moons):
  if content is not None:
    pathlib.Path('mine_targets.json').write_text(content)
  with pytest.raises(ValueError, match=said):
    _ = get_workload(moons).validation_target_value


def run(old, new):
  """The exit status of a run with targets after the text was changed."""
  entries = {'workloads': {'moons': TARGETS}}
  files.write_json(pathlib.Path('mine_targets.json'), entries)
  pathlib.Path('mine.py').write_text(changed(old, new))
  flags = ['--max_global_steps=2', '--eval_every=2', '--rng_seed=1']
  return cli.main(['run', '--workload=mine.py:Moons', *flags])


OWN = '  # Values per'  # where the class gets something of its own
RETURNS = '_metrics returns: loss.'
METRICS = {'loss': 'x', 'error_rate': 0.0}
NUMBERS = "_metrics must return numbers, but train/loss is 'x'."


@pytest.mark.parametrize(
  ('old', 'new', 'said'),
  [
    ('512 if', '500 if', "load_split('train') gives 500 inputs, fewer than "),
    ("'error_rate', False", "'eror_rate', False", RETURNS),
    (OWN, f'  def _metrics(self, _):\n    return {METRICS}\n\n{OWN}', NUMBERS),
    (
      "'inputs': inputs.as",
      "3: inputs, 'inputs': inputs.as",
      'Comparator rais',
    ),
    (
      OWN,
      f'  def loss_fn(self, *unused):\n    return {{}}\n\n{OWN}',
      'loss_fn must return n_valid_examples, per_example, summed by name.',
    ),
    (
      OWN,
      f"  validation_target_value = 'x'\n{OWN}",
      "validation_target_value='x' must be a finite number.",
    ),
  ],
)
@pytest.mark.usefixtures('moons')
def test_what_a_rehearsal_finds(old, new, said, capsys):
  assert run(old, new) == 2
  line = capsys.readouterr().err.splitlines()[-1]
  assert 'workload: mine.py:Moons: ' in line
  assert said in line
  assert not pathlib.Path('experiment_runs').exists()


@pytest.mark.parametrize(
  ('body', 'said'),
  [
    ('raise GeneratorExit', 'raise GeneratorExit\nGeneratorExit: Generator'),
    ('raise KeyError(3)', 'raise KeyError(3)\nKeyError: 3\n'),
    ('return None', 'update_params must return optimizer state, parameters'),
  ],
)
def test_a_submission_that_fails_in_a_step(body, said, moons, capsys, tmp_path):
  entries = {'workloads': {'moons': TARGETS}}
  files.write_json(pathlib.Path('mine_targets.json'), entries)
  path = write_submission(tmp_path / 'own')
  with open(path, 'a', encoding='utf-8') as file:
    file.write(f'\ndef update_params(**unused):\n  {body}\n')
  words = [f'--submission_path={path}', '--max_global_steps=2']
  assert cli.main(['run', f'--workload={moons}', *words]) == 1
  err = capsys.readouterr().err
  assert said in err
  assert err.count('in update_params') == ('raise' in body)  # a frame, once
  assert 'runner.py' not in err


@pytest.mark.parametrize(
  ('workload', 'error', 'kind', 'said'),
  [
    ('a.py:A', SystemExit(0), user_code.RunError, r'sys.exit\(0\) was called'),
    ('a.py:A', MemoryError('1 TiB'), user_code.RunError, 'exhausted: 1 TiB'),
    ('a.py:A', ValueError('bad'), user_code.RunError, 'ValueError: bad'),
    ('a.py:A', GeneratorExit(), user_code.RunError, 'a.py:A: GeneratorExit'),
    # A bug of this project's keeps its traceback.
    ('digits', KeyError(), KeyError, None),
  ],
)
def test_what_ends_a_run_is_said(workload, error, kind, said):
  with (
    pytest.raises(kind, match=said),
    user_code.reported(None, workload, before_first_step=False),
  ):
    raise error
