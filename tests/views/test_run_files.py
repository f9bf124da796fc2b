"""A run's files: read, damaged, drawn; rates at every step."""

import dataclasses
import math
import pathlib

import numpy as np
import pytest
from matplotlib.figure import Figure

from helpers.log_files import EVENTS, write_run
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.engine.records import SETTINGS
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import THESIS
from reset_cycles.shapes.chains import chain_of_lists
from reset_cycles.views import planned_runs, run_files, run_plot
from reset_cycles.views.planned_runs import PlannedRun
from reset_cycles.views.run_files import Log, MetricTarget, read_run


def test_read_run(tmp_path):
  evaluation = {
    'event': 'evaluation', 'cycle': 1, 'global_step': 30, 'loss': 1.0,
    'smoothed_loss': 1.5, 'derivative': -0.5,
  }  # fmt: skip
  write_run(tmp_path, [*EVENTS, evaluation])
  table = read_run(tmp_path)
  target = ('error_rate', 0.03, False)
  assert (table.workload, table.target) == ('digits', target)
  assert table.eval_steps.tolist() == [1, 30, 60]
  np.testing.assert_array_equal(table.metric, [0.9, 0.2, math.nan])
  np.testing.assert_allclose(table.eval_times, [0.1, 3.0, 6.0])
  assert (table.last_step, table.num_cycles) == (60, 2)
  assert table.resets == [(20, 0.25)]
  assert table.switches == [(20, 'loss rises')]
  assert [column.tolist() for column in table.losses] == [
    [30], [1.0], [1.5], [-0.5],
  ]  # fmt: skip


# Cycle 1 is abandoned after 20 steps, and cycle 2 goes on from its nominal step 10
# at half of the rate.
GOES_ON = """\
global_step,event,cycle,setting,reason,cycle_end,pace,anchor_nominal,\
rate_factor,reset,tau
0,cycle_start,1,1,,34,1.0,0.0,1.0,,
20,abandon,1,,loss rises,,,,,,
20,reset,2,,,,,,,soft,0.25
20,cycle_start,2,2,,60,0.825,10.0,0.5,,
60,finish,2,,cycles have run out,,,,,,
"""


def test_a_cycle_that_begins_within_its_plan(tmp_path):
  write_run(tmp_path, EVENTS)
  (tmp_path / 'cycles.csv').write_text(GOES_ON)
  table = read_run(tmp_path)
  assert table.switches == [(20, 'loss rises')]
  assert table.resets == [(20, 0.25)]
  assert table.cycle_starts == [0, 20]
  plan = jax_lr_schedule(50, THESIS.cycles, THESIS.budget_factor)
  assert table.rates[20] == pytest.approx(0.5 * float(plan(34 + 10)), rel=1e-5)


def test_the_benchmarks_runner_names_the_workload_among_its_flags(tmp_path):
  write_run(tmp_path)
  path = tmp_path / 'meta_data_0.json'
  meta = files.read_json(path)
  del meta['workload.name']
  files.write_json(path, meta)
  (tmp_path / 'flags_0.json').unlink()
  with pytest.raises(ValueError, match='names no workload, .* flags_0.json'):
    read_run(tmp_path)
  files.write_json(tmp_path / 'flags_0.json', {'workload': 'ogbg'})
  assert read_run(tmp_path).workload == 'ogbg'


EVALUATIONS = 'accumulated_submission_time,global_step,validation/error_rate\n'


@pytest.mark.parametrize(
  ('rows', 'seconds', 'metric'),
  [
    # pandas, which the benchmark writes its files with, leaves NaN blank.
    ('0.1,1,0.9\n3.0,30,\n,60,0.5\n', [0.1, 3, math.nan], [0.9, math.nan, 0.5]),
    # What a preempted run did twice counts once.
    (
      '1,1,0.9\n2,30,0.8\n4,60,0.7\n1.9,30,0.6\n4.1,60,0.5\n',
      [1, 1.9, 4.1],
      [0.9, 0.6, 0.5],
    ),
  ],
)
def test_evaluations_with_gaps_and_repeats(rows, seconds, metric, tmp_path):
  write_run(tmp_path)
  (tmp_path / 'eval_measurements.csv').write_text(EVALUATIONS + rows)
  table = read_run(tmp_path)
  assert table.eval_steps.tolist() == [1, 30, 60]
  np.testing.assert_array_equal(table.eval_times, seconds)
  np.testing.assert_array_equal(table.metric, metric)


