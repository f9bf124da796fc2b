"""Logs of the registry's runs: found, kept, packed."""

from __future__ import annotations

import zipfile

import pytest

from log_files import EVENTS, write_run
from registry_logs import write_log
from reset_cycles.experiments.settings import RUNS
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.studies.thesis import run_logs
from reset_cycles.studies.thesis.run_logs import Job, RunLog
from reset_cycles.training.configuration import CONFIGURATION
from reset_cycles.training.events import CYCLES

SOFT = Job('molecules', 'peaks_soft', 2)
FULL = Job('molecules', 'peaks_full', 1)


def test_runs_are_known_by_their_settings_wherever_they_are(tmp_path):
  soft = write_log(tmp_path / 'a' / 'any_name' / 'trial_1', SOFT)
  full = write_log(tmp_path / 'b', FULL)
  assert run_logs.find_logs([tmp_path]) == [full, soft]


def test_every_run_of_the_registry_has_settings_of_its_own():
  assert len(set(RUNS.values())) == len(RUNS)


def test_other_settings_and_other_submissions_are_passed_over(tmp_path):
  other = tmp_path / 'other_settings'
  other.mkdir()
  write_run(other, EVENTS, params=ScheduleParams(alpha=0.123))
  foreign = tmp_path / 'other_submission'
  foreign.mkdir()
  write_run(foreign)
  assert run_logs.find_logs([tmp_path]) == []


def test_a_run_of_ours_counts_when_it_has_finished(tmp_path):
  write_log(tmp_path / '.running' / 'run', SOFT)
  write_log(tmp_path / 'killed', SOFT, finished=False)
  write_log(tmp_path / 'other_length', SOFT, step_hint=50)
  for flag in ({'eval_every': 7}, {'eval_by': 'time'}):
    log = write_log(tmp_path / next(iter(flag)), SOFT)
    path = log.log_dir / 'flags_0.json'
    files.write_json(path, {**files.read_json(path), **flag})
  assert run_logs.find_logs([tmp_path]) == []


def test_a_run_of_the_benchmark_counts_as_it_is(tmp_path):
  job = Job('ogbg', 'peaks_soft', 3)
  log = write_log(tmp_path / 'x', job, finished=False, step_hint=80_000)
  assert run_logs.find_logs([tmp_path]) == [log]


@pytest.mark.parametrize('text', ['not JSON', '{"step_hint": 3}', '[]'])
def test_settings_that_cannot_be_read_are_passed_over(text, tmp_path):
  log = write_log(tmp_path / 'x', SOFT)
  (log.log_dir / CONFIGURATION).write_text(text)
  assert run_logs.find_logs([tmp_path]) == []


def test_of_a_run_that_is_there_twice_the_first_root_has_it(tmp_path):
  second = write_log(tmp_path / '1' / 'x', SOFT)
  first = write_log(tmp_path / '2' / 'x', SOFT)
  roots = [tmp_path / '2', tmp_path / '1']
  assert run_logs.find_logs(roots) == [first]
  assert run_logs.find_logs(roots[1:]) == [second]


def test_the_benchmarks_runner_writes_workload_and_seed_among_its_flags(
  tmp_path,
):
  log = write_log(tmp_path / 'x', SOFT)
  path = log.log_dir / 'meta_data_0.json'
  meta = files.read_json(path)
  del meta['workload.name'], meta['rng_seed']
  files.write_json(path, meta)
  assert run_logs.find_logs([tmp_path]) == [log]


def test_a_root_that_is_no_folder(tmp_path):
  with pytest.raises(ValueError, match='nowhere must be a folder of logs'):
    run_logs.find_logs([tmp_path / 'nowhere'])


def test_missing_runs_come_once_in_the_order_of_the_wish(tmp_path):
  logs = [RunLog(SOFT, tmp_path)]
  third = FULL._replace(seed=3)
  wanted = [third, SOFT, FULL, third]
  assert run_logs.missing_jobs(wanted, logs) == [third, FULL]


