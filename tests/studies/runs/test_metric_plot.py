"""What is drawn of a run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from log_files import EVENTS, write_run
from reset_cycles.studies.runs import metric_plot
from reset_cycles.studies.runs.table import Losses, RunTable

TABLE = RunTable(
  workload='digits',
  name='peaks',
  seed=3,
  metric_name='error_rate',
  target=0.03,
  eval_steps=np.array([1, 30, 60]),
  metric=np.array([0.9, 0.2, 0.1]),
  eval_times=np.array([0.1, 3.0, 6.0]),
  last_step=60,
  rate_steps=np.arange(60),
  rates=np.linspace(0.0, 0.1, 60),
  cycle_starts=[0, 20],
  cycle_ends=[20, 60],
  warmups=[(0, 0), (20, 20)],
  losses=Losses(*np.zeros((4, 0))),
  resets=[(20, 0.25), (40, 0.5)],
  switches=[(40, 'loss rises')],
)


def test_metric_target_and_marks_are_drawn():
  axes = Figure().subplots()
  metric_plot.draw_metric(axes, TABLE)
  labels = [text.get_text() for text in axes.get_legend().get_texts()]
  assert labels == [
    'validation',
    'target 0.03',
    'reset, with its τ',
    'early switch',
  ]
  lines = {line.get_label(): line for line in axes.get_lines()}
  np.testing.assert_array_equal(
    lines['validation'].get_xydata(), [[1, 0.9], [30, 0.2], [60, 0.1]]
  )
  assert lines['target 0.03'].get_ydata() == [0.03, 0.03]
  assert lines['early switch'].get_xdata() == [40]
  assert [text.get_text() for text in axes.texts] == ['τ = 0.25', 'τ = 0.5']
  assert [text.xy[0] for text in axes.texts] == [20, 40]
  dash_dotted = [x for x in axes.get_lines() if x.get_linestyle() == '-.']
  assert [x.get_xdata() for x in dash_dotted] == [[20, 20], [40, 40]]
  assert axes.get_ylabel() == 'error rate (validation)'


def test_learning_rate_is_drawn():
  axes = Figure().subplots()
  metric_plot.draw_learning_rate(axes, TABLE)
  np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), TABLE.rates)
  assert axes.get_ylabel() == 'learning rate'


@pytest.mark.parametrize(
  'metric, target, scale',
  [
    ((0.9, 0.2, 0.05), 0.03, 'log'),
    ((0.9, 0.2, 0.0), 0.03, 'linear'),  # zero has no place on a log axis
    ((0.5, 0.6, 0.7), 0.8, 'linear'),
    ((0.01, 5.0, 70.0), 80.0, 'linear'),  # rises: it is low far from there
    ((math.nan,) * 3, 0.03, 'linear'),
  ],
)
def test_scale_shows_what_happens_near_the_target(metric, target, scale):
  axes = Figure().subplots()
  table = TABLE._replace(metric=np.array(metric), target=target)
  metric_plot.draw_metric(axes, table)
  assert axes.get_yscale() == scale


@pytest.mark.parametrize('events', [EVENTS, ()])
def test_a_picture_is_saved(events, tmp_path):
  write_run(tmp_path, events)
  path = metric_plot.save_metric_plot(tmp_path)
  assert path == tmp_path / 'metric.png'
  assert path.read_bytes().startswith(b'\x89PNG')


def test_a_picture_of_a_run_that_was_never_evaluated(tmp_path):
  write_run(tmp_path)
  for name in ('eval_measurements.csv', 'measurements.csv'):
    (tmp_path / name).unlink()
  assert metric_plot.save_metric_plot(tmp_path).exists()


@pytest.mark.parametrize(
  'name, seed, title',
  [
    ('peaks', 3, 'digits: peaks, seed 3'),
    ('', 3, 'digits: seed 3'),
    ('peaks', None, 'digits: peaks'),
    ('', None, 'digits'),
  ],
)
def test_the_title_names_run_and_seed(name, seed, title):
  assert metric_plot.title(TABLE._replace(name=name, seed=seed)) == title


def test_taus_of_many_resets_are_written_where_there_is_room():
  axes = Figure().subplots()
  resets = [(step, 0.5) for step in range(0, 60, 2)]
  metric_plot.draw_metric(axes, TABLE._replace(resets=resets, switches=[]))
  # 11 % of 60 steps.
  assert [text.xy[0] for text in axes.texts] == list(range(0, 60, 8))
  dash_dotted = [x for x in axes.get_lines() if x.get_linestyle() == '-.']
  assert len(dash_dotted) == 30
