"""Decays of one formula: what only certain numbers bring to light."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curves import assert_close, read
from reset_cycles.schedules.decays import DECAYS, HOLDING_DECAYS
from reset_cycles.schedules.phase import Phase


def decay(steps, name, **parameters):
  setting = DECAYS.read('decay', {'name': name, **parameters})
  return DECAYS.make(setting, Phase(steps))


BY_HAND = {
  'polynomial, cycle: N, then 2 N, then 3 N': (
    decay(40, 'polynomial', share=0.25, cycle=True),
    {0: 1.0, 5: 0.5, 10: 0.0, 11: 0.45, 15: 0.25, 20: 0.0, 21: 0.3, 30: 0.0},
  ),
  'polynomial, up': (
    decay(4, 'polynomial', start=0.25, end=1.0),
    {0: 0.25, 1: 0.4375, 2.5: 0.71875, 4: 1.0, 5: 1.0},
  ),
  'polynomial backward': (
    # ((T - t) / (T - 1))^2 for t = 1..5, T = 5.
    decay(4, 'polynomial', power=2.0),
    {0: 1.0, 1: 0.5625, 2: 0.25, 3: 0.0625, 4: 0.0},
  ),
  'cosine annealing comes back': (
    decay(8, 'cosine_annealing'),
    {0: 1.0, 2: 0.5, 4: 0.0, 6: 0.5, 8: 1.0},
  ),
  'k-decay': (
    # (1/2)^2 = 1/4: cos(pi / 4) = 1 / sqrt(2).
    decay(8, 'k_decay_cosine', k=2),
    {0: 1.0, 4: 0.5 + 0.5**1.5, 8: 0.0, 9: 0.0},
  ),
  'staircase': (
    decay(8, 'exponential', factor=0.5, share=0.5, staircase=True),
    {0: 1.0, 3.5: 1.0, 4: 0.5, 7: 0.5, 8: 0.25},
  ),
  'inverse time, squared': (
    # 1 / (1 + t^2 / 4)
    decay(8, 'inverse_time', rate=4.0, exponent=2.0, share=0.5),
    {0: 1.0, 2: 0.5, 4: 0.2, 6: 0.1},
  ),
  'step at a part of a step': (
    decay(10, 'step', factor=0.5, at=[0.35, 0.8]),
    {0: 1.0, 3: 1.0, 3.4: 1.0, 3.5: 0.5, 7.9: 0.5, 8: 0.25, 20: 0.25},
  ),
}


@pytest.mark.parametrize('case', BY_HAND)
def test_by_hand(case):
  schedule, values = BY_HAND[case]
  counts = np.asarray(list(values), np.float32)
  assert_close(read(schedule, counts), list(values.values()), 1.0)


# The schedules of `scheduled`, from its formulas: rates of steps 1 to T,
# relative to the base rate. A cool-down of C steps ends at step T.


def scheduled_reference(total, cooldown, exponent, kind, final):
  """(main part t^-exponent, then the cool-down) for t = 1..T."""
  main = [t**-exponent for t in range(1, total - cooldown + 1)]
  r = np.arange(1, cooldown + 1) / cooldown if cooldown else np.zeros(0)
  left = 1 - (np.sqrt(r) if kind == 'sqrt' else r)
  return np.append(main, final + (main[-1] - final) * left)


@pytest.mark.parametrize('kind', ('linear', 'sqrt'))
@pytest.mark.parametrize(
  ('exponent', 'cooldown'), ((0.0, 20), (0.5, 0), (0.5, 30), (1.0, 25))
)
def test_scheduled_agrees_with_its_formulas(exponent, cooldown, kind):
  # WSD (exponent 0), the square root (1/2) and the polynomial (1).
  total, final = 100, 0.01 if cooldown else 0.0
  fall = {'fall': kind, 'floor': final}
  share = cooldown / total
  if exponent == 0:
    schedule = decay(total, 'wsd', decay=share, **fall)
  else:
    power = {'exponent': exponent, 'hold': 0.01, 'cooldown': share}
    schedule = decay(total, 'inverse_power', **power, **fall)
  expected = scheduled_reference(total, cooldown, exponent, kind, final)
  assert_close(read(schedule, np.arange(1, total + 1)), expected, 1.0)


@pytest.mark.parametrize('period', (49, 94, 115, 122, 227, 388, 1067))
def test_jumps_are_not_a_step_late(period):
  # A product with the float nearest to 1 / period is below k at k * period.
  steps = np.arange(1, 40, dtype=np.int32) * period
  stairs = decay(
    40 * period, 'exponential', factor=0.5, share=0.025, staircase=True
  )
  expected = 0.5 ** np.arange(1, 40)
  np.testing.assert_array_equal(read(stairs, steps), expected)
  np.testing.assert_array_equal(read(stairs, steps - 1), 2 * expected)
  power = decay(40 * period, 'polynomial', share=0.025, cycle=True)
  np.testing.assert_allclose(read(power, steps), 0.0, atol=1e-7)


@pytest.mark.parametrize('power', [0.1, 0.5, 1.0])
def test_a_polynomial_reaches_its_end_in_compiled_programs(power):
  for steps in (41, 47, 55, 83, 123):
    schedule = decay(steps, 'polynomial', power=power)
    assert jax.jit(schedule)(jnp.int32(steps)) == 0.0


@pytest.mark.parametrize('exponent', [2.0, 7.0, 13.0])
def test_an_inverse_time_decay_stays_a_number(exponent):
  schedule = decay(1_000_000, 'inverse_time', exponent=exponent)
  expected = [1.0, 1 / (1 + 9 * 0.5**exponent), 0.1]
  np.testing.assert_allclose(
    read(schedule, np.array([0, 500_000, 1_000_000])), expected, rtol=1e-5
  )


def test_a_holding_decay_needs_room_after_the_warm_up():
  assert HOLDING_DECAYS == {'holding_exponential': 0.4, 'holding_linear': 0.4}
  # One step below the bound, L = 1000 and W = 399: 801 - 798 steps to fall in,
  # after 399 + 200 of the 601.
  schedule = DECAYS.make('holding_linear', Phase(601, 399))
  rates = read(schedule, np.asarray([598, 599, 600, 601]))
  assert_close(rates, [1, 1, 0.5, 0], 1.0)
