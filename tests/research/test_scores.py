"""AlgoPerf's score, from times to the targets, of logs and recorded runs."""

import math
import pathlib

import numpy as np
import pytest

from helpers.log_files import write_trial
from reset_cycles.research import scores
from reset_cycles.research.replay import recorded as reading
from reset_cycles.research.scores import TrialTimes
from reset_cycles.views.run_files import MetricTarget

NEVER = math.inf


@pytest.mark.parametrize(
  ('relative', 'exact'),
  [
    ([1.0, 1.0], 1.0),
    ([NEVER, NEVER], 0.0),
    ([4.0], 0.0),
    ([1.0, 2.5], 0.75),  # (3 + 1.5) / 6
    ([1.0, 2.0, NEVER], 5 / 9),
  ],
)
def test_the_score_is_the_area_under_the_profile(relative, exact):
  # A point of 100 is 3 / 99 wide: each stair is off by half of that at most.
  assert abs(scores.score(np.array(relative)) - exact) <= 0.5 / 99 + 1e-15


@pytest.mark.parametrize(
  'variant, base, kept',
  [
    (30.0, 20.0, 20.0),
    (NEVER, 20.0, NEVER),  # not on the variant
    (41.0, 20.0, NEVER),  # not soon enough on it
    (40.0, 20.0, 20.0),
    (30.0, NEVER, NEVER),
    (30.0, 80.0, NEVER),
  ],
)
def test_a_base_workload_counts_with_its_variant(variant, base, kept):
  times = {
    'fast': {'ogbg': 10.0, 'ogbg_model_size': 10.0},
    'one': {'ogbg': base, 'ogbg_model_size': variant},
  }
  counted = scores.base_times(times, ['ogbg'])
  assert counted == {'fast': {'ogbg': 10.0}, 'one': {'ogbg': kept}}


def write(root, place, values, metric='accuracy', **meta):
  """A trial that was evaluated every 10 seconds of 50."""
  rows = [(i, 10.0 * i, v, 2.0 * i) for i, v in enumerate(values, start=1)]
  meta = {'target': 0.5, 'max_allowed_runtime_sec': 50, **meta}
  write_trial(root / place, rows, metric, **meta)


