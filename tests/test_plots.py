"""What is read from a run's files, and what is drawn of it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from soft_reset import records
from soft_reset.mini_algoperf import files, plots
from soft_reset.mini_algoperf.run_table import RunTable, read_run
from soft_reset.schedule_params import SCHEDULE_PARAMS

STEP_HINT = 50  # three cycles of 34, 33 and 33 steps


def write_run(folder, events=(), metric=(0.9, 0.2, math.nan)):
  """The files of a run of 60 steps that was evaluated after 1, 30 and 60."""
  meta = {
    'workload.name': 'digits',
    'workload.target_metric_name': 'error_rate',
    'workload.validation_target_value': 0.03,
  }
  files.write_json(folder / 'meta_data_0.json', meta)
  rows = [
    {'global_step': step, 'validation/error_rate': value}
    for step, value in zip((1, 30, 60), metric)
  ]
  columns = ['global_step', 'validation/error_rate', 'learning_rate']
  files.write_rows(folder / 'eval_measurements.csv', columns, rows)
  logged = [{'global_step': s, 'learning_rate': s / 1e4} for s in (1, 30)]
  last = {'global_step': 60}
  files.write_rows(folder / 'measurements.csv', columns, [*rows, *logged, last])
  if events:
    records.write_configuration(folder, STEP_HINT, SCHEDULE_PARAMS)
    files.write_rows(folder / records.CYCLES, records.COLUMNS, events)


# Cycle 1 is left after 20 steps; the other two share the remaining 80.
EVENTS = [
  {'global_step': 0, 'event': 'cycle_start', 'cycle': 1, 'pace': 1.0},
  {'global_step': 20, 'event': 'switch', 'cycle': 1, 'reason': 'loss rises'},
  {'global_step': 20, 'event': 'reset', 'cycle': 2, 'tau': 0.25},
  {'global_step': 20, 'event': 'cycle_start', 'cycle': 2, 'pace': 33 / 40},
]


def test_read_run(tmp_path):
  write_run(tmp_path, EVENTS)
  table = read_run(tmp_path)
  assert (table.workload, table.metric_name) == ('digits', 'error_rate')
  assert table.target == 0.03
  assert table.eval_steps.tolist() == [1, 30, 60]
  np.testing.assert_array_equal(table.metric, [0.9, 0.2, math.nan])
  assert table.last_step == 60
  assert table.num_cycles == 2
  assert table.resets == [(20, 0.25)]
  assert table.switches == [(20, 'loss rises')]


def test_learning_rate_follows_the_cycles_clocks(tmp_path):
  write_run(tmp_path, EVENTS)
  table = read_run(tmp_path)
  assert table.rate_steps.tolist() == list(range(60))
  # The default chain: linear warm-up of floor(0.02 * L) steps, none here, and a
  # cosine over the cycle's nominal length.
  peak = SCHEDULE_PARAMS.hparams.learning_rate
  first = np.arange(20) / 34
  second = np.arange(40) * (33 / 40) / 33
  expected = peak * (1 + np.cos(np.pi * np.append(first, second))) / 2
  # Between nominal steps the rate is interpolated.
  np.testing.assert_allclose(table.rates, expected, atol=2e-3 * peak)


def test_other_submissions_have_the_rates_that_they_logged(tmp_path):
  write_run(tmp_path)
  table = read_run(tmp_path)
  assert table.rate_steps.tolist() == [1, 30]
  np.testing.assert_allclose(table.rates, [1e-4, 3e-3])
  assert (table.num_cycles, table.resets, table.switches) == (0, [], [])


def test_a_run_without_a_configuration_has_the_rates_that_it_logged(tmp_path):
  write_run(tmp_path, EVENTS)
  (tmp_path / records.CONFIGURATION).unlink()
  table = read_run(tmp_path)
  assert table.rate_steps.tolist() == [1, 30]
  assert (table.num_cycles, table.resets) == (2, [(20, 0.25)])


TABLE = RunTable(
  workload='digits',
  metric_name='error_rate',
  target=0.03,
  eval_steps=np.array([1, 30, 60]),
  metric=np.array([0.9, 0.2, 0.1]),
  last_step=60,
  rate_steps=np.arange(60),
  rates=np.linspace(0.0, 0.1, 60),
  num_cycles=2,
  resets=[(20, 0.25), (40, 0.5)],
  switches=[(40, 'loss rises')],
)


def test_metric_target_and_marks_are_drawn():
  axes = Figure().subplots()
  plots.draw_metric(axes, TABLE)
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
  plots.draw_learning_rate(axes, TABLE)
  np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), TABLE.rates)
  assert axes.get_ylabel() == 'learning rate'


@pytest.mark.parametrize(
  'metric, target, scale',
  [
    ((0.9, 0.2, 0.05), 0.03, 'log'),
    ((0.9, 0.2, 0.0), 0.03, 'linear'),  # zero has no place on a log axis
    ((0.5, 0.6, 0.7), 0.8, 'linear'),
    ((math.nan,) * 3, 0.03, 'linear'),
  ],
)
def test_scale_shows_what_happens_near_the_target(metric, target, scale):
  axes = Figure().subplots()
  table = TABLE._replace(metric=np.array(metric), target=target)
  plots.draw_metric(axes, table)
  assert axes.get_yscale() == scale


@pytest.mark.parametrize('events', [EVENTS, ()])
def test_a_picture_is_saved(events, tmp_path):
  write_run(tmp_path, events)
  path = plots.save_metric_plot(tmp_path)
  assert path == tmp_path / 'metric.png'
  assert path.read_bytes().startswith(b'\x89PNG')


def test_a_picture_of_a_run_that_was_never_evaluated(tmp_path):
  write_run(tmp_path)
  for name in ('eval_measurements.csv', 'measurements.csv'):
    (tmp_path / name).unlink()
  assert plots.save_metric_plot(tmp_path).exists()


def test_configurations_other_than_the_default_are_read(tmp_path):
  params = dataclasses.replace(SCHEDULE_PARAMS, alter_lr=(0.0, 0.001, 0.0))
  write_run(tmp_path, EVENTS)
  records.write_configuration(tmp_path, STEP_HINT, params)
  table = read_run(tmp_path)
  assert table.rates[20] == pytest.approx(
    params.hparams.learning_rate + 0.001, rel=1e-6
  )
