"""`soft-reset study` on the command line."""

from __future__ import annotations

import pytest

from reset_cycles.cli import main as cli
from reset_cycles.studies import workers
from reset_cycles.studies.board import study


def test_seeds():
  assert study.read_seeds('1-3,7') == [1, 2, 3, 7]
  for text in ('', 'a', '1-', '3-1', '1,3-1', '-2'):
    with pytest.raises(ValueError, match='--seeds'):
      study.read_seeds(text)


@pytest.mark.parametrize(
  ('words', 'said'),
  [
    ([], "Missing option '--out'"),
    (['--out=o', '--submissions=nobody'], "'nobody' is unknown"),
    (['--out=o', '--workloads=mnist'], 'mnist'),
    (['--out=o', '--conditions=warm'], "'warm' is unknown"),
    (['--out=o', '--seeds=x'], '--seeds=x'),
    (['--out=o', '--seeds=2,1-3'], '2 is given twice'),
    (['--out=o', '--submissions=sgdr,sgdr'], 'sgdr is given twice'),
    (['--out=o', '--submissions==a.py'], 'its name must consist of letters'),
    (['--out=o', '--jobs=0'], 'x>=1'),
  ],
)
def test_bad_input_is_one_line(words, said, capsys, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert cli.main(['study', *words]) == 2
  [line] = capsys.readouterr().err.splitlines()
  assert said in line
  assert list(tmp_path.iterdir()) == []


def test_the_second_time_trains_nothing(tmp_path, monkeypatch, capsys):
  trained = []

  def train_all(jobs, root, *unused):
    for job in jobs:
      trained.append((job.seed, job.workload, job.entry.name))
      place = study.kept_path(root, job)
      place.mkdir(parents=True)
      (place / 'meta_data_0.json').touch()

  monkeypatch.setattr(workers, 'train_all', train_all)
  words = [
    'study',
    f'--out={tmp_path}',
    '--submissions=nadamw,sgdr',
    '--workloads=digits',
    '--conditions=hot',
    '--seeds=1,2',
  ]
  for said in ('4 runs, 4 to train.', '4 runs, 0 to train.'):
    assert cli.main(words) == 0
    assert said in capsys.readouterr().err
  assert trained == [
    (seed, 'digits', name) for seed in (1, 2) for name in ('nadamw', 'sgdr')
  ]


def test_a_run_that_broke_fails_the_study(tmp_path, monkeypatch, capsys):
  def train_all(jobs, root, *unused):
    for job in jobs:
      place = study.kept_path(root, job)
      place.mkdir(parents=True)
      (place / 'meta_data_0.json').touch()
      (place / 'failure.txt').touch()

  monkeypatch.setattr(workers, 'train_all', train_all)
  words = ['--submissions=sgdr', '--workloads=digits', '--conditions=hot']
  command = ['study', f'--out={tmp_path}', '--seeds=1,2', *words]
  assert cli.main(command) == 2
  assert '2 of 2 runs broke: see ' in capsys.readouterr().err
