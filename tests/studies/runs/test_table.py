"""What is read from a run's files."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from log_files import EVENTS, STEP_HINT, write_run
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import THESIS
from reset_cycles.studies.runs.table import read_run
from reset_cycles.training.configuration import (
  CONFIGURATION,
  write_configuration,
)


def test_read_run(tmp_path):
  write_run(tmp_path, EVENTS)
  table = read_run(tmp_path)
  assert (table.workload, table.metric_name) == ('digits', 'error_rate')
  assert table.target == 0.03
  assert table.eval_steps.tolist() == [1, 30, 60]
  np.testing.assert_array_equal(table.metric, [0.9, 0.2, math.nan])
  np.testing.assert_allclose(table.eval_times, [0.1, 3.0, 6.0])
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
  peak = THESIS.hparams.learning_rate
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


def test_configurations_other_than_the_default_are_read(tmp_path):
  params = dataclasses.replace(THESIS, alter_lr=(0.0, 0.001, 0.0))
  write_run(tmp_path, EVENTS)
  write_configuration(tmp_path, STEP_HINT, params)
  table = read_run(tmp_path)
  assert table.rates[20] == pytest.approx(
    params.hparams.learning_rate + 0.001, rel=1e-6
  )


def test_warm_ups_last_as_long_as_the_clocks_pace_makes_them(tmp_path):
  params = dataclasses.replace(
    THESIS,
    alter_warmup=(0.28, 0.28, 0.0),
    warmups=('linear', 'cosine', 'none'),
  )
  events = [
    *EVENTS,
    {'global_step': 60, 'event': 'cycle_start', 'cycle': 3, 'pace': 33 / 40},
  ]
  write_run(tmp_path, events)
  write_configuration(tmp_path, STEP_HINT, params)
  table = read_run(tmp_path)
  assert table.cycle_starts == [0, 20, 60]
  assert table.cycle_ends == [20, 60, 60]
  # floor(0.3 * 34) and floor(0.3 * 33) nominal steps.
  np.testing.assert_allclose(
    table.warmups, [(0, 10), (20, 20 + 9 * 40 / 33), (60, 60)]
  )


def test_losses_of_the_switching_rule(tmp_path):
  evaluation = {'event': 'evaluation', 'cycle': 1}
  events = [
    EVENTS[0],
    {
      **evaluation,
      'global_step': 1,
      'loss': 2.0,
      'smoothed_loss': 2.0,
      'derivative': 0.0,
    },
    {
      **evaluation,
      'global_step': 30,
      'loss': 1.0,
      'smoothed_loss': 1.5,
      'derivative': -0.5,
    },
  ]
  write_run(tmp_path, events)
  losses = read_run(tmp_path).losses
  assert losses.steps.tolist() == [1, 30]
  assert losses.loss.tolist() == [2.0, 1.0]
  assert losses.smoothed_loss.tolist() == [2.0, 1.5]
  assert losses.loss_change.tolist() == [0.0, -0.5]


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


def test_a_folder_that_has_no_logs_is_refused(tmp_path):
  with pytest.raises(ValueError, match='has no meta_data_0.json: it must be'):
    read_run(tmp_path)


def write_evaluations(folder, lines):
  path = folder / 'eval_measurements.csv'
  header = 'accumulated_submission_time,global_step,validation/error_rate'
  path.write_text('\n'.join([header, *lines]))


def test_a_value_that_is_no_number_keeps_its_evaluation(tmp_path):
  # pandas, which the benchmark writes its files with, leaves NaN blank.
  write_run(tmp_path)
  write_evaluations(tmp_path, ['0.1,1,0.9', '3.0,30,', ',60,0.5', ''])
  table = read_run(tmp_path)
  assert table.eval_steps.tolist() == [1, 30, 60]
  np.testing.assert_array_equal(table.metric, [0.9, math.nan, 0.5])
  np.testing.assert_array_equal(table.eval_times, [0.1, 3.0, math.nan])


def test_what_a_preempted_run_did_twice_counts_once(tmp_path):
  write_run(tmp_path)
  lines = [
    '1.0,1,0.9',
    '2.0,30,0.8',
    '4.0,60,0.7',
    '1.9,30,0.6',
    '4.1,60,0.5',
    '',
  ]
  write_evaluations(tmp_path, lines)
  table = read_run(tmp_path)
  assert table.eval_steps.tolist() == [1, 30, 60]
  assert table.metric.tolist() == [0.9, 0.6, 0.5]


def test_a_line_that_was_being_written_is_left_out(tmp_path):
  write_run(tmp_path)
  write_evaluations(tmp_path, ['1.0,1,0.9', '2.0,30,0.8', '4.'])
  assert read_run(tmp_path).eval_steps.tolist() == [1, 30]


def test_the_first_digits_of_a_number_are_no_number(tmp_path):
  write_run(tmp_path)
  write_evaluations(tmp_path, ['1.0,1,0.9', '2.0,30,0.8', '4.0,60,0.'])
  assert read_run(tmp_path).metric.tolist() == [0.9, 0.8]


def test_the_last_cycle_ends_where_the_run_finished(tmp_path):
  finish = {'global_step': 58, 'event': 'finish', 'cycle': 2}
  write_run(tmp_path, [*EVENTS, finish])
  assert read_run(tmp_path).cycle_ends == [20, 58]


def test_a_run_of_60_steps_that_has_no_other_events_has_60(tmp_path):
  # What is kept of a run has no measurements.csv.
  write_run(tmp_path, EVENTS)
  (tmp_path / 'measurements.csv').unlink()
  table = read_run(tmp_path)
  assert table.last_step == 60
  assert table.cycle_ends == [20, 60]
  assert table.rate_steps[-1] == 59


def test_a_run_has_a_name_and_a_seed(tmp_path):
  write_run(tmp_path)
  table = read_run(tmp_path)
  assert (table.name, table.seed) == ('peaks', 1)


@pytest.mark.parametrize(
  'flags, name, seed',
  [
    ({}, '', 7),
    ({'experiment_name': None}, '', 7),
    ({'experiment_name': 'digits'}, '', 7),  # the default says nothing
    (
      {'experiment_name': 'search', 'tuning_ruleset': 'external'},
      'search, trial 3',
      7,
    ),
    ({'rng_seed': 8}, '', 7),  # the meta data have one that was drawn
  ],
)
def test_names_and_seeds_from_flags(flags, name, seed, tmp_path):
  folder = tmp_path / 'trial_3'
  folder.mkdir()
  write_run(folder, seed=7)
  files.write_json(folder / 'flags_0.json', {'workload': 'digits', **flags})
  table = read_run(folder)
  assert (table.name, table.seed) == (name, seed)


def test_a_run_without_flags_and_seed_has_none(tmp_path):
  write_run(tmp_path)
  path = tmp_path / 'meta_data_0.json'
  meta = files.read_json(path)
  del meta['rng_seed']
  files.write_json(path, meta)
  (tmp_path / 'flags_0.json').unlink()
  table = read_run(tmp_path)
  assert (table.workload, table.name, table.seed) == ('digits', '', None)


# In order: the rate of the step before, of the step itself.
LOGGED = [
  {'global_step': 0, 'event': 'cycle_start', 'learning_rate': 0.1},
  {'global_step': 10, 'event': 'evaluation', 'learning_rate': 0.2},
  {'global_step': 20, 'event': 'evaluation', 'learning_rate': 0.3},
  {'global_step': 20, 'event': 'reset', 'learning_rate': 0.4},
  {'global_step': 20, 'event': 'cycle_start', 'learning_rate': 0.4},
  {'global_step': 30, 'event': 'finish', 'learning_rate': 0.5},
]


def test_a_run_without_a_configuration_has_the_rates_that_it_logged(tmp_path):
  events = [{'setting': 1, **event} for event in EVENTS]
  write_run(tmp_path, events)
  (tmp_path / CONFIGURATION).unlink()
  table = read_run(tmp_path)
  assert table.rate_steps.tolist() == [1, 30]
  assert (table.num_cycles, table.resets) == (2, [(20, 0.25)])


def test_older_files_log_the_rate_of_the_step_taken(tmp_path):
  write_run(tmp_path, [{**event, 'tau': 0.0} for event in LOGGED])
  (tmp_path / CONFIGURATION).unlink()
  table = read_run(tmp_path)
  assert table.rate_steps.tolist() == [0, 9, 19, 20, 20, 29]
  assert table.rates.tolist() == [0.1, 0.2, 0.3, 0.4, 0.4, 0.5]
