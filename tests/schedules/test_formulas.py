"""Formulas that several shapes are made of."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curves import TOLERANCE, assert_close, read
from reset_cycles.schedules import formulas

BY_HAND = {
  'straight down': (
    formulas.straight(1.0, 0.0, 4),
    {0: 1.0, 1: 0.75, 2.5: 0.375, 4: 0.0, 5: 0.0},
  ),
  'straight up': (
    formulas.straight(0.25, 1.25, 4),
    {0: 0.25, 1: 0.5, 2.5: 0.875, 4: 1.25, 5: 1.25},
  ),
  'half a cosine': (
    formulas.half_cosine(1.0, 0.5, 4),
    {0: 1.0, 2: 0.75, 4: 0.5, 9: 0.5},
  ),
  'linear fall': (
    formulas.falling(1.0, 0.5, 4, 'linear'),
    {0: 1.0, 1: 0.875, 4: 0.5, 5: 0.5},
  ),
  'sqrt fall': (
    formulas.falling(1.0, 0.5, 4, 'sqrt'),
    {0: 1.0, 1: 0.75, 4: 0.5, 5: 0.5},
  ),
  'inverse fall': (
    # 1 / (10 r + (1 - r)) from 1 to 0.1
    formulas.falling(1.0, 0.1, 9, 'inverse'),
    {0: 1.0, 1: 0.5, 3: 0.25, 9: 0.1, 10: 0.1},
  ),
  'pieces': (
    # Each counts from its own start, and the last one goes on.
    formulas.joined(
      [
        (formulas.straight(1.0, 0.0, 4), 2),
        (formulas.straight(2.0, 0.0, 4), 3),
        (formulas.straight(1.0, 0.5, 2), 1),
      ]
    ),
    {0: 1.0, 1: 0.75, 2: 2.0, 4: 1.0, 5: 1.0, 6: 0.75, 7: 0.5, 9: 0.5},
  ),
  'scaled': (
    formulas.scaled(3.0, formulas.straight(1.0, 0.0, 4)),
    {0: 3.0, 1: 2.25, 4: 0.0},
  ),
}


@pytest.mark.parametrize('case', BY_HAND)
def test_by_hand(case):
  schedule, values = BY_HAND[case]
  counts = np.asarray(list(values), np.float32)
  assert_close(read(schedule, counts), list(values.values()), 3.0)
  assert_close(schedule(-1.5), values[0], 3.0)


@pytest.mark.parametrize('period', (49, 94, 115, 122, 227, 388, 1067))
def test_whole_periods_are_not_a_step_late(period):
  # A product with the float nearest to 1 / period is below k at k * period.
  steps = np.arange(1, 40) * period
  periods = jax.jit(lambda count: formulas.whole_periods(count, period))
  whole, rest = periods(jnp.int32(steps))
  np.testing.assert_array_equal(whole, np.arange(1, 40))
  np.testing.assert_array_equal(rest, 0)
  whole, rest = periods(jnp.int32(steps - 1))
  np.testing.assert_array_equal(whole, np.arange(39))
  np.testing.assert_array_equal(rest, period - 1)


def test_ends_that_are_just_reached():
  counts = np.float32([0, 2, 2.5, 3, 7, 8, 100])
  right = formulas.ends_passed([2.5, 7], counts, 'right')
  np.testing.assert_array_equal(right, [0, 0, 1, 1, 2, 2, 2])
  left = formulas.ends_passed([2.5, 7], counts, 'left')
  np.testing.assert_array_equal(left, [0, 0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize(
  ('share', 'steps', 'ends'),
  (
    (0.3, 10, [3.0, 6.0, 9.0]),
    (0.25, 10, [2.5, 5.0, 7.5, 10.0]),
    (0.1, 3, [0.3 * i for i in range(1, 11)]),
    (1.0, 7, [7.0]),
    (0.6, 5, [3.0]),
  ),
)
def test_ends_of_parts(share, steps, ends):
  np.testing.assert_allclose(
    formulas.ends_of_parts(share, steps), ends, rtol=1e-15
  )


def test_the_share_that_is_left_ends_at_zero_in_compiled_programs():
  left = jax.jit(formulas.share_left, static_argnums=1)
  for steps in (41, 47, 55, 83, 123, 0.1):
    assert left(jnp.float32(steps), steps) == 0.0
    assert left(jnp.float32(2 * steps), steps) == 0.0
    assert left(jnp.float32(-1), steps) == left(jnp.float32(0), steps)


def test_a_product_is_rounded_before_a_sum():
  # (1 + 2^-12)^2 - 1 is 2^-11 + 2^-24; its product, rounded, lacks the latter.
  square = jax.jit(lambda x: formulas.rounded(x * x) - 1.0)
  assert square(jnp.float32(1 + 2**-12)) == 2.0**-11


@pytest.mark.filterwarnings('error')
def test_a_factor_beyond_float32_is_infinite_without_a_warning():
  one = formulas.straight(1.0, 0.0, 4)
  assert formulas.scaled(1e39, one)(jnp.float32(0)) == math.inf
  assert formulas.scaled(-1e39, one)(jnp.float32(0)) == -math.inf
  largest = formulas.scaled(formulas.LARGEST, one)(jnp.float32(0))
  np.testing.assert_allclose(largest, 3.4028235e38, rtol=TOLERANCE)
