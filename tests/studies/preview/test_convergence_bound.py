"""The bound on the last iterate: one value, its best base rate, the curve."""

from __future__ import annotations

import json
import math
import pathlib
from fractions import Fraction

import numpy as np
import pytest

import reference
from reset_cycles.studies.preview import convergence_bound
from reset_cycles.studies.preview.convergence_bound import (
  best_base_rate,
  bound_curve,
  last_iterate_bound,
)

DATA = pathlib.Path(__file__).parents[2] / 'data'
ORACLE = json.loads((DATA / 'bound.json').read_text())
# The curve's own claim: 4e-13 for the exponentials, and for each of at most
# 3,000 steps two roundings of half an ulp.
CURVE_ERROR = 4e-13 + 3000 * 2**-52


# By hand.


def test_one_step():
  # D^2 / (2 eta) + eta G^2 / 2.
  assert last_iterate_bound([0.5], 2.0, 3.0) == 9.0 + 1.0
  assert bound_curve([0.5], 2.0, 3.0).tolist() == [10.0]


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


def test_a_constant_rate_has_a_harmonic_number():
  harmonic = math.fsum(1 / d for d in range(1, 1000))
  expected = 1 / 2000 + (1 + harmonic) / 2
  assert last_iterate_bound(np.ones(1000)) == pytest.approx(expected, rel=1e-14)


# Reference values.


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


# Against the slow twin.


