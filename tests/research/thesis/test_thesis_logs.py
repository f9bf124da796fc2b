"""Logs of the registry's runs: found, kept, packed, trained."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from helpers.fakes import write_submission
from helpers.log_files import EVENTS, write_log, write_run
from helpers.study_workers import kill, note
from reset_cycles.console.errors import RunFailed
from reset_cycles.engine.records import SETTINGS
from reset_cycles.mini_algoperf import files
from reset_cycles.research import workers
from reset_cycles.research.thesis import commands
from reset_cycles.research.thesis import folders as logs
from reset_cycles.research.thesis import registry as thesis
from reset_cycles.research.thesis.folders import Job
from reset_cycles.schedule_params import SOFT_RESET
from reset_cycles.views import paths

SOFT = Job('molecules', 'peaks_soft', 2)
FULL = Job('molecules', 'peaks_full', 1)


def test_runs_are_known_by_their_settings_wherever_they_are(tmp_path):
  soft = write_log(tmp_path / 'a' / 'any_name' / 'trial_1', SOFT)
  full = write_log(tmp_path / 'b', FULL)
  assert logs.find_logs([tmp_path]) == [full, soft]


def test_other_settings_and_other_submissions_are_passed_over(tmp_path):
  for name in ('other_settings', 'other_submission'):
    (tmp_path / name).mkdir()
  write_run(tmp_path / 'other_settings', EVENTS, params=SOFT_RESET)
  write_run(tmp_path / 'other_submission')
  for text in ('not JSON', '{"step_hint": 3}', '[]'):
    log = write_log(tmp_path / str(len(text)), SOFT)
    (log.log_dir / SETTINGS).write_text(text)
  assert logs.find_logs([tmp_path]) == []


def test_a_run_of_ours_counts_when_it_has_finished(tmp_path):
  write_log(tmp_path / '.running' / 'run', SOFT)
  write_log(tmp_path / 'killed', SOFT, finished=False)
  write_log(tmp_path / 'other_length', SOFT, step_hint=50)
  for number, flag in enumerate(({'eval_every': 7}, {'eval_by': 'time'})):
    log = write_log(tmp_path / next(iter(flag)), SOFT)
    flags = files.read_json(log.log_dir / 'flags_0.json')
    # Of its start, or of a resumption.
    files.write_json(log.log_dir / f'flags_{number}.json', {**flags, **flag})
  assert logs.find_logs([tmp_path]) == []


def test_a_run_of_the_benchmark_counts_as_it_is(tmp_path):
  job = Job('ogbg', 'peaks_soft', 3)
  log = write_log(tmp_path / 'x', job, finished=False, step_hint=80_000)
  assert logs.find_logs([tmp_path]) == [log]


def test_missing_runs_are_trained_once_in_the_order_of_the_wish(
  tmp_path, monkeypatch
):
  write_log(tmp_path / 'old', SOFT)
  third, trained = FULL._replace(seed=3), []

  def train_all(jobs, root, *unused):
    trained.extend(jobs)
    for job in jobs:
      write_log(root / str(job.seed), job)

  monkeypatch.setattr(workers, 'train_all', train_all)
  wanted, new = [third, SOFT, FULL, third], tmp_path / 'new'
  with logs.complete_logs(wanted, [tmp_path / 'old'], new, 1, print) as found:
    assert [log.job for log in found] == sorted({*wanted})
  assert trained == [third, FULL]


def test_where_no_run_is_missing_no_folder_is_made(tmp_path):
  write_log(tmp_path / 'old', SOFT)
  new = tmp_path / 'new'
  with logs.complete_logs([SOFT], [tmp_path / 'old'], new, 1, print) as found:
    assert [log.job for log in found] == [SOFT]
  assert not new.exists()


def pack(path, *found):
  contents = {
    f'{log.job.run}/seed_{log.job.seed}/{file.name}': file.read_bytes()
    for log in found
    for file in log.log_dir.iterdir()
  }
  paths.write_archive(path, contents)


def test_archives_are_read_as_the_folders_that_were_packed(tmp_path):
  found_logs = [
    write_log(tmp_path / f'{job.run}{job.seed}', job)
    for job in (FULL, SOFT, SOFT._replace(seed=5))
  ]
  packed = tmp_path / 'packed'
  pack(packed / 'a.zip', *found_logs)
  with logs.unpacked([packed]) as roots:
    found = logs.find_logs(roots)
    assert [log.job for log in found] == [log.job for log in found_logs]
    for log, original in zip(found, found_logs):
      for name in logs.KEPT_FILES:
        expected = (original.log_dir / name).read_bytes()
        assert (log.log_dir / name).read_bytes() == expected
  assert not found[0].log_dir.exists()


def test_other_archives_are_left_alone(tmp_path):
  with zipfile.ZipFile(tmp_path / 'x.zip', 'w') as archive:
    archive.writestr('../outside.txt', 'no logs')
  with logs.unpacked([tmp_path]) as folders:
    assert folders == [tmp_path]
  (tmp_path / 'x.zip').write_text('not an archive')
  with pytest.raises(ValueError, match='x.zip is not a zip archive of logs'):
    with logs.unpacked([tmp_path]):
      pass


JOBS = [Job('fake', 'peaks_soft', seed) for seed in (1, 2, 3)]


def test_a_run_that_fails_ends_the_study(tmp_path):
  jobs = [JOBS[0]._replace(seed=seed) for seed in (9, 4, 5, 6, 7, 8)]
  with pytest.raises(RunFailed, match='no'):
    workers.train_all(jobs, tmp_path, 1, note)
  # What had been handed to the worker is finished; the rest is not begun.
  assert len(list(tmp_path.glob('*.txt'))) < len(jobs)


def test_a_worker_that_is_killed_is_told(tmp_path):
  with pytest.raises(RunFailed, match='fewer at a time'):
    workers.train_all(JOBS, tmp_path, 1, kill)


def test_two_commands_do_not_train_into_one_folder(tmp_path):
  with workers._locked(tmp_path):
    with pytest.raises(ValueError, match='another command trains into this'):
      workers.train_all(JOBS, tmp_path, 1, note)
  assert [path.name for path in tmp_path.iterdir()] == ['.lock']


@pytest.mark.usefixtures('fake_workload')
def test_a_run_is_trained_by_the_runner_and_kept(tmp_path, monkeypatch):
  path = pathlib.Path(
    write_submission(pathlib.Path('fake_run'), 'complete_at=7')
  )
  monkeypatch.setattr(thesis, 'SUBMISSION', path.absolute())
  monkeypatch.setattr(logs, 'KEPT_FILES', ('flags_0.json',))
  root = tmp_path / 'kept'
  logs.train(JOBS[1], root, commands._run)
  assert [p.name for p in root.iterdir() if any(p.iterdir())] == ['fake']
  flags = files.read_json(root / 'fake/peaks_soft/seed_2/flags_0.json')
  assert flags['rng_seed'] == 2
  assert flags['workload'] == 'fake'
  assert flags['eval_splits'] == 'validation'
  assert not flags['stop_at_targets']


def start_study(folder, work):
  """A process that trains with two workers, and these, both at work."""
  script = (
    'import pathlib, signal, sys\n'
    'from reset_cycles.research import workers\n'
    f'from helpers.study_workers import {work}\n'
    'if __name__ == "__main__":\n'
    '  signal.signal(signal.SIGINT, signal.default_int_handler)\n'
    f'  workers.train_all([1, 2, 3], pathlib.Path(sys.argv[1]), 2, {work})\n'
  )
  (folder / 'parent.py').write_text(script)
  environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}
  command = [sys.executable, 'parent.py', str(folder)]
  parent = subprocess.Popen(
    command,
    **{'cwd': folder, 'env': environment, 'stderr': subprocess.DEVNULL},
    start_new_session=True,
  )
  for _ in range(600):
    if len(pids := [path.stem for path in folder.glob('*.pid')]) == 2:
      return parent, pids
    time.sleep(0.1)
  raise AssertionError('no two workers')


def alive(pids):
  return [pid for pid in pids if pathlib.Path(f'/proc/{pid}').exists()]


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
  parent, pids = start_study(tmp_path, 'sleep')
  parent.kill()
  parent.wait(timeout=60)
  for _ in range(100):
    if not alive(pids):
      return
    time.sleep(0.1)
  for pid in alive(pids):
    os.kill(int(pid), 9)
  pytest.fail('a worker outlives its parent')


@pytest.mark.parametrize('work', ['sleep', 'hold'])
def test_ctrl_c_leaves_no_worker(work, tmp_path):
  """To the group, as a terminal sends it; nobody waits for a run's end."""
  parent, pids = start_study(tmp_path, work)
  try:
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.wait(timeout=60) == -signal.SIGINT
    assert alive(pids) == []
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(parent.pid, signal.SIGKILL)