def test_a_run_without_a_configuration_has_the_rates_that_it_logged(tmp_path):
  write_run(tmp_path, EVENTS)
  (tmp_path / SETTINGS).unlink()
  table = read_run(tmp_path)
  assert table.rate_steps.tolist() == [1, 30]
  assert (table.num_cycles, table.resets) == (2, [(20, 0.25)])


PARAMS = dataclasses.replace(
  THESIS,
  cycles=chain_of_lists(
    alter_lr=(0.0, 0.001, 0.002),
    alter_warmup=(0.28, 0.28, 0.28),  # 10, 9 and 9 steps
  ),
)
PLAN = PlannedRun(50, PARAMS)  # three cycles of 34, 33 and 33 steps
FIRST, SECOND, THIRD = np.split(planned_runs.planned_rates(PLAN), [34, 67])


def event(name, step, **values):
  row = {'event': name, 'global_step': step, 'pace': 1.0, **values}
  return {key: str(value) for key, value in row.items()}


def start(step, cycle, **values):
  return event('cycle_start', step, cycle=cycle, **values)


def run_rates(last_step, *events):
  log = Log(pathlib.Path('cycles.csv'), events)
  anchors = run_files.read_anchors(log, len(PARAMS.cycles))
  steps, values = run_files.rates_of_run(PLAN, anchors, last_step)
  assert steps.tolist() == list(range(last_step))
  return values


@pytest.mark.parametrize(
  ('events', 'expected'),
  [
    # The pace moves inside a cycle.
    (
      [
        start(0, 1, setting=1, anchor_nominal=0.0, rate_factor=1.0),
        event('clock', 4, anchor_nominal=4.0, pace=2.0, rate_factor=1.0),
        event('clock', 8, anchor_nominal=12.0, rate_factor=1.0),
        start(10, 2, setting=2, anchor_nominal=0.0, rate_factor=1.0),
      ],
      [*FIRST[[0, 1, 2, 3, 4, 6, 8, 10, 12, 13]], *SECOND[:4]],
    ),
    # A repeated cycle has the shape of the last and a scale.
    (
      [
        start(0, 1),
        start(2, 2),
        start(4, 3),
        start(6, 4, setting=3, rate_factor=0.5),
      ],
      [*FIRST[:2], *SECOND[:2], *THIRD[:2], *(THIRD[:2] * np.float32(0.5))],
    ),
    # A clock changes the scale of the cycle under way.
    (
      [
        start(0, 4, setting=3),
        event('clock', 12, anchor_nominal=12.0, rate_factor=0.25),
      ],
      [*THIRD[:12], *(THIRD[12:14] * np.float32(0.25))],
    ),
    # Of two anchors at a step, the later one counts.
    ([start(0, 1), event('clock', 0, anchor_nominal=5.0)], FIRST[5:7]),
  ],
)
def test_rates_follow_the_clock(events, expected):
  values = run_rates(len(expected), *events)
  np.testing.assert_array_equal(values, expected)


def test_warm_ups_are_those_that_each_start_plans(tmp_path):
  events = [
    start(0, 1, setting=1),  # of 10 nominal steps
    start(30, 2, setting=2, pace=0.5),  # of 9
    start(60, 3, setting=3, anchor_nominal=20.0),  # goes on behind it
  ]
  write_run(tmp_path, events, params=PARAMS)
  assert read_run(tmp_path).warmups == [(0, 10), (30, 48), (60, 60)]


CYCLES = 'global_step,event,cycle,setting,pace,anchor_nominal,rate_factor\n'
START = '0,cycle_start,1,1,1,0,1\n'


