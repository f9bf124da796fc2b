"""The convex bound: theorem 1 as a double sum, by hand, and beside other code."""

import json
import math
import pathlib

import numpy as np
import pytest

from reset_cycles.views.convex_bound import bound_curve, last_iterate_bound

DATA = pathlib.Path(__file__).parents[1] / 'data' / 'bound.json'
ORACLE = json.loads(DATA.read_text())


def twin(eta, norms, distance):
  """Theorem 1 as it is printed."""
  n = len(eta)
  g = [eta[t] ** 2 * norms[t] ** 2 for t in range(n)]
  found = (distance**2 + sum(g)) / (2 * sum(eta))
  for k in range(n - 1):
    after, from_k = sum(eta[k + 1 :]), sum(eta[k:])
    found += 0.5 * eta[k] / after / from_k * sum(g[k:])
  return found


def test_three_steps_by_hand():
  """Rates 2, 1, 1, norms 1, 2, 0, D = 3.

  (9 + 4 + 4) / 8 + 1/2 (2 / 2 / 4 * 8 + 1 / 1 / 2 * 4) = 2.125 + 2.
  9 / 8 is a, and 8 / 8 + 2 is b: gamma* is the root of 3 / 8.
  """
  found = last_iterate_bound([2.0, 1.0, 1.0], [1.0, 2.0, 0.0], 3.0)
  a, b = 9 / 8, 3.0
  assert found == pytest.approx((a + b, math.sqrt(a / b), 2 * math.sqrt(a * b)))


@pytest.mark.parametrize('seed', range(20))
def test_any_rates_and_norms_are_the_double_sum(seed):
  rng = np.random.default_rng(seed)
  n = int(rng.integers(1, 60))
  eta, norms = rng.uniform(0, 2, n), rng.uniform(0, 3, n)
  eta[rng.random(n) < 0.2] = 0.0  # as between two cycles
  eta[-1] = 0.5
  distance = float(rng.uniform(0.1, 5))
  value, factor, best = last_iterate_bound(eta, norms, distance)
  assert value == pytest.approx(twin(eta, norms, distance), rel=1e-12)
  at = last_iterate_bound(factor * eta, norms, distance)
  assert at.value == pytest.approx(best, rel=1e-12)
  for other in (0.5, 0.99, 1.01, 2.0):
    more = last_iterate_bound(other * factor * eta, norms, distance).value
    assert more >= best


@pytest.mark.oracle
@pytest.mark.parametrize('name', ORACLE)
def test_the_bounds_of_other_code(name):
  known = ORACLE[name]
  expected = [known[n] for n in ('bound', 'gamma_star', 'bound_at_gamma_star')]
  np.testing.assert_allclose(
    last_iterate_bound(known['eta']), expected, rtol=1e-9
  )
  if 'curve' in known:
    steps, values = bound_curve(known['eta'], points=10**4)
    assert steps.tolist() == list(range(1, len(known['eta']) + 1))
    np.testing.assert_allclose(values, known['curve'], rtol=1e-9)


def test_steps_at_no_rate_move_nothing():
  eta = np.linspace(1.0, 0.1, 10)
  longer = np.concatenate([eta, np.zeros(5)])
  assert last_iterate_bound(longer) == last_iterate_bound(eta)
  steps, values = bound_curve([0.0, 0.0, 1.0, 0.0], points=9)
  assert steps.tolist() == [3, 4]
  np.testing.assert_array_equal(values, [1.0, 1.0])


def test_the_curve_has_few_points_and_the_last_step():
  steps, values = bound_curve(np.ones(1000), points=7)
  assert len(steps) == len(values) == 7 and steps[-1] == 1000
  assert values[-1] == last_iterate_bound(np.ones(1000)).value


def test_a_million_steps_are_one_sum():
  """H_n is ln n + .5772 + 1 / 2n; all is O(T)."""
  n = 10**6
  harmonic = math.log(n - 1) + 0.5772156649015329 + 0.5 / (n - 1)
  expected = 0.5 / n + 0.5 + 0.5 * harmonic
  assert last_iterate_bound(np.ones(n)).value == pytest.approx(expected, 1e-12)


def test_without_a_gradient_the_largest_rate_is_best():
  assert last_iterate_bound([1.0, 1.0], 0.0) == (0.25, math.inf, 0.0)


@pytest.mark.parametrize(
  ('given', 'said'),
  [
    (([],), 'rates=.*: must be finite numbers of at least 0'),
    (([0.0, 0.0],), 'rates=.*not all 0'),
    (([1.0, -1.0],), 'rates='),
    (([1.0, math.nan],), 'rates='),
    (([[1.0]],), 'rates='),
    (([1.0, 1.0], [1.0]), 'gradient_norms=.*: must be one number .*or 2'),
    (([1.0, 1.0], -1.0), 'gradient_norms=-1.0'),
    (([1.0], 1.0, 0.0), r'distance=0.0: must be a number in \(0, inf\)'),
  ],
)
def test_what_is_no_rate_norm_or_distance_is_refused(given, said):
  with pytest.raises(ValueError, match=said):
    last_iterate_bound(*given)


def test_points_are_a_whole_number():
  with pytest.raises(ValueError, match='points=0: must be a whole number'):
    bound_curve([1.0], points=0)
