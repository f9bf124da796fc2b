"""Shapes, hyperparameters and cycles as they are written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.curves import read
from reset_cycles.core.cycle import (
  Cooldown,
  Cosine,
  LinearWarmup,
  Phase,
  scaled,
)
from reset_cycles.parts.shapes import Constant


@pytest.mark.parametrize(
  ('shape', 'steps', 'values'),
  (
    (LinearWarmup(), 4, {-1: 0, 0: 0, 1: 0.25, 3: 0.75, 4: 1, 9: 1}),
    (LinearWarmup(start=0.5), 4, {0: 0.5, 1: 0.625, 2: 0.75, 4: 1, 9: 1}),
    # (1 + cos(pi t / 6)) / 2: at thirds, 3/4 and 1/4.
    (Cosine(), 6, {-1: 1, 0: 1, 2: 0.75, 3: 0.5, 4: 0.25, 6: 0, 9: 0}),
    (Cosine(floor=0.2), 6, {0: 1, 3: 0.6, 6: 0.2, 9: 0.2}),
    # The last quarter of 8 steps is two.
    (Cooldown(0.25), 8, {0: 1, 5: 1, 6: 1, 7: 0.5, 8: 0, 9: 0}),
    (Cooldown(1.0), 4, {0: 1, 1: 0.75, 4: 0}),
    (Constant(), 6, {0: 1, 3: 1, 99: 1}),
  ),
)
def test_shapes_by_hand(shape, steps, values):
  found = read(shape.schedule(Phase(steps)), np.float32(list(values)))
  np.testing.assert_allclose(found, list(values.values()), atol=1e-7)


def test_a_factor_beyond_float32_is_infinite():
  for factor, expected in ((3e38, 3e38), (4e38, math.inf), (-4e38, -math.inf)):
    found = scaled(factor, lambda count: np.float32(1))(0)
    assert np.float32(found) == np.float32(expected)