def cosine_cycles(steps, cycles):
  """Rates of 1 to nearly 0, again and again."""
  t = np.arange(steps) % (steps // cycles)
  return (1 + np.cos(np.pi * t / (steps // cycles))) / 2


def random_schedules():
  """Rates by name: smooth ones, and the worst for sums of differences."""
  rng = np.random.default_rng(2)
  some = rng.random(1000) < 0.3
  crowded = np.full(1000, 1e-14)
  crowded[::100] = 1.0
  return {
    'uniform': rng.random(1000),
    'one long cosine': cosine_cycles(3000, 1),
    'cycles': cosine_cycles(1200, 12),
    'cycles with steps of rate 0': cosine_cycles(1000, 10) * ~some,
    'mostly rates of 0': rng.random(1000) * some,
    'a late start': np.append(np.zeros(300), rng.random(300)),
    'crowded near 0': crowded,
    'warm-ups from exactly 0': np.tile(np.linspace(0.0, 1.0, 50), 20),
    '40 decades': 10 ** rng.uniform(-30.0, 10.0, 1000),
    '140 decades': 10 ** rng.uniform(-140.0, 0.0, 300),
    'falling by 120 decades': 0.5 ** np.arange(400.0),
    'rising by 120 decades': 0.5 ** np.arange(400.0)[::-1],
    'huge': 1e140 * rng.random(300),
    'tiny': 1e-140 * rng.random(300),
  }


SCHEDULES = random_schedules()


def twin_curve(rates, norms, distance):
  rates, norms = rates.tolist(), norms.tolist()
  return [
    reference.last_iterate_bound(rates[:t], norms[:t], distance)
    for t in range(1, len(rates) + 1)
  ]


@pytest.mark.parametrize('name', SCHEDULES)
def test_curve_agrees_with_the_twin(name):
  rates = SCHEDULES[name]
  norms = np.random.default_rng(3).uniform(0.0, 5.0, rates.size)
  curve = bound_curve(rates, norms, 0.1)
  expected = twin_curve(rates, norms, 0.1)
  np.testing.assert_allclose(curve, expected, rtol=CURVE_ERROR)


@pytest.mark.parametrize('name', SCHEDULES)
def test_noise_of_the_curve_agrees_with_the_twin(name):
  # A small D leaves the sums over earlier steps, which the start would hide.
  rates = SCHEDULES[name][:300]
  curve = bound_curve(rates, 2.0, 1e-150)
  expected = twin_curve(rates, np.full(rates.size, 2.0), 1e-150)
  np.testing.assert_allclose(curve, expected, rtol=CURVE_ERROR)


def test_one_value_agrees_with_exact_arithmetic():
  rng = np.random.default_rng(4)
  rates = 10 ** rng.uniform(-20.0, 0.0, 60) * (rng.random(60) < 0.8)
  rates[-1], norms = 1e-9, rng.random(60)
  exact = reference.last_iterate_bound(
    [Fraction(rate) for rate in rates.tolist()],
    [Fraction(norm) for norm in norms.tolist()],
    Fraction(0.1),
  )
  bound = last_iterate_bound(rates, norms, 0.1)
  assert bound == pytest.approx(float(exact), rel=1e-14, abs=0)


@pytest.mark.parametrize('beyond', ['rates', 'norms'])
def test_ranges_whose_squares_are_no_floats(beyond):
  # Down to 5e-324, the smallest number above 0.
  wide, flat = 0.5 ** np.linspace(0.0, 1074.0, 40), np.ones(40)
  rates, norms = (wide, flat) if beyond == 'rates' else (flat, wide)
  exact = [
    reference.last_iterate_bound(
      [Fraction(rate) for rate in rates[:t].tolist()],
      [Fraction(norm) for norm in norms[:t].tolist()],
      Fraction(1e-160),
    )
    for t in range(1, 41)
  ]
  curve = bound_curve(rates, norms, 1e-160)
  np.testing.assert_allclose(curve, np.array(exact, float), rtol=1e-14)


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


@pytest.mark.parametrize('decades', [0, 1, 16, 150])
def test_inverse_distances_as_sums_of_exponentials(decades):
  shortest, longest = 10.0**-decades, 2.0
  exponents, weights = convergence_bound._exponentials(shortest, longest)
  distances = np.geomspace(shortest, longest, 2000)
  sums = np.exp(-np.outer(distances, exponents)) @ weights
  np.testing.assert_allclose(sums * distances, 1.0, rtol=4e-13)


# Rates of 0.


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
  assert last_iterate_bound(rates, norms) == (
    last_iterate_bound(rates[moving], norms[moving])
  )
  np.testing.assert_allclose(
    bound_curve(rates, norms)[moving],
    bound_curve(rates[moving], norms[moving]),
    rtol=CURVE_ERROR,
  )


def test_only_rates_of_0():
  assert np.isposinf(bound_curve(np.zeros(5))).all()
  assert last_iterate_bound(np.zeros(5)) == math.inf


def test_without_gradients_only_the_start_is_left():
  rates = np.array([1.0, 3.0])
  assert bound_curve(rates, 0.0).tolist() == [1 / 2, 1 / 8]
  assert last_iterate_bound(rates, 0.0) == 1 / 8
  assert best_base_rate(rates, 0.0) == (math.inf, 0.0)


# The best base rate.


@pytest.mark.parametrize('norms', [0.3, np.linspace(0.1, 3.0, 300)])
def test_no_other_base_rate_is_better(norms):
  rates, distance = SCHEDULES['huge'][:300] / 1e140, 7.0
  gamma, bound = best_base_rate(rates, norms, distance)
  at_best = last_iterate_bound(gamma * rates, norms, distance)
  assert at_best == pytest.approx(bound, rel=1e-14)
  for factor in (0.5, 0.99, 1.01, 2.0):
    other = last_iterate_bound(factor * gamma * rates, norms, distance)
    # Omega(c gamma*) = (1 / c + c) / 2 * Omega*.
    assert other == pytest.approx((1 / factor + factor) / 2 * bound, rel=1e-14)


def test_it_judges_the_shape_alone():
  rates = SCHEDULES['uniform']
  gamma, bound = best_base_rate(rates)
  other = best_base_rate(rates / 1024, 2.0, 8.0)
  # gamma* is in units of D / (G eta), the bound in units of D G.
  assert other == pytest.approx((4 * 1024 * gamma, 16 * bound), rel=1e-14)


# Arguments.


def test_float32_rates_are_taken_as_they_are():
  rates = np.float32([0.1, 0.7, 0.3])
  assert last_iterate_bound(rates) == last_iterate_bound(rates.tolist())


@pytest.mark.parametrize(
  'fn', [last_iterate_bound, best_base_rate, bound_curve]
)
@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (([],), r'shape of rates=\(0,\): shape of rates must be \(T,\)'),
    ((1.0,), r'shape of rates=\(\)'),
    (([[1.0]],), r'shape of rates=\(1, 1\)'),
    (([1.0, -0.5],), r'rates\[1\]=-0.5: .* must be a number from 0 to 1e150'),
    (([math.nan],), r'rates\[0\]=nan'),
    (([math.inf],), r'rates\[0\]=inf'),
    (([1e151],), r'rates\[0\]=1e\+151'),
    (([1.0, 1.0], [1.0]), r'shape of grad_norms=\(1,\): .* \(\) or .* \(2,\)'),
    (([1.0, 1.0], [1.0, -1.0]), r'grad_norms\[1\]=-1.0'),
    (([1.0], math.nan), r'grad_norms\[0\]=nan'),
    (([1.0], 1.0, 0.0), 'distance=0.0: distance must be a number above 0'),
  ],
)
def test_bad_arguments(fn, arguments, message):
  with pytest.raises(ValueError, match=message):
    fn(*arguments)
