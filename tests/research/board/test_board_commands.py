"""`reset-cycles study` and `scoreboard`: what they refuse and leave out."""

import pytest

from helpers.curves_of_runs import board_run
from reset_cycles.cli import main as cli
from reset_cycles.console.flags import read_seeds
from reset_cycles.research import workers
from reset_cycles.research.board import runs as logs
from reset_cycles.research.board import study


@pytest.mark.parametrize(('breaks', 'status'), [(False, 0), (True, 2)])
def test_the_second_time_trains_nothing(
  breaks, status, tmp_path, monkeypatch, capsys
):
  trained = []

  def train_all(jobs, root, *unused):
    for job in jobs:
      trained.append((job.seed, job.workload, job.entry.name))
      place = study.kept_path(root, job)
      place.mkdir(parents=True)
      (place / 'meta_data_0.json').touch()
      if breaks:
        (place / 'failure.txt').touch()

  monkeypatch.setattr(workers, 'train_all', train_all)
  words = [
    *('study', f'--out={tmp_path}', '--submissions=nadamw,sgdr'),
    *('--workloads=digits', '--conditions=hot', '--seeds=1,2'),
  ]
  for said in ('4 runs, 4 to train.', '4 runs, 0 to train.'):
    assert cli.main(words) == status
    err = capsys.readouterr().err
    assert said in err
    assert ('4 of 4 runs broke: see ' in err) == breaks
  assert trained == [
    (seed, 'digits', name) for seed in (1, 2) for name in ('nadamw', 'sgdr')
  ]


@pytest.mark.parametrize(
  ('flag', 'given', 'said'),
  [
    ('pack', 'logs', 'tuned.zip exists'),
    ('pack', 'logs/tuned.zip', 'tuned.zip is a file: give a folder'),
    ('reading', 'logs/tuned.zip', 'tuned.zip is not UTF-8'),
  ],
)
def test_nothing_is_written_if_another_file_is_wrong(
  flag, given, said, tmp_path, capsys
):
  runs = [board_run(name, 1, 10) for name in 'ab']
  logs.pack(runs, tmp_path / 'logs')
  words = [f'--logs={tmp_path}/logs', f'--out={tmp_path}/x.md']
  assert cli.main(['scoreboard', *words, f'--{flag}={tmp_path}/{given}']) == 2
  assert said in capsys.readouterr().err
  assert [path.name for path in tmp_path.iterdir()] == ['logs']


def test_seeds():
  assert read_seeds('1-3,7,2') == [1, 2, 3, 7]
