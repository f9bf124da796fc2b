"""The share of the way to the target, by hand."""

from __future__ import annotations

import math

import pytest

from reset_cycles.control.state import Target
from reset_cycles.control.way import linear_share, log_share, metric_at

RISING = Target('validation/x', 0.8, True)
FALLING = Target('validation/x', 0.4, False)
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
  'metric, linear',
  [(0.0, 0.0), (0.4, 0.5), (0.8, 1.0), (1.0, 1.25), (-0.4, -0.5)],
)
def test_a_metric_that_rises_comes_from_zero(metric, linear):
  for first in (0.1, 0.9, NAN):
    assert linear_share(metric, RISING, first) == linear
    assert log_share(metric, RISING, first) == linear


@pytest.mark.parametrize(
  'metric, linear, log',
  [
    (1.6, 0.0, 0.0),
    (0.8, 2 / 3, 0.5),
    (0.4, 1.0, 1.0),
    (0.2, 7 / 6, 1.5),
    (3.2, -4 / 3, -0.5),
    (0.0, 4 / 3, INF),
  ],
)
def test_a_metric_that_falls_comes_from_the_first(metric, linear, log):
  assert linear_share(metric, FALLING, 1.6) == pytest.approx(linear, abs=1e-15)
  assert log_share(metric, FALLING, 1.6) == pytest.approx(log, abs=1e-15)


@pytest.mark.parametrize('share', (0.0, 0.25, 0.9, 1.0, 1.5))
@pytest.mark.parametrize('first', (1.6, 0.4, NAN))
@pytest.mark.parametrize('target', (RISING, FALLING))
def test_the_metric_that_has_come_a_share_of_the_way(target, first, share):
  metric = metric_at(share, target, first)
  # Where the way is a hundredth of the target, so much is lost.
  found = linear_share(metric, target, first)
  assert found == pytest.approx(share, abs=1e-13)


def test_the_metric_at_a_quarter_of_the_way():
  assert metric_at(0.25, RISING, 0.3) == pytest.approx(0.2, abs=1e-15)
  assert metric_at(0.25, FALLING, 1.6) == pytest.approx(1.3, abs=1e-15)


def test_the_examples():
  error_rate, perplexity = FALLING, Target('validation/ppl', 50.0, False)
  assert linear_share(0.5, error_rate, 0.9) == pytest.approx(0.8, abs=1e-15)
  assert log_share(200.0, perplexity, 800.0) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize('first', [NAN, INF, 0.4, 0.1, 1.01 * 0.4])
def test_a_first_metric_that_leaves_no_way(first):
  # From 1.01 times the target: 0.402 is half of the way.
  assert linear_share(0.402, FALLING, first) == pytest.approx(0.5, abs=1e-12)
  half = 0.4 * math.sqrt(1.01)
  assert log_share(half, FALLING, first) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize('target', [RISING, FALLING])
@pytest.mark.parametrize('metric', [NAN, INF, -INF])
@pytest.mark.parametrize('share', [linear_share, log_share])
def test_a_metric_that_is_not_finite_has_no_share(share, metric, target):
  assert math.isnan(share(metric, target, 1.6))


@pytest.mark.parametrize('value', [0.0, -2.0, NAN])
@pytest.mark.parametrize('rising', [True, False])
@pytest.mark.parametrize('share', [linear_share, log_share])
def test_without_a_target_above_zero_nothing_is_missing(share, rising, value):
  assert share(0.3, Target('validation/x', value, rising), 1.6) == 1.0


def test_an_accuracy_and_its_error_rate_differ_by_the_start_alone():
  # Linear: from an untrained accuracy of 0.1, both move by equal amounts.
  error = Target('validation/error_rate', 0.2, False)
  steps = [
    linear_share(1 - y, error, 0.9) - linear_share(0.9 - y, error, 0.9)
    for y in (0.2, 0.5, 0.7)
  ]
  assert steps == pytest.approx([-1 / 7] * 3, abs=1e-12)
