"""How far a run has come, and what a reset cost it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from curves_of_runs import run_table
from reset_cycles.studies.thesis import recovery


def test_share_of_the_way_of_rising_and_falling_metrics():
  rising = recovery.share_gone(np.array([0.1, 0.3, 0.5, 0.6]), 0.1, 0.5)
  np.testing.assert_allclose(rising, [0.0, 0.5, 1.0, 1.25])
  falling = recovery.share_gone(np.array([0.9, 0.5, 0.1, 0.0]), 0.9, 0.1)
  np.testing.assert_allclose(falling, [0.0, 0.5, 1.0, 1.125])


def test_what_is_not_finite_has_gone_nothing():
  values = np.array([math.nan, math.inf, -math.inf])
  assert recovery.share_gone(values, 0.0, 1.0).tolist() == [0.0, 0.0, 0.0]


def test_the_evaluation_at_a_boundary_belongs_to_the_cycle_that_ends():
  table = run_table([0.1, 0.2], [0.3, 0.4, 0.5])
  assert table.cycle_starts == [0, 20]
  assert table.eval_steps.tolist() == [10, 20, 30, 40, 50]
  first, second = recovery.cycle_metrics(table)
  assert first.tolist() == [0.1, 0.2]
  assert second.tolist() == [0.3, 0.4, 0.5]


def test_shares_at_the_end_and_at_best():
  table = run_table([0.2, 0.4], [0.3, 0.8, 0.7], [0.6], target=1.2)
  assert recovery.final_share(table, 0) == pytest.approx(0.2)
  assert recovery.final_share(table, 1) == pytest.approx(0.5)
  assert recovery.best_share(table, 1) == pytest.approx(0.6)
  assert recovery.best_share(table, 2) == pytest.approx(0.4)


@pytest.mark.parametrize(
  ('after', 'expected'),
  [
    # From 0 to 0.5 before the reset: 95 % of the way is 0.475.
    ([0.475, 0.4], 1),
    ([0.0, 0.474, 0.476], 3),
    ([0.0, 0.2, 0.47], math.inf),
    ([math.nan, 0.5], 2),
  ],
)
def test_recovery_counts_evaluations(after, expected):
  table = run_table([0.0, 0.5], after)
  assert recovery.recovery(table, 0) == expected


def test_recovery_of_a_falling_metric():
  # 95 % of the way from 0.9 to 0.1 is 0.14.
  table = run_table([0.9, 0.1], [0.5, 0.141, 0.139], target=0.05)
  assert recovery.recovery(table, 0) == 3


def test_a_recovery_ends_with_its_cycle():
  table = run_table([0.0, 0.5], [0.1, 0.2], [0.5, 0.5])
  assert recovery.recovery(table, 0) == math.inf
  assert recovery.recovery(table, 1) == 1


def test_what_is_lost_at_the_first_evaluation():
  table = run_table([0.1, 0.5], [0.2, 0.5], [0.6])
  assert recovery.loss_at_reset(table, 0) == pytest.approx(0.75)
  assert recovery.loss_at_reset(table, 1) == pytest.approx(-0.25)
