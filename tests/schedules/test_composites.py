"""Shapes of several pieces: where the pieces meet."""

from __future__ import annotations

import numpy as np
import pytest

from curves import assert_close, read
from reset_cycles.schedules import composites
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.phase import Phase


def shape(steps, name, **parameters):
  setting = DECAYS.read('shape', {'name': name, **parameters})
  return DECAYS.make(setting, Phase(steps))


BY_HAND = {
  'piecewise constant, at a part of a step': (
    shape(10, 'piecewise_constant', values=[1.0, 0, 2], at=[0.3, 0.55]),
    {0: 1.0, 2.9: 1.0, 3: 0.0, 5: 0.0, 5.5: 2.0, 9: 2.0},
  ),
  'warm restarts, each twice as long': (
    shape(28, 'cosine_warm_restarts', multiplier=2),
    {0: 1.0, 2: 0.5, 4: 1.0, 8: 0.5, 12: 1.0, 20: 0.5, 28: 0.0, 30: 0.0},
  ),
  'exp_range': (
    # Amplitude 0.5^t of the way from 0 to 1 over 2 steps.
    shape(4, 'cyclic', periods=1, mode='exp_range', gamma=0.0625),
    {0: 0.0, 1: 0.25, 2: 0.25, 3: 0.0625, 4: 0.0, 6: 2.0**-6},
  ),
  'one cycle, three phases, straight': (
    shape(
      10,
      'one_cycle',
      start=0.5,
      end=0.0,
      rise=0.4,
      three_phase=True,
      anneal='linear',
    ),
    {0: 0.5, 2: 0.75, 4: 1.0, 6: 0.75, 8: 0.5, 9: 0.25, 10: 0.0, 20: 0.0},
  ),
  'WSD goes on from a checkpoint': (
    # Two periods of 8 steps, 4 of which go down.
    shape(16, 'wsd', checkpoints=2, decay=0.5, floor=0.5),
    {0: 1, 4: 1, 5: 0.875, 7: 0.625, 8: 1, 12: 1, 13: 0.875, 16: 0.5, 20: 0.5},
  ),
  'sequential leaves out parts without a step': (
    # Of 3 steps: floor(0.3) = 0, then floor(1.8) = 1.
    shape(
      3,
      'sequential',
      shapes=['constant', 'linear', 'constant'],
      at=[0.1, 0.6],
      peaks=[9, 1, 0.25],
    ),
    {0: 1.0, 0.5: 0.5, 1: 0.25, 3: 0.25},
  ),
}


@pytest.mark.parametrize('case', BY_HAND)
def test_by_hand(case):
  schedule, values = BY_HAND[case]
  counts = np.asarray(list(values), np.float32)
  assert_close(read(schedule, counts), list(values.values()), 2.0)


@pytest.mark.parametrize('period', (49, 94, 115, 122, 227, 388, 1067))
def test_a_saw_is_not_a_step_late(period):
  steps = np.arange(1, 40, dtype=np.int32) * period
  saw = shape(40 * period, 'cyclic', periods=40, rise=1 / period, floor=0.25)
  np.testing.assert_array_equal(read(saw, steps), 0.25)
  assert_close(read(saw, steps + 1), np.ones(39), 1.0)


@pytest.mark.parametrize(
  ('total', 'count', 'periods'),
  (
    (1000, 1, [(1000, 100)]),
    (1000, 2, [(500, 50), (500, 50)]),
    (1000, 4, [(125, 12), (125, 12), (250, 25), (500, 50)]),
    # Checkpoints at floor(11 / 4), floor(11 / 2) and 11.
    (11, 3, [(2, 1), (3, 1), (6, 1)]),
    (1, 1, [(1, 0)]),
    # The first two would be at step 0.
    (3, 4, [(1, 0), (2, 1)]),
  ),
)
def test_periods_of_wsd_by_hand(total, count, periods):
  assert composites.wsd_periods(total, count, 0.1) == periods


def test_one_cycle_of_few_steps_has_all_its_ways():
  # A step up, a step down and a third: beyond the phase, where it is short.
  short = shape(1, 'one_cycle', start=0.5, end=0.0, rise=0.1)
  assert_close(read(short, np.arange(4)), [0.5, 1.0, 0.5, 0.0], 1.0)
  three = shape(3, 'one_cycle', start=0.5, end=0.0, rise=0.1, three_phase=True)
  assert_close(read(three, np.arange(4)), [0.5, 1.0, 0.5, 0.0], 1.0)
