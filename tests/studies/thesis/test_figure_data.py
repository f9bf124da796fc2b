"""Curves over seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from curves_of_runs import run_table
from reset_cycles.studies.thesis import figure_data

STEPS = np.array([1, 2, 3])


def test_median_and_quartiles_of_common_points():
  curves = [(STEPS, np.full(3, value)) for value in (1.0, 2.0, 3.0, 4.0, 10.0)]
  shown = figure_data.band(curves)
  assert shown.x.tolist() == [1, 2, 3]
  assert shown.median.tolist() == [3.0] * 3
  assert shown.lower.tolist() == [2.0] * 3
  assert shown.upper.tolist() == [4.0] * 3


def test_a_seed_that_ended_or_diverged_leaves_the_others():
  curves = [
    (STEPS, np.array([1.0, 1.0, 1.0])),
    (STEPS, np.array([3.0, math.nan, 3.0])),
    (STEPS[:2], np.array([5.0, 5.0])),
  ]
  assert figure_data.band(curves).median.tolist() == [3.0, 3.0, 2.0]


def test_where_no_seed_is_finite_there_is_no_median():
  shown = figure_data.band([(STEPS, np.array([1.0, math.inf, 2.0]))])
  assert shown.median[[0, 2]].tolist() == [1.0, 2.0]
  assert math.isnan(shown.median[1])


def test_other_points_are_interpolated():
  curves = [
    (np.array([0.0, 10.0]), np.array([0.0, 10.0])),
    (np.array([0.0, 5.0, 20.0]), np.array([2.0, 7.0, 22.0])),
  ]
  shown = figure_data.band(curves)
  np.testing.assert_allclose(shown.x[[0, -1]], [0.0, 20.0])
  first = shown.x <= 10.0
  np.testing.assert_allclose(shown.median[first], shown.x[first] + 1.0)
  np.testing.assert_allclose(shown.median[~first], shown.x[~first] + 2.0)


def test_no_seed_gives_nothing():
  assert figure_data.band([]).x.size == 0


def test_positions_in_steps_and_in_seconds():
  table = run_table([0.1, 0.2], [0.3])  # 10, 20, 30 steps at 0.1, 0.2, 0.3 s
  steps = np.array([0, 5, 30])
  assert figure_data.positions(table, steps, 'steps').tolist() == [0, 5, 30]
  np.testing.assert_allclose(
    figure_data.positions(table, steps, 'time'), [0.0, 0.05, 0.3]
  )


def test_resets_over_seeds():
  tables = [
    run_table([0.1, 0.2], [0.3], [0.4], taus=[0.5, 0.25]),
    run_table([0.1, 0.2, 0.2], [0.3], taus=[0.7]),
  ]
  assert figure_data.resets(tables, 'steps') == [
    figure_data.ResetMark(25.0, (0.5, 0.7)),
    figure_data.ResetMark(30.0, (0.25,)),
  ]


def test_over_time_each_seed_is_a_curve_of_its_own():
  tables = [run_table([0.1, 0.2], [0.3], taus=[0.5]) for _ in range(2)]
  tables[1] = tables[1]._replace(eval_times=np.array([1.0, 2.0, 4.0]))

  def curve(table):
    return table.eval_steps, table.metric

  first, second = figure_data.curve_bands(tables, curve, 'time')
  np.testing.assert_allclose(first.x, [0.1, 0.2, 0.3])
  assert second.x.tolist() == [1.0, 2.0, 4.0]
  assert second.median.tolist() == [0.1, 0.2, 0.3]
  [both] = figure_data.curve_bands(tables, curve, 'steps')
  assert both.x.tolist() == [10, 20, 30]
  assert figure_data.resets(tables, 'time') == []
  [reset] = figure_data.resets(tables[1:], 'time')
  assert reset == figure_data.ResetMark(2.0, (0.5,))


@pytest.mark.parametrize(
  ('taus', 'expected'),
  [
    ((0.25,), 'τ = 0.25'),
    ((0.0, 0.0), 'τ = 0'),
    ((0.1, 0.2, 0.6), 'τ = 0.2\n(0.1 to 0.6)'),
  ],
)
def test_taus_in_words(taus, expected):
  assert figure_data.describe_taus(taus) == expected
