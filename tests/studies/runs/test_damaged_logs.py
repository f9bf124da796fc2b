"""Damaged files of runs: what is wrong is said with the file's name."""

from __future__ import annotations

import pytest

from log_files import EVENTS, write_run
from reset_cycles.mini_algoperf import files
from reset_cycles.studies.runs.table import read_run
from reset_cycles.training import events

EVALUATIONS = 'accumulated_submission_time,global_step,validation/error_rate\n'
CYCLES = 'global_step,event,cycle,setting,pace,anchor_local,scale\n'
START = '0,cycle_start,1,1,1,0,1\n'


@pytest.mark.parametrize(
  'name, content, message',
  [
    ('meta_data_0.json', '{"a": ', 'is not valid JSON'),
    ('meta_data_0.json', '[1]', 'must hold an object'),
    ('meta_data_0.json', '{"workload.name": "x"}', 'must have the target'),
    ('flags_0.json', '"x"', 'must hold an object'),
    ('eval_measurements.csv', 'a\n1,2\n', 'more values than there are columns'),
    ('eval_measurements.csv', EVALUATIONS + '1.0,1,x\n', "'x' in a row"),
    ('eval_measurements.csv', EVALUATIONS + '1.0,1.5,0\n', 'whole number'),
    ('eval_measurements.csv', EVALUATIONS + '1.0,-1,0\n', 'whole number'),
    ('eval_measurements.csv', EVALUATIONS + '1.0,1e99,0\n', 'whole number'),
    ('eval_measurements.csv', EVALUATIONS + '1.0,,0\n', 'whole number'),
    ('measurements.csv', 'global_step\ninf\n', 'whole number'),
    ('cycles.csv', CYCLES + START + 'x,reset,,,,,\n', "'x' in a row"),
    (
      'cycles.csv',
      CYCLES + '0,cycle_start,1,9,1,0,1\n',
      'setting .* 1 to 3, the',
    ),
    (
      'cycles.csv',
      CYCLES + '0,cycle_start,1,0,1,0,1\n',
      'setting .* 1 to 3, the',
    ),
    ('cycles.csv', CYCLES + '0,cycle_start,1,1,0,0,1\n', 'pace .* positive'),
    ('cycles.csv', CYCLES + '0,cycle_start,1,1,,0,1\n', 'pace .* positive'),
    ('cycles.csv', CYCLES + '0,cycle_start,1,1,1,inf,1\n', 'anchor_local'),
    ('cycles.csv', CYCLES + '9,clock,1,,1,0,1\n' + START, 'a clock before'),
    ('cycles.csv', CYCLES + '9,cycle_start,1,1,1,0,1\n' + START, 'in order'),
    ('schedule_params.json', '{}', 'is not the configuration of a run'),
    ('schedule_params.json', '[]', 'is not the configuration of a run'),
    ('schedule_params.json', '{', 'is not the configuration of a run'),
    (
      'schedule_params.json',
      '[' * 100_000,
      'is not the configuration of a run',
    ),
  ],
)
def test_the_file_is_named(name, content, message, tmp_path):
  write_run(tmp_path, EVENTS)
  (tmp_path / name).write_text(content)
  with pytest.raises(ValueError, match=f'(?s){name}.*{message}'):
    read_run(tmp_path)


def test_bytes_that_are_no_text(tmp_path):
  write_run(tmp_path, EVENTS)
  (tmp_path / events.CYCLES).write_bytes(b'\xff\x00\n')
  with pytest.raises(ValueError, match='cycles.csv'):
    read_run(tmp_path)


def test_half_a_line_is_ignored(tmp_path):
  write_run(tmp_path, EVENTS)
  path = tmp_path / events.CYCLES
  path.write_text(path.read_text() + '40,reset,3')
  assert read_run(tmp_path).resets == [(20, 0.25)]


def test_an_evaluation_without_its_metric_is_kept(tmp_path):
  # As under a workload's other name for it: nothing is drawn, nothing breaks.
  write_run(tmp_path)
  path = tmp_path / 'meta_data_0.json'
  meta = files.read_json(path)
  meta['workload.target_metric_name'] = 'other'
  files.write_json(path, meta)
  assert read_run(tmp_path).metric.size == 3
