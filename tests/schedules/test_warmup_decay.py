"""One cycle: a warm-up and a decay, joined; how many steps a warm-up has."""

from __future__ import annotations

import numpy as np
import pytest

from curves import TOLERANCE, assert_close, read
from reset_cycles.schedules import warmup_decay, warmups
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.phase import as_written


def cycle(warmup, decay, length, factor, peak=1.0):
  steps = warmups.warmup_steps(warmup, length, as_written(factor))
  warmup = warmups.WARMUPS.read('warmup', warmup)
  decay = DECAYS.read('decay', decay)
  return warmup_decay.combine_warmup_decay_fn(
    length, steps, peak, warmup, decay
  )


# Written out for a peak of 1, L = 100 and W = 10 (factor 0.1). Decays count from
# the end of the warm-up; the holding ones hold for W + 0.2 L = 30 more.
HALF_COSINE = {10: 1.0, 55: 0.5, 100: 0.0, 32.5: 0.5 + 0.5 * 2**-0.5}
BY_HAND = [
  ('linear', 'constant', {0: 0.0, 1: 0.1, 2.5: 0.25, 9: 0.9, 10: 1, 100: 1}),
  ('cosine', 'constant', {0: 0, 2.5: 0.5 - 0.5 * 2**-0.5, 5: 0.5, 10: 1}),
  ('exponential', 'constant', {0: 0.01, 2.5: 10**-1.5, 5: 0.1, 10: 1, 20: 1}),
  ('linear', 'cosine', HALF_COSINE),
  ('linear', 'holding_exponential', {10: 1.0, 40: 1.0, 70: 10**-0.5, 100: 0.1}),
  (
    'linear',
    'holding_linear',
    {10: 1.0, 40: 1.0, 55: 0.75, 70: 0.5, 99: 1 / 60},
  ),
  ('linear', 'step', {54: 1.0, 55: 0.1, 77: 0.1, 78: 0.01, 100: 0.01}),
]


@pytest.mark.parametrize(('warmup', 'decay', 'values'), BY_HAND)
def test_phases_by_hand(warmup, decay, values):
  counts = np.asarray(list(values), np.float32)
  rates = read(cycle(warmup, decay, 100, 0.1), counts)
  assert_close(rates, list(values.values()), 1.0)


def test_the_holding_linear_decay_ends_at_zero():
  # Hold until 40, then 0.8 L - 2 W = 60 steps.
  assert (
    read(cycle('linear', 'holding_linear', 100, 0.1), np.float32([100]))[0] == 0
  )


def test_a_cycle_of_shapes_by_hand():
  # Peak 2, W = 10 of 100 steps: from 0.5 up to 2, then over 90 steps down to 1.
  rise = {'name': 'linear', 'start': 0.25}
  fall = {'name': 'polynomial', 'end': 0.5}
  values = {0: 0.5, 5: 1.25, 10: 2.0, 55: 1.5, 100: 1.0}
  rates = read(cycle(rise, fall, 100, 0.1, 2.0), np.asarray(list(values)))
  assert_close(rates, list(values.values()), 2.0)


def test_the_phases_by_themselves():
  rise = warmup_decay.warmup_fn('linear', 10, 2.0)
  assert_close(read(rise, np.arange(12)), [*np.arange(0, 2, 0.2), 2, 2], 2.0)
  fall = warmup_decay.decay_fn('linear', 100, 10, 2.0)
  assert_close(read(fall, np.asarray([0, 45, 90])), [2, 1, 0], 2.0)


@pytest.mark.filterwarnings('error')
def test_a_peak_beyond_float32_is_infinite_without_a_warning():
  for decay in ('cosine', 'holding_linear', 'step'):
    rates = read(cycle('none', decay, 100, 0.0, 1e39), np.arange(3))
    assert np.all(np.isinf(rates))


def test_exponential_warmup_starts_at_a_hundredth_of_any_peak():
  rates = read(cycle('exponential', 'constant', 100, 0.1, 3.0), np.arange(11))
  np.testing.assert_allclose(rates[0], 0.03, rtol=TOLERANCE)
  np.testing.assert_allclose(rates[1:] / rates[:-1], 100**0.1, rtol=1e-6)


@pytest.mark.parametrize('warmup', ('linear', 'cosine', 'exponential'))
def test_warmup_meets_decay_at_the_boundary(warmup):
  # W = 20: the last step of the warm-up is below the peak, step W is the peak.
  rates = read(cycle(warmup, 'cosine', 200, 0.1), np.arange(18, 23))
  assert rates[0] < rates[1] < rates[2] == 1.0 > rates[3] > rates[4]


def test_linear_warmup_is_exact_near_its_start():
  # A form such as peak - peak * (1 - t / W) would be off by half an ulp of the
  # peak, W times as much in relation to the first step's rate.
  rates = read(cycle('linear', 'cosine', 100_000, 0.5), np.arange(1, 100))
  expected = np.arange(1, 100) / 50_000
  np.testing.assert_allclose(rates, expected, rtol=2 * 2.0**-23)


def test_no_warmup_starts_at_the_peak_whatever_the_factor():
  rates = read(cycle('none', 'cosine', 100, 0.3), np.arange(101))
  expected = 0.5 + 0.5 * np.cos(np.pi * np.arange(101) / 100)
  assert_close(rates, expected, 1.0)


def test_warmup_of_less_than_a_step_is_none():
  rates = read(cycle('linear', 'constant', 49, 0.02), np.arange(3))
  np.testing.assert_array_equal(rates, 1.0)


def test_warmup_as_long_as_the_cycle():
  rates = read(cycle('linear', 'cosine', 10, 1.0), np.arange(11))
  assert_close(rates, np.arange(11) / 10, 1.0)


# In binary floating point 0.29 * 100 is 28.999..., 0.1 + 0.2 is 0.30000000004,
# 0.07 * 100 is 7.0000000001 and 0.57 * 100 is 56.99999999999999.
@pytest.mark.parametrize(
  ('factor', 'altered', 'length', 'steps'),
  (
    (0.29, 0.0, 100, 29),
    (0.57, 0.0, 100, 57),
    (0.07, 0.0, 100, 7),
    (0.1, 0.2, 10, 3),
    (0.02, 0.18, 533, 106),
    (0.02, -0.015, 534, 2),
    (0.02, -0.02, 1000, 0),
    (0.02, 0.0, 534, 10),
    (0.02, 0.0, 533, 10),
    (0.02, 0.0, 500, 10),
    (0.02, 0.0, 499, 9),
    (1e-05, 0.0, 100_000, 1),
    (1e-05, 0.0, 99_999, 0),
    (0.3, 0.7, 33, 33),
  ),
)
def test_warmup_steps_are_exact(factor, altered, length, steps):
  found = warmups.warmup_steps(
    'linear', length, as_written(factor) + as_written(altered)
  )
  assert found == steps
  assert warmups.warmup_steps('none', length, as_written(factor)) == 0
