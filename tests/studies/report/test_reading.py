"""What is read of a run for its page."""

from __future__ import annotations

import math
import os

import pytest

from log_files import EVENTS, write_run
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import THESIS
from reset_cycles.studies.report.reading import read_all, read_reported


def read(folder, *events, **settings):
  write_run(folder, events, **settings)
  return read_reported(folder)


@pytest.mark.parametrize(
  ('metric', 'reached', 'best'),
  [
    ((0.9, 0.2, math.nan), None, 1),
    ((0.9, 0.03, 0.02), 1, 2),  # a target that is met exactly is reached
    ((math.nan, math.inf, math.nan), None, None),
  ],
)
def test_target_and_best_of_a_metric_that_falls(
  metric, reached, best, tmp_path
):
  run = read(tmp_path, *EVENTS, metric=metric)
  assert not run.rises
  assert (run.reached, run.best()) == (reached, best)


def test_a_metric_that_rises(tmp_path):
  write_run(tmp_path, metric=(0.01, 0.03, 0.02))
  meta = files.read_json(tmp_path / 'meta_data_0.json')
  files.write_json(
    tmp_path / 'meta_data_0.json', {**meta, 'workload.metric_rises': True}
  )
  run = read_reported(tmp_path)
  assert (run.rises, run.reached, run.best()) == (True, 1, 1)


def test_the_best_between_two_steps(tmp_path):
  run = read(tmp_path, *EVENTS, metric=(0.1, 0.3, 0.2))
  # The evaluations are after steps 1, 30 and 60.
  assert run.best() == 0
  assert run.best(after=1) == 2
  assert run.best(after=1, upto=30) == 1
  assert run.best(after=60) is None


def test_seconds_between_evaluations(tmp_path):
  run = read(tmp_path, *EVENTS)
  assert run.seconds_at(30) == 3.0
  assert run.seconds_at(15.5) == pytest.approx(0.1 + 2.9 / 2)
  assert math.isnan(run.seconds_at(0)) and math.isnan(run.seconds_at(61))


def test_seconds_of_a_run_that_was_not_evaluated(tmp_path):
  write_run(tmp_path, EVENTS)
  (tmp_path / 'eval_measurements.csv').unlink()
  run = read_reported(tmp_path)
  assert math.isnan(run.seconds_at(20))
  assert (run.reached, run.best()) == (None, None)


def test_settings_by_field(tmp_path):
  run = read(tmp_path, *EVENTS)
  assert run.settings['step_hint'] == '50'
  assert run.settings['reset_mode'] == '"soft"'
  assert run.settings['hparams.learning_rate'] == repr(
    THESIS.hparams.learning_rate
  )
  assert 'not_in_force' not in run.settings
  path = tmp_path / 'schedule_params.json'
  files.write_json(
    path, {**files.read_json(path), 'not_in_force': ['label_smoothing']}
  )
  settings = read_reported(tmp_path).settings
  assert settings['not_in_force'] == '["label_smoothing"]'


def test_another_submission_has_neither_events_nor_settings(tmp_path):
  run = read(tmp_path)
  assert (run.events, run.settings) == ([], {})


def test_the_page_does_not_say_where_or_on_what_host(tmp_path):
  folder = tmp_path / 'me' / 'peaks' / 'digits_jax' / 'trial_1'
  folder.mkdir(parents=True)
  write_run(folder, EVENTS)
  path = folder / 'meta_data_0.json'
  more = {'jax_version': '1', 'host': 'h', 'cpu.util': 3, 'git_branch': 'b'}
  files.write_json(path, {**files.read_json(path), **more})
  run = read_reported(folder)
  assert run.place == 'peaks/digits_jax/trial_1'
  assert run.name == 'peaks, seed 1'
  assert run.about == {
    'workload.name': 'digits',
    'workload.target_metric_name': 'error_rate',
    'workload.validation_target_value': '0.03',
    'jax_version': '1',
  }


def test_runs_of_the_same_name_are_told_apart(tmp_path):
  folders = []
  for name, seed in (('a', 1), ('b', 1), ('b2', 2)):
    folders.append(tmp_path / name / 'digits_jax' / 'trial_1')
    folders[-1].mkdir(parents=True)
    write_run(folders[-1], EVENTS, seed=seed)
  assert [run.name for run in read_all(folders)] == [
    'peaks, seed 1 (a/digits_jax/trial_1)',
    'peaks, seed 1 (b/digits_jax/trial_1)',
    'peaks, seed 2',
  ]


def test_when_files_were_written_and_those_that_are_being_written(tmp_path):
  write_run(tmp_path, EVENTS)
  for path in tmp_path.iterdir():
    os.utime(path, (1e9, 1e9))
  os.utime(tmp_path / 'cycles.csv', (2e9, 2e9))
  (tmp_path / '.cycles.csv.7.tmp').symlink_to('gone')
  assert read_reported(tmp_path).written == 2e9


def test_half_a_line_of_a_run_that_is_going_is_left_out(tmp_path):
  write_run(tmp_path, EVENTS)
  with (tmp_path / 'cycles.csv').open('a') as log:
    log.write('60,swi')
  with (tmp_path / 'eval_measurements.csv').open('a') as log:
    log.write('7.0,9')
  run = read_reported(tmp_path)
  assert [event['event'] for event in run.events] == [
    'cycle_start',
    'switch',
    'reset',
    'cycle_start',
  ]
  assert run.table.eval_steps.tolist() == [1, 30, 60]
