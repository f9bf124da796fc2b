"""Many runs, a few at a time."""

from __future__ import annotations

import os
import pathlib

import pytest

from fakes import write_submission
from registry_logs import write_log
from reset_cycles.cli import main as cli
from reset_cycles.experiments import thesis
from reset_cycles.mini_algoperf import files
from reset_cycles.studies import workers
from reset_cycles.studies.errors import RunFailed
from reset_cycles.studies.thesis import run_logs, train
from reset_cycles.studies.thesis.run_logs import Job
from study_workers import kill, note

JOBS = [Job('fake', 'peaks_soft', seed) for seed in (1, 2, 3)]


def test_all_are_trained_by_workers_with_a_thread_each(tmp_path, monkeypatch):
  monkeypatch.delenv('OMP_NUM_THREADS', raising=False)
  train.train_all(JOBS, tmp_path / 'new', 2, note)
  written = {p.name: p.read_text() for p in (tmp_path / 'new').iterdir()}
  assert written == {f'{seed}.txt': '1' for seed in (1, 2, 3)}
  assert 'OMP_NUM_THREADS' not in os.environ


def test_a_run_that_fails_ends_the_study(tmp_path):
  jobs = [JOBS[0]._replace(seed=seed) for seed in (9, 1, 2, 3, 4, 5, 6)]
  with pytest.raises(RunFailed, match='no'):
    train.train_all(jobs, tmp_path, 1, note)
  # What had been handed to the worker is finished; the rest is not begun.
  assert len(list(tmp_path.iterdir())) < len(jobs)


def test_workers_keep_the_users_own_flags(monkeypatch):
  monkeypatch.setenv('XLA_FLAGS', '--a=1')
  values = workers.worker_environment('folder')
  assert values['XLA_FLAGS'] == '--a=1 --xla_cpu_multi_thread_eigen=false'
  assert values['JAX_COMPILATION_CACHE_DIR'] == 'folder'


def test_a_worker_that_is_killed_is_told(tmp_path):
  with pytest.raises(RunFailed, match='fewer --workers'):
    train.train_all(JOBS, tmp_path, 1, kill)


def test_nothing_to_train_starts_nothing(tmp_path):
  train.train_all([], tmp_path / 'new', 2, note)
  assert not (tmp_path / 'new').exists()


@pytest.mark.usefixtures('fake_workload')
def test_a_run_is_trained_by_the_runner_and_kept(tmp_path, monkeypatch):
  path = pathlib.Path(
    write_submission(pathlib.Path('fake_run'), 'complete_at=7')
  )
  monkeypatch.setattr(thesis, 'run_path', lambda name: path.absolute())
  monkeypatch.setattr(run_logs, 'KEPT_FILES', ('flags_0.json',))
  root = tmp_path / 'kept'
  train.train(JOBS[1], root, lambda words: cli.main(['run', *words]))
  assert [p.name for p in root.iterdir() if any(p.iterdir())] == ['fake']
  flags = files.read_json(root / 'fake/peaks_soft/seed_2/flags_0.json')
  assert flags['rng_seed'] == 2
  assert flags['workload'] == 'fake'
  assert flags['eval_splits'] == 'validation'
  assert not flags['stop_at_targets']


def test_a_run_that_ends_badly_is_not_kept(tmp_path):
  with pytest.raises(RunFailed, match='fake peaks_soft 1 .*status 130'):
    train.train(JOBS[0], tmp_path, command=lambda arguments: 130)
  assert run_logs.find_logs([tmp_path]) == []


def test_what_is_left_of_an_interrupted_run_is_removed(tmp_path):
  def run(arguments):
    [work] = [a.split('=')[1] for a in arguments if 'experiment_dir' in a]
    trial = pathlib.Path(work) / 'peaks_soft' / 'fake_jax' / 'trial_1'
    write_log(trial, JOBS[0])
    return 0

  left = tmp_path / '.running' / 'fake_peaks_soft_1' / 'run'
  left.mkdir(parents=True)
  train.train(JOBS[0], tmp_path, run)
  assert [log.job for log in run_logs.find_logs([tmp_path])] == [JOBS[0]]
  assert not left.exists()
