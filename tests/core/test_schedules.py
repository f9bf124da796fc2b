"""Shapes that the core has, by hand."""

import jax
import numpy as np
import pytest

from reset_cycles.core.schedules import Cooldown, Cosine, LinearWarmup

COSINE = Cosine()


@pytest.mark.parametrize(
  ('shape', 'values'),
  (
    (LinearWarmup(), {0: 0, 0.25: 0.25, 0.75: 0.75, 1: 1}),
    (LinearWarmup(start=0.5), {0: 0.5, 0.25: 0.625, 1: 1}),
    # (1 + cos(pi x)) / 2: at thirds, 3/4 and 1/4.
    (COSINE, {0: 1, 1 / 3: 0.75, 0.5: 0.5, 2 / 3: 0.25, 1: 0}),
    (Cosine(floor=0.2), {0: 1, 0.5: 0.6, 1: 0.2}),
    (Cooldown(0.25), {0: 1, 0.5: 1, 0.75: 1, 0.875: 0.5, 1: 0}),
    (Cooldown(0.25, floor=0.2), {0: 1, 0.75: 1, 0.875: 0.6, 1: 0.2}),
    (Cooldown(1.0), {0: 1, 0.25: 0.75, 1: 0}),
  ),
  ids=repr,
)
def test_shapes_by_hand(shape, values):
  found = jax.jit(jax.vmap(shape))(np.float32(list(values)))
  np.testing.assert_allclose(found, list(values.values()), atol=1e-7)
  # Called with a number, as one would try it.
  for x, value in values.items():
    assert float(shape(x)) == pytest.approx(value, abs=1e-7)
