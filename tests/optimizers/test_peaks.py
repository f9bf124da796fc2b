"""The peak in proportion to the weights, by hand, and what follows from it."""

import math

import numpy as np
import pytest

from helpers.replay import PEAK, make_params, of, replay
from reset_cycles.optimizers.peaks import RelativePeak

KERNEL = np.float32([[3.0, 4.0], [0.0, 0.0]])  # rms 2.5


@pytest.mark.parametrize(
  ('params', 'size'),
  (
    ({'kernel': KERNEL}, 2.5),
    ({'kernel': -2 * KERNEL}, 5.0),
    # The geometric mean, in which every matrix counts alike.
    ({'a': KERNEL, 'b': 4 * np.ones((7, 5, 3), np.float32)}, math.sqrt(10.0)),
    # Vectors, numbers and zeros say nothing.
    ({'kernel': KERNEL, 'bias': np.ones(2), 'scale': np.float32(9)}, 2.5),
    ({'kernel': KERNEL, 'zeros': np.zeros((2, 2))}, 2.5),
    # A square of 1e-25 is 0 to a half or single precision.
    ({'kernel': 1e-25 * KERNEL}, 2.5e-25),
    ({'kernel': KERNEL.astype(np.float16)}, 2.5),
    ({'kernel': KERNEL, 'other': np.full((2, 2), np.inf)}, 2.5),
    ({'kernel': KERNEL, 'other': np.full((2, 2), np.nan)}, 2.5),
    ({'kernel': KERNEL, 'other': np.ones((0, 2))}, 2.5),
    ({'bias': np.ones(2)}, math.nan),
    ({'zeros': np.zeros((2, 2))}, math.nan),
    ({}, math.nan),
  ),
  ids=(
    *('one', 'scaled', 'two', 'vectors', 'zeros', 'tiny', 'half'),
    *('infinite', 'nan', 'no entry', 'only vectors', 'only zeros', 'empty'),
  ),
)
def test_the_peak_by_hand(params, size):
  found = RelativePeak(0.5).peak(params)
  assert found == pytest.approx(0.5 * size, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
  ('first_peak', 'scale'),
  ((4 * PEAK, 4.0), (math.nan, 1.0), (math.inf, 1.0), (0.0, 1.0), (-1.0, 1.0)),
)
def test_all_peaks_are_scaled_by_one_factor(first_peak, scale):
  events, *_ = replay(make_params(), 12, {}, first_peak=first_peak)
  peaks = [PEAK, PEAK + 0.001, PEAK - 0.001]
  begun = [peak for _, peak in of(events, 'cycle_start', 'peak_value')]
  expected = [scale * peak for peak in peaks]
  np.testing.assert_allclose(begun, expected, rtol=1e-12)
