"""Recorded runs, those that are shipped and those of a folder of a user's."""

from __future__ import annotations

import collections
import math

import numpy as np
import pytest

from reset_cycles.studies.real_runs import reading

RUNS = (
  'board,ruleset,submission,framework,study,workload,trial,hparams\n'
  'v05,external,a,jax,study_0,up,trial_1,"{""x"": 1}"\n'
  'v05,external,a,jax,study_0,down,trial_2,\n'
  'v05,external,a,jax,study_0,down,trial_3,\n'
)
WORKLOADS = (
  'workload,metric,direction,validation_target,step_hint_v05,max_runtime_v05,'
  'step_hint_a100,max_runtime_a100\n'
  'up,accuracy,rises,0.75,100,50,90,40\n'
  'down,wer,falls,0.25,,,200,400\n'
)
ARRAYS = {
  'first': [0, 3, 5, 5],
  'step': [10, 20, 60, 50, 100],
  'seconds': [4.0, 15.0, 20.0, 80.0, 400.0],
  'loss': [3.0, math.nan, 2.0, 1.0, 0.5],
  'metric': [0.5, 0.75, 0.9, 0.3, 0.26],
}


@pytest.fixture
def folder(tmp_path):
  (tmp_path / 'runs.csv').write_text(RUNS)
  (tmp_path / 'workloads.csv').write_text(WORKLOADS)
  save(tmp_path)
  return tmp_path


def save(folder, **changes):
  arrays = {name: np.array(v) for name, v in {**ARRAYS, **changes}.items()}
  np.savez(folder / 'evaluations.npz', **arrays)


def test_a_folder_of_three_runs(folder):
  up, down, empty = reading.read_runs(folder)
  assert up[:4] == ('v05', 'external', 'a', 'jax')
  assert up.workload == ('up', 'accuracy', True, 0.75, 100.0, 50.0)
  assert (up.study, up.trial, up.hparams) == ('study_0', 'trial_1', '{"x": 1}')
  assert up.step.tolist() == [10, 20, 60]
  assert up.seconds.tolist() == [4, 15, 20]
  np.testing.assert_array_equal(up.loss, [3, math.nan, 2])
  assert up.metric.tolist() == [0.5, 0.75, 0.9]
  assert up.share.tolist() == [0.1, 0.3, 0.6]
  assert up.reached == 1  # met exactly
  # 2024 did not have it.
  assert down.workload == ('down', 'wer', False, 0.25, 200.0, 400.0)
  assert down.share.tolist() == [0.25, 1.0]
  assert down.reached is None
  assert empty.step.shape == (0,) and empty.reached is None


def test_a_metric_that_is_no_number_reaches_nothing(folder):
  save(folder, metric=[math.nan, math.nan, 0.8, math.nan, 0.25])
  assert [run.reached for run in reading.read_runs(folder)] == [2, 1, None]


def test_the_shipped_runs():
  runs = reading.read_runs()
  assert len(runs) == 3521
  assert sum(run.step.size for run in runs) == 232_757
  assert collections.Counter((r.board, r.ruleset) for r in runs) == {
    ('v05', 'external'): 2740,
    ('v05', 'self'): 399,
    ('a100', 'self'): 241,
    ('v06', 'external'): 117,
    ('v06', 'self'): 24,
  }
  workloads = reading.read_workloads()
  assert len(workloads) == 19
  assert workloads['ogbg'][1:] == (
    'mean_average_precision',
    True,
    0.28098,
    80000,
    18477,
  )


@pytest.mark.parametrize(
  'name, old, new, message',
  [
    ('runs.csv', 'study_0,up', 'study_0,left', 'runs on left, which workloads'),
    ('runs.csv', ',hparams', ',other', 'runs.csv lacks hparams'),
    ('runs.csv', RUNS, '', 'runs.csv is missing or has no rows'),
    ('workloads.csv', 'rises', 'climbs', "direction is 'climbs' for up"),
    ('workloads.csv', '0.75', '-1', "validation_target is '-1' for up"),
    ('workloads.csv', '200', 'x', "step_hint_v05 is 'x' for down"),
    ('workloads.csv', '400', 'nan', "max_runtime_v05 is 'nan' for down"),
  ],
)
def test_damaged_tables(folder, name, old, new, message):
  path = folder / name
  path.write_text(path.read_text().replace(old, new))
  with pytest.raises(ValueError, match=message):
    reading.read_runs(folder)


@pytest.mark.parametrize(
  'changes',
  [
    {'first': [0, 3, 5]},
    {'first': [0, 3, 2, 5]},
    {'first': [0, 3, 4, 4]},
    {'loss': [1.0]},
  ],
)
def test_arrays_of_the_wrong_length(folder, changes):
  save(folder, **changes)
  with pytest.raises(ValueError, match='must be 4 rising numbers'):
    reading.read_runs(folder)


def test_damaged_arrays(folder):
  path = folder / 'evaluations.npz'
  np.savez(path, first=np.zeros(4))
  with pytest.raises(ValueError, match='npz cannot be read: .*step'):
    reading.read_runs(folder)
  path.write_bytes(b'PK\x03\x04 and no more')
  with pytest.raises(ValueError, match='npz cannot be read'):
    reading.read_runs(folder)
  path.unlink()
  with pytest.raises(ValueError, match='npz cannot be read'):
    reading.read_runs(folder)
