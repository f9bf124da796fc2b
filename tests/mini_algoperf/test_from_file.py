"""Workloads from a user's file: found, checked, trained."""

from __future__ import annotations

import pathlib

import jax
import numpy as np
import pytest

from reset_cycles import submission
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import files, targets
from reset_cycles.mini_algoperf.workloads import (
  DigitsWorkload,
  get_workload,
  workload_class,
)

EXAMPLE = pathlib.Path(submission.__file__).parent / 'examples/own_workload.py'


@pytest.fixture
def moons(tmp_path, monkeypatch):
  """The example, copied beside nothing, in the current folder."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'mine.py').write_text(EXAMPLE.read_text())
  return 'mine.py:Moons'


def test_names_are_those_of_the_project():
  assert workload_class('digits') is DigitsWorkload


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


def test_without_targets_it_says_how_to_set_them(moons):
  with pytest.raises(
    ValueError, match='mine_targets.json: no targets for'
  ) as e:
    _ = get_workload(moons).validation_target_value
  assert 'soft-reset set-targets --workload=mine.py:Moons' in str(e.value)


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


def _other(text):
  return EXAMPLE.read_text().replace(*text)


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
    ('bad.py:X', 'X = )', 'cannot be imported: SyntaxError'),
    ('bad.py:X', 'import nowhere_at_all', "No module named 'nowhere_at_all'"),
    (
      'bad.py:Moons',
      _other(('_metrics', '_metric')),
      'is not complete; it lacks _metrics',
    ),
    (
      'bad.py:Moons',
      _other(("  name = 'moons'\n", '')),
      'is not complete; it lacks name',
    ),
    (
      'bad.py:Moons',
      _other(("'moons'", "'a/b'")),
      "name='a/b' must be letters",
    ),
    ('bad.py:Moons', _other(("'moons'", "'digits'")), "'digits' is that of a"),
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
  line = capsys.readouterr().err
  assert line.startswith('soft-reset: error: ')
  assert 'workload: ' in line
  assert line.count('\n') == 1
  assert 'frozen' not in line
  if '1 / 0' in content:
    assert 'error: bad.py, line 2: workload: ' in line
  assert not pathlib.Path('experiment_runs').exists()


def test_too_few_examples_are_refused_before_the_first_step(moons, capsys):
  path = pathlib.Path('mine.py')
  path.write_text(path.read_text().replace('512 if', '500 if'))
  queue = get_workload(moons)._build_input_queue(
    jax.random.PRNGKey(0), 'train', None, 8
  )
  with pytest.raises(ValueError, match=r"load_split\('train'\) gives 500"):
    next(queue)


def test_an_error_of_the_users_own_is_placed(moons, capsys):
  path = pathlib.Path('mine.py')
  raising = '    raise KeyError(3)\n'
  path.write_text(
    path.read_text().replace('    return Net(dropout_rate)\n', raising)
  )
  targets_file = path.with_name('mine_targets.json')
  entry = {'validation_target': 0.1, 'test_target': 0.1}
  files.write_json(targets_file, {'workloads': {'moons': entry}})
  assert cli.main(['run', f'--workload={moons}']) == 2
  line = capsys.readouterr().err
  assert 'mine.py, line' in line
  assert 'KeyError: 3' in line