@pytest.mark.parametrize(
  ('name', 'content', 'message'),
  [
    ('meta_data_0.json', '{"a": ', 'is not valid JSON'),
    ('meta_data_0.json', '[1]', 'must hold an object'),
    ('meta_data_0.json', '{"workload.name": "x"}', 'must have the target'),
    ('flags_0.json', '"x"', 'must hold an object'),
    ('eval_measurements.csv', EVALUATIONS + '1.0,1,x\n', "'x' in a row"),
    ('eval_measurements.csv', EVALUATIONS + '1.0,1.5,0\n', 'whole number'),
    ('eval_measurements.csv', EVALUATIONS + '1.0,1e99,0\n', 'whole number'),
    ('measurements.csv', 'global_step\ninf\n', 'whole number'),
    ('cycles.csv', CYCLES + START + 'x,reset,,,,,\n', "'x' in a row"),
    ('cycles.csv', CYCLES + '0,cycle_start,1,9,1,0,1\n', 'setting .* 1 to 3'),
    ('cycles.csv', 'global_step,event,cycle\n0,cycle_start,9\n', '1 to 3'),
    ('cycles.csv', CYCLES + '0,cycle_start,1,1,0,0,1\n', 'pace .* positive'),
    ('cycles.csv', CYCLES + '0,cycle_start,1,1,1,inf,1\n', 'anchor_nominal'),
    (
      'cycles.csv',
      CYCLES + '0,cycle_start,1,1,1,0,inf\n',
      'rate_factor .* finite',
    ),
    ('cycles.csv', CYCLES + '9,clock,1,,1,0,1\n' + START, 'a clock before'),
    ('cycles.csv', CYCLES + '9,cycle_start,1,1,1,0,1\n' + START, 'in order'),
    (SETTINGS, '{}', 'step_hint is missing'),
    (SETTINGS, '[' * 100_000, 'is nested too deeply'),
  ],
)
def test_the_file_is_named(name, content, message, tmp_path):
  write_run(tmp_path, EVENTS)
  (tmp_path / name).write_text(content)
  with pytest.raises(ValueError, match=f'(?s){name}.*{message}'):
    read_run(tmp_path)


@pytest.fixture
def table(tmp_path):
  write_run(tmp_path, EVENTS, metric=(0.9, 0.2, 0.1))
  switches, resets = [(40, 'loss rises')], [(20, 0.25), (40, 0.5)]
  return read_run(tmp_path)._replace(switches=switches, resets=resets)


def test_metric_target_and_marks_are_drawn(table):
  figure = Figure()
  run_plot.draw_run(figure, table)
  axes, rates = figure.axes
  labels = [text.get_text() for text in axes.get_legend().get_texts()]
  assert labels == [
    'validation', 'target 0.03', 'reset, with its τ', 'early switch',
  ]  # fmt: skip
  lines = {line.get_label(): line for line in axes.get_lines()}
  np.testing.assert_array_equal(
    lines['validation'].get_xydata(), [[1, 0.9], [30, 0.2], [60, 0.1]]
  )
  assert lines['target 0.03'].get_ydata() == [0.03, 0.03]
  assert lines['early switch'].get_xdata() == [40]
  assert [text.get_text() for text in axes.texts] == ['τ = 0.25', 'τ = 0.5']
  assert [text.xy[0] for text in axes.texts] == [20, 40]
  for own in (axes, rates):
    dash_dotted = [x for x in own.get_lines() if x.get_linestyle() == '-.']
    assert [x.get_xdata() for x in dash_dotted] == [[20, 20], [40, 40]]
  assert axes.get_ylabel() == 'error rate (validation)'
  np.testing.assert_array_equal(rates.get_lines()[0].get_ydata(), table.rates)


def test_a_jump_after_tau_0_is_not_put_down_to_the_reset(table):
  axes = Figure().subplots()
  run_plot.draw_metric(axes, table._replace(resets=[(20, 0.25), (40, 0.0)]))
  labels = [text.get_text() for text in axes.get_legend().get_texts()]
  assert labels[2] == (
    'reset, with its τ; τ = 0 keeps the model:\nthe higher rate moves it'
  )


@pytest.mark.parametrize(
  ('metric', 'target', 'scale'),
  [
    ((0.9, 0.2, 0.05), 0.03, 'log'),
    ((0.9, 0.2, 0.0), 0.03, 'linear'),  # zero has no place on a log axis
    ((0.5, 0.6, 0.7), 0.8, 'linear'),
    ((0.01, 5.0, 70.0), 80.0, 'linear'),  # rises: it is low far from there
    ((math.nan,) * 3, 0.03, 'linear'),
  ],
)
def test_scale_shows_what_happens_near_the_target(table, metric, target, scale):
  axes = Figure().subplots()
  goal = MetricTarget('m', target, False)
  run_plot.draw_metric(
    axes, table._replace(metric=np.array(metric), target=goal)
  )
  assert axes.get_yscale() == scale


def test_a_picture_of_a_run_that_was_never_evaluated(tmp_path):
  write_run(tmp_path)
  for name in ('eval_measurements.csv', 'measurements.csv'):
    (tmp_path / name).unlink()
  path = run_plot.save_metric_plot(tmp_path)
  assert path == tmp_path / 'metric.png'
  assert path.read_bytes().startswith(b'\x89PNG')
