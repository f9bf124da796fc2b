"""Phases, and steps as exact shares of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reset_cycles.schedules import phase


def test_the_cycle_of_a_phase():
  assert phase.Phase(90).cycle_steps == 90
  assert phase.Phase(90, 10).cycle_steps == 100


# In binary floating point 0.29 * 100 is 28.999... and 0.57 * 100 is
# 56.99999999999999; 0.07 * 100 is 7.0000000001.
@pytest.mark.parametrize(
  ('share', 'steps', 'whole', 'exact'),
  (
    (0.29, 100, 29, 29.0),
    (0.57, 100, 57, 57.0),
    (0.07, 100, 7, 7.0),
    (0.5, 7, 3, 3.5),
    (1.0, 7, 7, 7.0),
    (1e-05, 100_000, 1, 1.0),
    (1e-05, 99_999, 0, 0.99999),
    (Fraction(1, 3), 9, 3, 3.0),
  ),
)
def test_shares_of_steps(share, steps, whole, exact):
  assert phase.floor_steps(share, steps) == whole
  assert phase.share_steps(share, steps) == exact


def test_as_written():
  assert phase.as_written(0.1) == Fraction(1, 10)
  assert phase.as_written(3) == 3
  assert phase.as_written(Fraction(1, 3)) == Fraction(1, 3)
