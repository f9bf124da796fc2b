"""The bound on the last iterate: one value, its best base rate, the curve."""

from __future__ import annotations

import json
import math
import pathlib

import numpy as np
import pytest

from reset_cycles.studies.preview.convergence_bound import (
  best_base_rate,
  bound_curve,
  last_iterate_bound,
)

DATA = pathlib.Path(__file__).parents[1] / 'data'
ORACLE = json.loads((DATA / 'bound.json').read_text())
# Of at most 3,000 steps, two roundings of half an ulp each.
CURVE_ERROR = 3000 * 2**-52


def test_three_steps_with_a_norm_each():
  rates, norms, distance = [1.0, 0.5, 0.25], [2.0, 4.0, 8.0], 3.0
  expected = [
    9 / 2 + 4 / 2,
    9 / 3 + (0.5 * 16 + 4 / 0.5) / 2,
    9 / 3.5 + (0.25 * 64 + 4 / 0.75 + 4 / 0.25) / 2,
  ]
  last = last_iterate_bound(rates, norms, distance)
  assert last == pytest.approx(expected[-1], rel=1e-15)
  curve = bound_curve(rates, norms, distance)
  np.testing.assert_allclose(curve, expected, rtol=CURVE_ERROR)


@pytest.mark.oracle
@pytest.mark.parametrize('name', ORACLE)
def test_reference_values(name):
  expected = ORACLE[name]
  bound = last_iterate_bound(expected['eta'])
  assert bound == pytest.approx(expected['bound'], rel=1e-13, abs=0)
  best = best_base_rate(expected['eta'])
  assert best == pytest.approx(
    (expected['gamma_star'], expected['bound_at_gamma_star']), rel=1e-13, abs=0
  )


@pytest.mark.oracle
@pytest.mark.parametrize('name', [n for n in ORACLE if n.endswith('T=100')])
def test_reference_curves(name):
  curve = bound_curve(ORACLE[name]['eta'])
  np.testing.assert_allclose(
    curve, ORACLE[name]['curve_base1'], rtol=CURVE_ERROR
  )


@pytest.mark.parametrize(
  ('rates', 'norms', 'distance'),
  [
    ([1.0, 5e-324], 1.0, 1.0),
    ([1.0, 1e-140], 1e90, 1.0),
    ([5e-324], 1.0, 1.0),
    ([1.0, 1.0], 1.0, 1e300),
    ([1e150, 1e150], 1e150, 1.0),
  ],
)
def test_what_is_too_large_for_a_float_is_infinite(rates, norms, distance):
  assert last_iterate_bound(rates, norms, distance) == math.inf
  assert bound_curve(rates, norms, distance)[-1] == math.inf


def test_a_rate_of_0_is_infinite_where_it_is_the_last():
  rates = [0.0, 1.0, 0.0, 0.0, 2.0, 0.0]
  infinite = [True, False, True, True, False, True]
  assert np.isinf(bound_curve(rates)).tolist() == infinite
  assert [
    last_iterate_bound(rates[:t]) == math.inf for t in range(1, 7)
  ] == infinite
  assert best_base_rate(rates) == (0.0, math.inf)


def test_elsewhere_it_is_a_step_that_does_nothing():
  rates = np.array([0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.5])
  norms = np.arange(7.0)
  moving = rates > 0
  curves = bound_curve(rates, norms), bound_curve(rates[moving], norms[moving])
  np.testing.assert_allclose(curves[0][moving], curves[1], rtol=CURVE_ERROR)


@pytest.mark.parametrize('norms', [0.3, np.linspace(0.1, 3.0, 300)])
def test_no_other_base_rate_is_better(norms):
  rates, distance = np.random.default_rng(2).random(300), 7.0
  gamma, bound = best_base_rate(rates, norms, distance)
  at_best = last_iterate_bound(gamma * rates, norms, distance)
  assert at_best == pytest.approx(bound, rel=1e-14)
  for factor in (0.5, 0.99, 1.01, 2.0):
    other = last_iterate_bound(factor * gamma * rates, norms, distance)
    # Omega(c gamma*) = (1 / c + c) / 2 * Omega*.
    assert other == pytest.approx((1 / factor + factor) / 2 * bound, rel=1e-14)


@pytest.mark.parametrize(
  'fn', [last_iterate_bound, best_base_rate, bound_curve]
)
@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (([],), r'shape of rates is .0,.; it must be \(T,\)'),
    (([[1.0]],), r'shape of rates is \(1, 1\)'),
    (([1.0, -0.5],), r'rates\[1\] is -0.5; it must be a number from 0 to'),
    (([math.nan],), r'rates\[0\] is nan'),
    (([1e151],), r'rates\[0\] is 1e\+151'),
    (([1.0, 1.0], [1.0]), r'grad_norms is \(1,\); .* \(\) or .* \(2,\)'),
    (([1.0, 1.0], [1.0, -1.0]), r'grad_norms\[1\] is -1.0'),
    (([1.0], 1.0, 0.0), r'distance must be a number in \(0, inf\)'),
  ],
)
def test_bad_arguments(fn, arguments, message):
  with pytest.raises(ValueError, match=message):
    fn(*arguments)
