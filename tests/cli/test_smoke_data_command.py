"""`soft-reset smoke-data`: its folder and its errors, without TensorFlow."""

from __future__ import annotations

import json
import sys

import pytest

from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf.smoke_data import target_folder, tfds_files


@pytest.fixture
def without_tensorflow(monkeypatch):
  """The command's files without TFDS: one text file."""

  def write(tfds, folder, data):
    assert tfds == 'tfds'
    (folder / 'text').write_text(data.data_sets[0].splits['train'][0]['de'])

  monkeypatch.setattr(tfds_files, 'import_tfds', lambda: 'tfds')
  monkeypatch.setattr(tfds_files, 'write', write)


def run(out, *arguments):
  return cli.main(
    ['smoke-data', '--workload=wmt', '--num_train=9', f'--out={out}']
    + list(arguments)
  )


@pytest.mark.usefixtures('without_tensorflow')
def test_a_folder_is_written(tmp_path, capsys):
  out = tmp_path / 'new' / 'wmt'
  assert run(out) == 0
  assert json.loads((out / 'smoke_data.json').read_text()) == {
    'what': 'synthetic data to try a submission with; scores mean nothing',
    'workload': 'wmt',
    'seed': 0,
    'num_train': 9,
    'num_eval': 256,
  }
  assert [path.name for path in out.parent.iterdir()] == ['wmt']
  assert capsys.readouterr().out == (
    f'{out}: 9 train, 256 validation, 256 test; 0.0 MB. For the runner:\n'
    f'  --workload=wmt --data_dir={out}\n'
  )


@pytest.mark.usefixtures('without_tensorflow')
def test_smoke_data_are_replaced_on_demand_only(tmp_path, capsys):
  out = tmp_path / 'wmt'
  out.mkdir()
  assert run(out) == 0
  first = (out / 'text').read_text()
  assert run(out, '--seed=1') == 2
  assert '--overwrite replaces them' in capsys.readouterr().err
  assert (out / 'text').read_text() == first
  assert run(out, '--seed=1', '--overwrite') == 0
  assert (out / 'text').read_text() != first
  assert [path.name for path in tmp_path.iterdir()] == ['wmt']


@pytest.mark.usefixtures('without_tensorflow')
def test_other_files_are_never_replaced(tmp_path, capsys):
  (tmp_path / 'real').write_text('data')
  for out in (tmp_path, tmp_path / 'real'):
    assert run(out, '--overwrite') == 2
    assert 'so it may hold real' in capsys.readouterr().err
  assert (tmp_path / 'real').read_text() == 'data'


@pytest.mark.usefixtures('without_tensorflow')
@pytest.mark.parametrize('error', [OSError('disk full'), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_data(tmp_path, monkeypatch, error):
  out = tmp_path / 'wmt'
  assert run(out) == 0
  before = (out / 'text').read_text()

  def fail(tfds, folder, data):
    (folder / 'half').write_text('')
    raise error

  monkeypatch.setattr(tfds_files, 'write', fail)
  assert run(out, '--overwrite') in (2, 130)
  assert (out / 'text').read_text() == before
  assert [path.name for path in tmp_path.iterdir()] == ['wmt']


def test_what_a_killed_process_left_is_removed(tmp_path):
  (tmp_path / '.data.tmp').mkdir()
  (tmp_path / '.data.tmp' / 'half').write_text('')
  with target_folder.written_whole(tmp_path / 'data') as folder:
    assert list(folder.iterdir()) == []
  assert [path.name for path in tmp_path.iterdir()] == ['data']


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([], '--workload is missing: give one of mnist, ogbg, wmt.'),
    (['--workload=wmt'], '--out is missing'),
    (['--workload=cifar', '--out=x'], "'cifar': give one of mnist, ogbg, wmt"),
    (['--workload=mnist', '--out=x', '--num_eval=9'], 'mnist has a fixed size'),
    (['--workload=ogbg', '--out=x', '--num_eval=1'], '--num_eval: 1 must be'),
    (['--workload=wmt', '--out=x', '--seed=-1'], '--seed: -1 must be'),
  ],
)
def test_bad_input(arguments, message, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  assert cli.main(['smoke-data', *arguments]) == 2
  line = capsys.readouterr().err
  assert line.startswith('soft-reset: error: ') and line.count('\n') == 1
  assert message in line
  assert list(tmp_path.iterdir()) == []


def test_tensorflow_is_missing(tmp_path, monkeypatch, capsys):
  monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '3')
  monkeypatch.setitem(sys.modules, 'tensorflow', None)
  assert run(tmp_path / 'wmt') == 2
  line = capsys.readouterr().err
  assert "pip install -e '.[smoke]'" in line and line.count('\n') == 1
  assert list(tmp_path.iterdir()) == []
