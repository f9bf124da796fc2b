"""The goal that moves: what runs that reach their target had by then."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles import soft_reset
from reset_cycles.control.goals import GOALS
from reset_cycles.control.goals.expected import CURVES, SHARES, Expected
from reset_cycles.control.state import Target

ACCURACY = Target('validation/accuracy', 0.8, True)
ERROR = Target('validation/error_rate', 0.2, False)


@pytest.mark.parametrize(
  ('share_of_run', 'p'),
  (
    (0.0, 0.01),
    (0.05, 0.36),
    (0.125, 0.69),  # between .64 and .74
    (0.5, 0.91),
    (0.95, 0.995),
    (1.0, 1.0),
  ),
)
def test_what_is_expected_by_hand(share_of_run, p):
  goal = GOALS.make('expected')
  found = goal.metric(ACCURACY, 0.1, share_of_run)
  assert found == pytest.approx(p * 0.8, abs=1e-12)
  found = goal.metric(ERROR, 1.0, share_of_run)
  assert found == pytest.approx(1 - p * 0.8, abs=1e-12)


def test_the_curves_rise_to_the_target_and_the_quantiles_do_not_cross():
  assert (np.diff(SHARES) > 0).all()
  assert (SHARES[0], SHARES[-1]) == (0, 1)
  low, quarter, middle = (np.asarray(CURVES[q]) for q in ('q05', 'q25', 'q50'))
  for curve in (low, quarter, middle):
    assert curve.shape == (len(SHARES),)
    assert (np.diff(curve) >= 0).all()
    # Above 0, so that tau is defined.
    assert curve[0] == 0.01
    assert curve[-1] == 1
  assert (low <= quarter).all()
  assert (quarter <= middle).all()


@pytest.mark.parametrize('curve', CURVES)
@pytest.mark.parametrize('share_of_run', np.linspace(0, 1, 21))
def test_it_treats_accuracy_and_error_rate_alike(share_of_run, curve):
  goal = Expected(curve)
  for accuracy in (0.0, 0.2, 0.5, 0.7, 0.8, 0.9):
    taus = [
      soft_reset.tau(metric, goal.metric(target, first, share_of_run), *form)
      for metric, target, first, form in (
        (accuracy, ACCURACY, 0.0, (0.0, True, 'linear')),
        (1 - accuracy, ERROR, 1.0, (1.0, False, 'linear')),
      )
    ]
    # A hundredth of the way is a difference of numbers near 1.
    assert taus[0] == pytest.approx(taus[1], abs=1e-12)


def test_a_model_on_its_way_is_left_alone_and_one_behind_is_not():
  # At a sixth of the run runs that reach have come at least .76 of their way.
  goal = Expected()
  tau = [
    soft_reset.tau(metric, goal.metric(ACCURACY, 0.0, 1 / 6), 0.0, True)
    for metric in (0.62, 0.3)
  ]
  assert tau == pytest.approx([0.0, 1 - 0.375 / 0.76], abs=1e-12)
  final = soft_reset.tau(0.62, 0.8, 0.0, True)
  assert final == pytest.approx(0.225, abs=1e-12)


@pytest.mark.parametrize('first', (math.nan, 0.1, math.inf))
def test_a_first_metric_that_does_not_serve(first):
  # From 1.01 times the target.
  found = Expected().metric(ERROR, first, 0.5)
  assert found == pytest.approx(0.2 + 0.09 * 0.002, abs=1e-12)


def test_unknown_curves_are_refused():
  with pytest.raises(ValueError, match="goal.curve='q10': .* q05, q25, q50"):
    GOALS.read('goal', {'name': 'expected', 'curve': 'q10'})
