"""What a chain is made of, and what a rate may be."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.schedules.cycle import (
  Cycle,
  check_cycles,
  values_at_all_steps,
)
from reset_cycles.settings.hparams import HPARAMS

GOOD = (0.0, 0.5, 1.0)


def listed(values):
  """A schedule that has these values at steps 0, 1, and so on."""
  return lambda count: jnp.float32(values)[count.astype(jnp.int32)]


def cycle_of(rates, decays=None):
  return Cycle(
    steps=len(rates) - 1,
    warmup_steps=0,
    peak=1.0,
    rate=listed(rates),
    weight_decay=None if decays is None else listed(decays),
    hparams=HPARAMS,
    length=1.0,
  )


def test_a_schedule_is_read_at_its_nominal_steps_and_at_its_end():
  found = values_at_all_steps(lambda t: 0.5 * t + 0.25, 3)
  assert found.dtype == np.float32
  np.testing.assert_array_equal(found, [0.25, 0.75, 1.25, 1.75])
  # One that does not look at the step.
  np.testing.assert_array_equal(values_at_all_steps(lambda t: 2, 1), [2, 2])


def test_good_cycles_are_accepted():
  check_cycles([cycle_of(GOOD), cycle_of(GOOD, (0.0, 3.0, 1e30))])


@pytest.mark.parametrize('value', [math.nan, math.inf, -math.inf, -1e-9])
@pytest.mark.parametrize('step', [0, 1, 2])
def test_what_is_no_rate_is_refused(step, value):
  bad = [*GOOD]
  bad[step] = value
  right = r'; it must be finite and at least 0 at every step\.$'
  said = rf'is {np.float32(value)} at step {step} of its cycle{right}'
  with pytest.raises(ValueError, match=rf'^decays\[1\] {said}'):
    check_cycles([cycle_of(GOOD), cycle_of(bad)])
  with pytest.raises(ValueError, match=rf'^weight_decays\[2\] {said}'):
    check_cycles([cycle_of(GOOD), cycle_of(GOOD), cycle_of(GOOD, bad)])


def test_the_first_wrong_step_is_named():
  with pytest.raises(ValueError, match=r'^decays\[0\] is -1.0 at step 1 of'):
    check_cycles([cycle_of((1.0, -1.0, math.nan))])
