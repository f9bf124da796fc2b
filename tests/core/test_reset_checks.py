"""The checks after a reset: silent when all is well, loud when it is not."""

from __future__ import annotations

import numpy as np
import pytest

from reset_cycles.core import reset_checks

OLD = np.linspace(-1, 1, 200, dtype=np.float32).reshape(20, 10)
FRESH = np.cos(OLD)
MOMENT = np.sin(3 * OLD)


@pytest.mark.parametrize(
  ('shape', 'count'),
  (
    ((), 1),
    ((3,), 3),
    ((64,), 64),
    ((65,), 33),
    ((20, 10), 50),
    ((9, 9, 9), 61),
  ),
)
def test_a_sample_is_even_and_of_at_most_64(shape, count):
  leaf = np.arange(np.prod(shape, dtype=int)).reshape(shape)
  found = reset_checks.sample(leaf)
  assert found.size == count <= 64
  assert found[0] == 0
  assert len(set(np.diff(found))) <= 1


def blended(old, fresh, share):
  """A sample pair as a reset in float32 makes it, per device."""
  new = (1 - share) * old.astype(np.float64) + share * fresh
  pair = (old, new.astype(old.dtype))
  samples = (reset_checks.sample(x)[None].repeat(8, axis=0) for x in pair)
  return reset_checks.Sample(*samples)


def test_a_right_blend_passes():
  for share in (0.25, 0.868, 1e-5):
    pair = blended(OLD, FRESH, share)
    reset_checks.check('parameters', [pair], 1 - (share), share, [FRESH])
    with pytest.raises(RuntimeError, match='parameters are off by up to'):
      reset_checks.check(
        'parameters', [pair], 1 - (share + 1e-4), share + 1e-4, [FRESH]
      )


def test_the_message_says_what_went_wrong():
  pair = blended(OLD, FRESH, 0.25)
  with pytest.raises(RuntimeError, match='iterates are off by up to'):
    reset_checks.check('iterates', [pair], 1 - (0.5), 0.5, [FRESH])


def test_a_wrong_element_on_one_device_is_found():
  old, new = blended(OLD, FRESH, 0.25)
  new[5, 7] += 1e-5
  with pytest.raises(RuntimeError, match='parameters are off by up to'):
    reset_checks.check('parameters', [(old, new)], 1 - (0.25), 0.25, [FRESH])


@pytest.mark.parametrize('bad', (np.nan, np.inf))
def test_a_result_that_is_not_finite_is_found(bad):
  old, new = blended(OLD, FRESH, 0.25)
  new[0, 0] = bad
  with pytest.raises(RuntimeError, match='parameters are off by up to'):
    reset_checks.check('parameters', [(old, new)], 1 - (0.25), 0.25, [FRESH])


def test_an_element_that_was_not_finite_has_to_be_fresh():
  old, new = blended(OLD, FRESH, 0.25)
  old[:, 3] = np.nan
  new[:, 3] = reset_checks.sample(FRESH)[3]
  reset_checks.check('parameters', [(old, new)], 1 - (0.25), 0.25, [FRESH])
  new[:, 3] = 0
  with pytest.raises(RuntimeError, match='parameters are off by up to'):
    reset_checks.check('parameters', [(old, new)], 1 - (0.25), 0.25, [FRESH])


def test_a_blend_too_small_to_be_told_from_rounding_has_to_change_something():
  share = 4e-7  # about 3 ulps
  old = reset_checks.sample(OLD)[None]
  with pytest.raises(
    RuntimeError, match='no element of the parameters changed'
  ):
    reset_checks.check('parameters', [(old, old)], 1 - (share), share, [FRESH])


def test_nothing_has_to_change_where_fresh_and_old_are_the_same():
  old, _ = pair = blended(OLD, OLD, 0.25)
  reset_checks.check('parameters', [pair], 1 - (0.25), 0.25, [OLD])
  with pytest.raises(RuntimeError, match='parameters are off by up to'):
    reset_checks.check('parameters', [(old, old)], 1 - (0.25), 0.25, [FRESH])


def test_right_moments_pass():
  for keep in (0.875, 0.5, 0.0, 1.0):
    pair = blended(MOMENT, np.zeros_like(MOMENT), 1 - keep)
    reset_checks.check('moments', [pair], keep)
    with pytest.raises(RuntimeError, match='moments are off by up to'):
      reset_checks.check('moments', [pair], keep + 1e-4)


@pytest.mark.parametrize('bad', (1e-5, np.nan, np.inf))
def test_a_wrong_moment_on_one_device_is_found(bad):
  old, new = blended(MOMENT, np.zeros_like(MOMENT), 0.125)
  new[2, 1] += bad
  with pytest.raises(RuntimeError, match='moments are off by up to'):
    reset_checks.check('moments', [(old, new)], 0.875)


def test_a_moment_that_was_not_finite_has_to_be_zero():
  old, new = blended(MOMENT, np.zeros_like(MOMENT), 0.125)
  old[:, 3], new[:, 3] = np.inf, 0
  reset_checks.check('moments', [(old, new)], 0.875)
  new[:, 3] = 1
  with pytest.raises(RuntimeError, match='moments are off by up to'):
    reset_checks.check('moments', [(old, new)], 0.875)


def test_moments_that_fade_may_become_zero():
  # Below 2^-126 XLA takes a float32 for zero.
  old = np.float32([[1.5 * 2.0**-126, 2.0**-149, 2.0**-140]])
  zeros = np.zeros_like(old)
  reset_checks.check('moments', [(old, zeros)], 0.5)
  with pytest.raises(RuntimeError, match='moments are off by up to'):
    reset_checks.check('moments', [(old * 2.0**10, zeros)], 0.5)
