"""The clock by which a run reads its rates, by hand and beside the slow twin."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import reference
from helpers.curves import assert_close
from reset_cycles.core import clock as clock_lib
from reset_cycles.core.schedules import Cycle, PlannedCycle


def at(clock, step):
  return clock._replace(count=np.int32(step))


# Cycles of 4, of 8 and of 4 steps, with 0, 2 and 4 steps of warm-up.
PLANNED = (
  PlannedCycle(4, 0, Cycle(peak=0.7, warmup_factor=0.0)),
  PlannedCycle(8, 2, Cycle(peak=0.5, warmup_factor=0.25)),
  PlannedCycle(4, 4, Cycle(peak=0.5, warmup_factor=1.0)),
)


def test_a_clock_by_hand():
  # From nominal step 2 of 8, in 24 steps: a pace of a quarter.
  clock = clock_lib.anchored_clock(10, 2.0, 34, 1, PLANNED, 0.5, 4.0)
  assert tuple(clock) == (10, 1, 8, 2, 10, 4, 2.0, 0.25, 0.25, 4.0, 1.0)
  assert [x.dtype for x in clock] == ['int32'] * 6 + ['float32'] * 5
  for step, nominal in ((10, 2.0), (11, 2.25), (34, 8.0), (38, 9.0)):
    assert clock_lib.nominal_step(clock, step) == nominal
  # A peak beyond float32 stays finite.
  large = clock_lib.anchored_clock(0, 0.0, 4, 0, PLANNED, 1e39)
  assert large.peak == np.finfo(np.float32).max
  # So does a size, which is also never 0: a rate is divided by it.
  sizes = (1e-50, np.finfo(np.float32).tiny), (1e39, np.finfo(np.float32).max)
  for size, held in sizes:
    clock = clock_lib.anchored_clock(0, 0.0, 4, 0, PLANNED, 1.0, size)
    assert clock.size == held
  # In float64, on the host.
  third = clock_lib.anchored_clock(0, 0.0, 12, 0, PLANNED)
  assert clock_lib.nominal_step(third, 10**8 + 1) == (10**8 + 1) * float(
    np.float32(1 / 3)
  )


def test_the_steps_of_the_chain_by_hand():
  """The second cycle of 8 steps comes after one of 4; past its end it stays."""
  for setting, nominal, later, taken in (
    (0, 0.0, 0, 0.0),
    (0, 1.5, 1, 2.5),
    (1, 2.0, 3, 9.0),
    (1, 2.0, 30, 12.0),
  ):
    left = PLANNED[setting].steps - nominal
    clock = clock_lib.anchored_clock(10, nominal, 10 + left, setting, PLANNED)
    words = clock_lib.packed(clock._replace(count=np.int32(10 + later)))
    assert float(clock_lib.steps_taken(words)) == taken


@pytest.mark.parametrize(
  ('count', 'nominal', 'factor'),
  ((0, 0.0, 1.0), (2**31 - 1, 1 / 3, 1e-44), (2**24 + 1, -0.0, 3e38)),
)
def test_a_clock_is_one_array_to_the_last_bit(count, nominal, factor):
  clock = clock_lib.anchored_clock(
    count, nominal, count + 7, 1, PLANNED, factor, 1 / 3
  )
  words = clock_lib.packed(clock)
  assert (words.shape, str(words.dtype)) == ((11,), 'int32')
  for given in (words, jnp.asarray(words)):
    for kept, number in zip(clock_lib.unpacked(given), clock):
      assert kept.dtype == number.dtype
      assert np.asarray(kept).tobytes() == number.tobytes()


def test_any_clock_is_read_by_one_program(compilations):
  """As the twin reads its nominal steps, and at its end beyond them."""
  rate = jax.jit(functools.partial(clock_lib.learning_rate, cycles=PLANNED))
  rate(clock_lib.packed(clock_lib.anchored_clock(0, 0.0, 4, 0, PLANNED)))
  anchors = (
    (4, 0.0, 12, 1, 1.0),
    (5, 0.0, 105, 0, 0.25),  # stretched
    (7, 1.5, 10, 1, 4.0),  # compressed, in the middle of the warm-up
    (9, 2.0, 29, 1, 1.0),  # stretched from the peak on
    (12, 0.0, 16, 2, 1.0),  # nothing but a warm-up: it stays at the peak
    (2**24 + 1, 0.0, 2**24 + 9, 1, 1.0),  # steps that no float32 counts
  )
  found, expected = [], []
  with compilations() as compiled:
    for step, nominal, end, i, factor in anchors:
      clock = clock_lib.anchored_clock(step, nominal, end, i, PLANNED, factor)
      steps, _, cycle, _ = PLANNED[i]
      for now in range(step, end + 5):
        found.append(float(rate(clock_lib.packed(at(clock, now)))))
        t = min(clock_lib.nominal_step(clock, now), steps)
        expected.append(factor * reference.cycle_rate(t, steps, cycle))
  assert compiled == []
  assert_close(found, expected, 4.0)
