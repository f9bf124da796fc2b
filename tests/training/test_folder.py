"""Where the files of a run go."""

from __future__ import annotations

import collections
import json
import os

import pytest
from absl import flags

from reset_cycles.training.folder import find_folder


@pytest.fixture
def parse_flags(monkeypatch):
  """Replaces absl's flags by some of the runner's, parsed."""

  def parse(**values):
    own = flags.FlagValues()
    for name, value in values.items():
      flags.DEFINE_string(name, value, '', flag_values=own)
    own(['program'])
    monkeypatch.setattr(flags, 'FLAGS', own)

  return parse


@pytest.fixture
def experiment(tmp_path, parse_flags):
  parse_flags(
    experiment_dir=str(tmp_path),
    experiment_name='name',
    workload='ogbg',
    framework='jax',
  )
  folder = tmp_path / 'name' / 'ogbg_jax'
  folder.mkdir(parents=True)
  return folder


Point = collections.namedtuple('Hyperparameters', ['alpha'])


def make_trial(experiment, number, point=None):
  trial = experiment / f'trial_{number}'
  trial.mkdir()
  if point is not None:
    (trial / 'hparams.json').write_text(json.dumps(point._asdict()))
  return trial


def test_self_tuning_has_one_trial(experiment):
  assert find_folder(None) is None  # not made yet
  trial = make_trial(experiment, 1)
  assert find_folder(None) == trial
  assert find_folder({}) == trial  # the benchmark's own tests


def test_external_tuning_has_the_newest_trial_of_the_point(experiment):
  point = Point(0.25)
  make_trial(experiment, 2, point)
  make_trial(experiment, 9, Point(0.5))
  newest = make_trial(experiment, 10, point)
  make_trial(experiment, 11)
  assert find_folder(point) == newest
  assert find_folder(Point(0.75)) is None


@pytest.mark.parametrize(
  'content', [b'{"alpha": 0.2', b'', b'[0.25]', b'null', b'\xff\xfe', None]
)
def test_the_file_of_another_trial_is_no_point_or_not_whole_yet(
  experiment, content
):
  point = Point(0.25)
  trial = make_trial(experiment, 1, point)
  damaged = make_trial(experiment, 2) / 'hparams.json'
  if content is None:
    damaged.mkdir()  # no file at all
  else:
    damaged.write_bytes(content)
  assert find_folder(point) == trial


@pytest.mark.parametrize(
  'name', ['trial_x', 'trial_', 'trial_1_old', 'trial_0x1']
)
def test_a_folder_that_is_no_trial(experiment, name):
  point = Point(0.25)
  unrelated = experiment / name
  unrelated.mkdir()
  (unrelated / 'hparams.json').write_text(json.dumps(point._asdict()))
  assert find_folder(point) is None
  trial = make_trial(experiment, 1, point)
  assert find_folder(point) == trial


def test_a_name_with_a_timestamp(tmp_path, monkeypatch):
  own = flags.FlagValues()
  for name, value in {
    'experiment_dir': str(tmp_path),
    'experiment_name': 'name',
    'workload': 'ogbg',
    'framework': 'jax',
  }.items():
    flags.DEFINE_string(name, value, '', flag_values=own)
  flags.DEFINE_boolean('append_timestamp', True, '', flag_values=own)
  own(['program'])
  monkeypatch.setattr(flags, 'FLAGS', own)
  assert find_folder(None) is None
  for time, name in ((2, 'name-2026-01-02'), (1, 'name-2026-01-01')):
    folder = tmp_path / name
    (folder / 'ogbg_jax' / 'trial_1').mkdir(parents=True)
    os.utime(folder, (time, time))
  expected = tmp_path / 'name-2026-01-02' / 'ogbg_jax' / 'trial_1'
  assert find_folder(None) == expected


def test_no_flags(monkeypatch, parse_flags, tmp_path):
  monkeypatch.setattr(flags, 'FLAGS', flags.FlagValues())
  assert find_folder(None) is None  # not parsed
  parse_flags(workload='ogbg', framework='jax')
  assert find_folder(None) is None  # not defined
  parse_flags(experiment_dir=None, workload='ogbg', framework='jax')
  assert find_folder(None) is None  # not given
  parse_flags(experiment_dir=str(tmp_path), workload='ogbg', framework='jax')
  trial = tmp_path / 'ogbg_jax' / 'trial_1'
  trial.mkdir(parents=True)
  assert find_folder(None) == trial  # without an experiment name