def test_a_finished_run_is_kept_without_what_nobody_needs(tmp_path):
  log = write_log(tmp_path / 'work', SOFT)
  root = tmp_path / 'kept'
  run_logs.keep(log.log_dir, root, SOFT)
  kept = root / 'molecules' / 'peaks_soft' / 'seed_2'
  assert run_logs.find_logs([root]) == [RunLog(SOFT, kept)]
  assert sorted(path.name for path in kept.iterdir()) == [
    'cycles.csv',
    'eval_measurements.csv',
    'flags_0.json',
    'meta_data_0.json',
    'schedule_params.json',
  ]
  for path in kept.iterdir():
    assert path.read_bytes() == (log.log_dir / path.name).read_bytes()


def test_a_place_that_is_taken_is_noticed_before_training(tmp_path):
  run_logs.check_places([SOFT], tmp_path)
  left = tmp_path / 'molecules' / 'peaks_soft' / 'seed_2'
  left.mkdir(parents=True)
  with pytest.raises(ValueError, match='seed_2 has no finished logs .* --runs'):
    run_logs.check_places([FULL, SOFT], tmp_path)


def test_nothing_is_kept_of_a_run_that_lacks_a_file(tmp_path):
  log = write_log(tmp_path / 'work', SOFT)
  (log.log_dir / CYCLES).unlink()
  with pytest.raises(FileNotFoundError):
    run_logs.keep(log.log_dir, tmp_path / 'kept', SOFT)
  assert not [p for p in (tmp_path / 'kept').rglob('*') if p.is_file()]


def test_archives_are_read_as_the_folders_that_were_packed(tmp_path):
  logs = [
    write_log(tmp_path / f'{job.run}{job.seed}', job)
    for job in (FULL, SOFT, SOFT._replace(seed=5))
  ]
  packed = tmp_path / 'packed'
  paths = run_logs.pack(logs, packed)
  assert [path.name for path in paths] == [
    'molecules_peaks_full.zip',
    'molecules_peaks_soft.zip',
  ]
  with run_logs.unpacked([packed]) as roots:
    found = run_logs.find_logs(roots)
    assert [log.job for log in found] == [log.job for log in logs]
    for log, original in zip(found, logs):
      for name in run_logs.KEPT_FILES:
        expected = (original.log_dir / name).read_bytes()
        assert (log.log_dir / name).read_bytes() == expected
  assert not found[0].log_dir.exists()


def test_the_same_logs_give_the_same_archive(tmp_path):
  log = write_log(tmp_path / 'x', SOFT)
  contents = []
  for name in ('a', 'b'):
    [path] = run_logs.pack([log], tmp_path / name)
    contents.append(path.read_bytes())
  assert contents[0] == contents[1]


def test_what_is_no_archive_is_named(tmp_path):
  (tmp_path / 'x.zip').write_text('not an archive')
  with pytest.raises(ValueError, match='x.zip is not a zip archive of logs'):
    with run_logs.unpacked([tmp_path]):
      pass


def test_an_archive_ranks_where_its_root_does(tmp_path):
  roots = [tmp_path / name for name in ('first', 'second')]
  for root, value in zip(roots, ('1', '2')):
    log = write_log(tmp_path / f'log{value}', SOFT)
    (log.log_dir / 'eval_measurements.csv').write_text(value)
    run_logs.pack([log], root)
  write_log(roots[1] / 'x', SOFT)
  for order in (roots, roots[::-1]):
    with run_logs.unpacked(order) as folders:
      [found] = run_logs.find_logs(folders)
      text = (found.log_dir / 'eval_measurements.csv').read_text()
    assert text[:1] == ('1' if order == roots else 'g')


def test_other_archives_are_left_alone(tmp_path):
  with zipfile.ZipFile(tmp_path / 'x.zip', 'w') as archive:
    archive.writestr('../outside.txt', 'no logs')
  with run_logs.unpacked([tmp_path]) as folders:
    assert folders == [tmp_path]