@pytest.mark.parametrize(
  ('metric', 'target', 'rises', 'seconds'),
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
  found = MetricTarget('m', target, rises).seconds(at, np.array(metric))
  assert found == seconds


def test_a_tree_of_logs_is_read(tmp_path):
  write(tmp_path, 'a/study_0/ogbg_jax/trial_1', [0.1, 0.6])
  write(tmp_path, 'a/study_1/ogbg_jax/trial_1', [0.6])
  write(tmp_path, 'b/study_0/wmt_glu_tanh_pytorch/trial_2', [0.1])
  write(tmp_path, 'b/study_0/ogbg_jax/trial_1', [])
  write(tmp_path, 'b/study_0/c_jax/trial_1', [0.6, 0.5], 'wer')
  place = 'b/study_0/own_jax/trial_1'
  write(tmp_path, place, [0.1, 0.6], 'reward', metric_rises=True)
  assert reading.times(reading.read_logs(tmp_path)) == [
    TrialTimes('a', 'study_0', 'ogbg', 20.0),
    TrialTimes('a', 'study_1', 'ogbg', 10.0),
    TrialTimes('b', 'study_0', 'c', 20.0),
    TrialTimes('b', 'study_0', 'ogbg', NEVER),
    TrialTimes('b', 'study_0', 'own', 20.0),
    TrialTimes('b', 'study_0', 'wmt_glu_tanh', NEVER),
  ]


def test_the_best_trial_and_the_median_study_count():
  trials = [
    TrialTimes('a', 'study_0', 'x', 30.0),
    TrialTimes('a', 'study_0', 'x', 10.0),
    TrialTimes('a', 'study_1', 'x', NEVER),
    TrialTimes('a', 'study_2', 'x', 20.0),
    TrialTimes('a', 'study_0', 'y', NEVER),
    TrialTimes('a', 'study_1', 'y', 5.0),
  ]
  assert scores.study_times(trials) == {
    'a': {
      'x': {'study_0': 10.0, 'study_1': NEVER, 'study_2': 20.0},
      'y': {'study_0': NEVER, 'study_1': 5.0},
    }
  }
  assert scores.median_times(trials) == {'a': {'x': 20.0, 'y': NEVER}}


def test_a_trial_of_the_benchmarks_logs(tmp_path, monkeypatch):
  place = 'external/mine/study_3/librispeech_deepspeech_pytorch/trial_2'
  write(tmp_path, place, [0.1, 0.8], 'wer', loss='ctc_loss')
  monkeypatch.chdir(tmp_path / 'external' / 'mine')
  [run] = reading.read_logs(pathlib.Path())
  assert run[:4] == ('logs', 'external', 'mine', 'study_3')
  assert run.trial == 'trial_2'
  target = ('wer', 0.5, False)
  assert run.workload == ('librispeech_deepspeech', target, 100, 50)
  assert (run.step.tolist(), run.seconds.tolist()) == ([1, 2], [10, 20])
  assert (run.loss.tolist(), run.metric.tolist()) == ([2, 4], [0.1, 0.8])
  assert run.share.tolist() == [0.2, 0.4]


@pytest.mark.parametrize(
  ('metric', 'changes', 'message'),
  [
    ('reward', {}, "meta_data_0.json: .* 'reward' should"),
    ('wer', {'step_hint': 0}, 'step_hint is 0; it must be above 0'),
    ('wer', {'target': None}, 'meta_data_0.json must have the target'),
  ],
)
def test_meta_data_that_say_too_little(metric, changes, message, tmp_path):
  with pytest.raises(ValueError, match='give a folder of logs'):
    reading.read_logs(tmp_path)
  write(tmp_path, 'a/study_0/own_jax/trial_1', [0.1], metric, **changes)
  with pytest.raises(ValueError, match=message):
    reading.read_logs(tmp_path)


def test_trials_of_two_experiments_are_not_taken_together(tmp_path):
  place = 'a/study_0/ogbg_jax/trial_1'
  for experiment in ('one', '.running'):
    write(tmp_path, f'{experiment}/{place}', [0.6])
  assert len(reading.read_logs(tmp_path)) == 1
  write(tmp_path, f'two/{place}', [0.6])
  message = f'has a trial twice, .*/one/{place} and .*/two/{place}: give a'
  with pytest.raises(ValueError, match=message):
    reading.read_logs(tmp_path)


def test_held_out_workloads_alone_have_no_score():
  trials = [TrialTimes('a', 'study_0', 'ogbg_model_size', 1.0)]
  with pytest.raises(ValueError, match='need a base .* only ogbg_model_size'):
    scores.entries(trials)


def test_the_scores_of_2024_are_those_that_were_published():
  found = scores.entries(reading.times(reading.self_tuning()))
  assert {e.submission: round(e.score, 4) for e in found} == {
    'schedule_free_adamw': 0.8542,
    'baseline': 0.8194,
    'nadamw_sequential': 0.3308,
    'sinv6_75': 0.142,
    'sinv6': 0.0903,
    'adamg': 0.0,
  }


TRIALS = [
  TrialTimes('slow', 'study_0', 'x', 20.0),
  TrialTimes('slow', 'study_1', 'x', 24.0),
  TrialTimes('slow', 'study_2', 'x', math.inf),
  TrialTimes('slow', 'study_0', 'y', math.inf),
  TrialTimes('fast', 'study_0', 'x', 12.0),
  TrialTimes('fast', 'study_0', 'y', 1234.4),
  TrialTimes('none', 'study_0', 'x', math.inf),
]


def test_scores_and_times_in_words():
  # Of slow's workloads one has r = 2: half of 66.5 of 99 stairs.
  assert scores.score_lines(TRIALS) == [
    '     submission  score   targets',
    '  1  fast        1.0000  2 of 2',
    '  2  slow        0.3359  1 of 2',
    '  3  none        0.0000  0 of 2',
    '',
    'Seconds to the target, median over studies; (3/5): in three of five;',
    'never: in at most half of the studies; -: there is no run.',
    '  workload  1      2         3',
    '  x         12     24 (2/3)  never',
    '  y         1,234  never     -',
  ]
