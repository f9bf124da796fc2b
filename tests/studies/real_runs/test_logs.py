"""Recorded runs from the benchmark's folders of logs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from reset_cycles.studies.real_runs import logs, reading

ROWS = (
  'global_step,accumulated_submission_time,validation/{loss},validation/{metric}\n'
  '10,5.0,2.0,0.1\n'
  '20,9.0,,0.8\n'
)
META = {
  'workload.target_metric_name': 'accuracy',
  'workload.validation_target_value': 0.75,
  'workload.step_hint': 100,
  'workload.max_allowed_runtime_sec': 50,
}


def write_trial(root, place, loss='loss', metric='accuracy', meta=META):
  folder = root / place
  folder.mkdir(parents=True)
  rows = ROWS.format(loss=loss, metric=metric)
  (folder / 'eval_measurements.csv').write_text(rows)
  if meta:
    (folder / 'meta_data_0.json').write_text(json.dumps(meta))
  return folder


def test_a_workload_of_the_benchmarks(tmp_path):
  place = 'external/mine/study_3/librispeech_deepspeech_pytorch/trial_2'
  write_trial(tmp_path, place, 'ctc_loss', 'wer', None)
  [run] = logs.read_logs(tmp_path)
  assert run[:5] == ('logs', 'external', 'mine', 'pytorch', 'study_3')
  assert run.trial == 'trial_2'
  known = reading.read_workloads()
  assert run.workload == known['librispeech_deepspeech']
  assert run.step.tolist() == [10, 20]
  assert run.seconds.tolist() == [5, 9]
  np.testing.assert_array_equal(run.loss, [2, math.nan])
  assert run.metric.tolist() == [0.1, 0.8]


def test_another_workload_says_what_it_is(tmp_path):
  write_trial(tmp_path, 'mine/study_0/digits_jax/trial_1')
  write_trial(tmp_path, 'mine/study_0/digits/trial_2')
  second, first = logs.read_logs(tmp_path)
  assert first.workload == ('digits', 'accuracy', True, 0.75, 100, 50)
  assert (first.framework, second.framework) == ('jax', '')
  assert first.reached == 1
  assert first.share.tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
  'meta, message',
  [
    (None, 'meta_data_0.json is missing: digits is not a workload'),
    ({**META, 'workload.step_hint': 0}, 'workload.step_hint is 0; it must be'),
    ({**META, 'workload.validation_target_value': None}, 'has no target'),
  ],
)
def test_meta_data_that_say_too_little(tmp_path, meta, message):
  write_trial(tmp_path, 'mine/study_0/digits_jax/trial_1', meta=meta)
  with pytest.raises(ValueError, match=message):
    logs.read_logs(tmp_path)


def test_no_logs(tmp_path):
  with pytest.raises(ValueError, match='give a folder of logs'):
    logs.read_logs(tmp_path)
