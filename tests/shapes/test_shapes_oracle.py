"""Shapes against torch, Cerebras and pytorch-accelerated.

The tolerance is that of `curves`, where it is derived, times the largest rate;
where a curve is steeper than those of `curves`, what the rounding of the share
itself makes of it comes on top.
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.curves import TOLERANCE, read
from helpers.neighbours import CASES

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(
  ('case', 'expected', 'name'), CASES, ids=[case[2] for case in CASES]
)
def test_shapes_agree_with_their_neighbours(case, expected, name):
  if name.startswith('OneCycle'):
    expected = expected[:100]  # beyond its end torch's is an error
  steps = np.arange(len(expected))
  x = np.float32(steps) / np.float32(case.steps)
  ulp = np.float32(2.0**-24)
  near = np.clip([x - ulp, x + ulp], 0, 1)  # counts of a phase of one step
  values, *near_values = read(
    case.shape, [[case.steps], [1.0], [1.0]], [steps, *near]
  )
  rates, peak = case.peak * values, np.max(np.abs(expected))
  of_rounding = case.peak * np.abs(np.subtract(*near_values))
  wrong = np.abs(rates - expected) > TOLERANCE * peak + of_rounding
  assert not wrong.any(), (steps[wrong], rates[wrong])
