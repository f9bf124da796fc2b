"""Times to the targets, from folders of logs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles.mini_algoperf import files
from reset_cycles.studies.scores import times
from reset_cycles.studies.scores.times import TrialTimes

NEVER = math.inf


def write_trial(root, place, metric, name='accuracy', target=0.5, **meta):
  """A trial that was evaluated every 10 seconds."""
  folder = root / place
  folder.mkdir(parents=True)
  files.write_json(
    folder / 'meta_data_0.json',
    {
      'workload.target_metric_name': name,
      'workload.validation_target_value': target,
      **meta,
    },
  )
  if metric:
    rows = [
      {
        'accumulated_submission_time': 10.0 * i,
        'global_step': i,
        f'validation/{name}': value,
      }
      for i, value in enumerate(metric, start=1)
    ]
    files.write_rows(folder / 'eval_measurements.csv', list(rows[0]), rows)


@pytest.mark.parametrize(
  'metric, target, rises, seconds',
  [
    ([0.1, 0.5, 0.4, 0.6], 0.5, True, 20.0),  # met exactly
    ([0.1, 0.49], 0.5, True, NEVER),
    ([0.9, 0.5, 0.6], 0.5, False, 20.0),
    ([0.9, 0.51], 0.5, False, NEVER),
    ([math.nan, math.inf, 0.7], 0.6, True, 20.0),
    ([math.nan, math.inf, 0.5], 0.6, False, 30.0),
    ([], 0.5, True, NEVER),
  ],
)
def test_a_target_is_reached_at_the_first_evaluation_there(
  metric, target, rises, seconds
):
  at = 10.0 * np.arange(1, len(metric) + 1)
  found = times.time_to_target(at, np.array(metric), target, rises)
  assert found == seconds


def test_a_tree_of_logs_is_read(tmp_path):
  write_trial(tmp_path, 'a/study_0/ogbg_jax/trial_1', [0.1, 0.6])
  write_trial(tmp_path, 'a/study_1/ogbg_jax/trial_1', [0.6])
  write_trial(tmp_path, 'b/study_0/wmt_glu_tanh_pytorch/trial_2', [0.1])
  write_trial(tmp_path, 'b/study_0/ogbg_jax/trial_1', [])
  write_trial(tmp_path, 'b/study_0/c_jax/trial_1', [0.6, 0.5], 'wer', 0.5)
  assert times.read_trials(tmp_path) == [
    TrialTimes('a', 'study_0', 'ogbg', 20.0),
    TrialTimes('a', 'study_1', 'ogbg', 10.0),
    TrialTimes('b', 'study_0', 'c', 20.0),
    TrialTimes('b', 'study_0', 'ogbg', NEVER),
    TrialTimes('b', 'study_0', 'wmt_glu_tanh', NEVER),
  ]


def test_a_workload_says_whether_its_metric_rises(tmp_path):
  place = 'a/study_0/own_jax/trial_1'
  rises = {'workload.metric_rises': True}
  write_trial(tmp_path, place, [0.1, 0.6], 'reward', **rises)
  [trial] = times.read_trials(tmp_path)
  assert trial.seconds == 20.0


def test_a_metric_that_is_not_known_is_refused(tmp_path):
  write_trial(tmp_path, 'a/study_0/own_jax/trial_1', [0.1], 'reward')
  with pytest.raises(ValueError, match="meta_data_0.json: .* 'reward' should"):
    times.read_trials(tmp_path)


def test_a_trial_without_a_target_is_refused(tmp_path):
  folder = tmp_path / 'a/study_0/own_jax/trial_1'
  folder.mkdir(parents=True)
  files.write_json(folder / 'meta_data_0.json', {})
  with pytest.raises(ValueError, match='meta_data_0.json has no target'):
    times.read_trials(tmp_path)


def test_a_folder_without_logs_is_refused(tmp_path):
  with pytest.raises(ValueError, match='give a folder of submissions'):
    times.read_trials(tmp_path)


def test_the_best_trial_and_the_median_study_count():
  trials = [
    TrialTimes('a', 'study_0', 'x', 30.0),
    TrialTimes('a', 'study_0', 'x', 10.0),
    TrialTimes('a', 'study_1', 'x', NEVER),
    TrialTimes('a', 'study_2', 'x', 20.0),
    TrialTimes('a', 'study_0', 'y', NEVER),
    TrialTimes('a', 'study_1', 'y', 5.0),
  ]
  assert times.study_times(trials) == {
    'a': {
      'x': {'study_0': 10.0, 'study_1': NEVER, 'study_2': 20.0},
      'y': {'study_0': NEVER, 'study_1': 5.0},
    }
  }
  assert times.median_times(trials) == {'a': {'x': 20.0, 'y': NEVER}}
