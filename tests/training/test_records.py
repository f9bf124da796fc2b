"""The files of a run and where they go."""

from __future__ import annotations

import builtins
import collections
import json
import math
import os

import numpy as np
import pytest
from absl import flags
from matplotlib.figure import Figure

from reset_cycles.schedule_params import SCHEDULE_PARAMS, ScheduleParams
from reset_cycles.training import records


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
  assert records.find_folder(None) is None  # not made yet
  trial = make_trial(experiment, 1)
  assert records.find_folder(None) == trial
  assert records.find_folder({}) == trial  # the benchmark's own tests


def test_external_tuning_has_the_newest_trial_of_the_point(experiment):
  point = Point(0.25)
  make_trial(experiment, 2, point)
  make_trial(experiment, 9, Point(0.5))
  newest = make_trial(experiment, 10, point)
  make_trial(experiment, 11)
  assert records.find_folder(point) == newest
  assert records.find_folder(Point(0.75)) is None


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
  assert records.find_folder(None) is None
  for time, name in ((2, 'name-2026-01-02'), (1, 'name-2026-01-01')):
    folder = tmp_path / name
    (folder / 'ogbg_jax' / 'trial_1').mkdir(parents=True)
    os.utime(folder, (time, time))
  expected = tmp_path / 'name-2026-01-02' / 'ogbg_jax' / 'trial_1'
  assert records.find_folder(None) == expected


def test_no_flags(monkeypatch, parse_flags, tmp_path):
  monkeypatch.setattr(flags, 'FLAGS', flags.FlagValues())
  assert records.find_folder(None) is None  # not parsed
  parse_flags(workload='ogbg', framework='jax')
  assert records.find_folder(None) is None  # not defined
  parse_flags(experiment_dir=None, workload='ogbg', framework='jax')
  assert records.find_folder(None) is None  # not given
  parse_flags(experiment_dir=str(tmp_path), workload='ogbg', framework='jax')
  trial = tmp_path / 'ogbg_jax' / 'trial_1'
  trial.mkdir(parents=True)
  assert records.find_folder(None) == trial  # without an experiment name


def test_configuration_round_trip(tmp_path):
  params = ScheduleParams(reset_mode='full', lengths=(1, 2, 3))
  records.write_configuration(tmp_path, 800, params)
  assert records.read_configuration(tmp_path) == (800, params)
  written = json.loads((tmp_path / records.CONFIGURATION).read_text())
  assert written['schedule_params']['hparams']['warmup_factor'] == 0.02


def test_events(tmp_path):
  assert records.read_events(tmp_path) == []
  records.keep_events_before(tmp_path, 0)
  records.append_events(tmp_path, [{'event': 'cycle_start', 'cycle': 1}], 0)
  rows = [{'event': 'evaluation', 'loss': 0.5}, {'event': 'reset', 'tau': 1.0}]
  records.append_events(tmp_path, rows, 7)
  lines = (tmp_path / records.CYCLES).read_text().splitlines()
  assert lines == [
    'global_step,event,cycle,reason,cycle_end,pace,peak_value,evaluation,loss,'
    'smoothed_loss,derivative,case1,case2,stopping,learning_rate,mode,tau,'
    'alpha,metric,metric_step',
    '0,cycle_start,1,,,,,,,,,,,,,,,,,',
    '7,evaluation,,,,,,,0.5,,,,,,,,,,,',
    '7,reset,,,,,,,,,,,,,,,1.0,,,',
  ]
  records.keep_events_before(tmp_path, 7)
  kept = (tmp_path / records.CYCLES).read_text().splitlines()
  assert kept == lines[:2]
  assert [path.name for path in tmp_path.iterdir()] == [records.CYCLES]


def test_a_torn_last_line_is_ignored(tmp_path):
  records.keep_events_before(tmp_path, 0)
  records.append_events(tmp_path, [{'event': 'hold', 'cycle': 3}], 7)
  with (tmp_path / records.CYCLES).open('a') as log:
    log.write('12,finish,3,cycles ha')
  assert [row['event'] for row in records.read_events(tmp_path)] == ['hold']


def test_an_unknown_column_is_refused_and_nothing_lost(tmp_path):
  records.append_events(tmp_path, [{'event': 'hold'}], 3)
  before = (tmp_path / records.CYCLES).read_text()
  with pytest.raises(ValueError, match='unheard_of'):
    records.append_events(tmp_path, [{'unheard_of': 1}], 4)
  assert (tmp_path / records.CYCLES).read_text() == before


class Logger:
  def __init__(self):
    self.calls = []

  def append_scalar_metrics(self, metrics, global_step):
    self.calls.append((metrics, global_step))


def test_log_scalars():
  logger = Logger()
  rows = [
    {'event': 'evaluation', 'cycle': 1, 'loss': 9.0, 'derivative': math.nan},
    {'event': 'reset', 'cycle': 2, 'tau': 0.25},
  ]
  records.log_scalars(logger, rows, {'loss': np.float32(0.5)}, 7)
  assert logger.calls == [({'cycle': 2.0, 'tau': 0.25, 'loss': 0.5}, 7)]


def test_plot_schedule():
  axes = Figure().add_subplot()
  records.plot_schedule(axes, 300, SCHEDULE_PARAMS)
  curve, *boundaries = axes.lines
  steps, rates = curve.get_data()
  assert (steps[0], steps[-1], len(steps)) == (0, 599, 600)
  assert [line.get_xdata()[0] for line in boundaries] == [200, 400]
  peak = SCHEDULE_PARAMS.hparams.learning_rate
  assert steps[np.argmax(rates)] == 4  # the warm-up is 2 % of 200 steps
  assert rates.max() == pytest.approx(peak)


def test_draw_schedule(tmp_path):
  records.draw_schedule(tmp_path, 300, SCHEDULE_PARAMS)
  picture = (tmp_path / records.SCHEDULE_PICTURE).read_bytes()
  assert picture[:8] == b'\x89PNG\r\n\x1a\n'


def test_no_picture_without_matplotlib(tmp_path, monkeypatch):
  real_import = builtins.__import__

  def without(name, *args):
    if name.startswith('matplotlib'):
      raise ImportError(name)
    return real_import(name, *args)

  monkeypatch.setattr(builtins, '__import__', without)
  records.draw_schedule(tmp_path, 300, SCHEDULE_PARAMS)
  assert list(tmp_path.iterdir()) == []
