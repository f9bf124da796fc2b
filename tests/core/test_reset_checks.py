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


ZEROS = np.zeros_like(MOMENT)
KINDS = pytest.mark.parametrize(
  ('what', 'old', 'fresh'),
  (('parameters', OLD, FRESH), ('moments', MOMENT, ZEROS)),
)


def passes(what, pair, share, fresh=FRESH):
  given = () if what == 'moments' else (share, [fresh])
  reset_checks.check(what, [pair], 1 - share, *given)


def fails(what, pair, share):
  with pytest.raises(RuntimeError, match=f'{what} are off by up to'):
    passes(what, pair, share)


@KINDS
@pytest.mark.parametrize('share', (0.125, 0.5, 0.868, 1e-5, 1.0, 0.0))
def test_a_right_reset_passes(what, old, fresh, share):
  pair = blended(old, fresh, share)
  passes(what, pair, share)
  fails(what, pair, share - 1e-4)


@KINDS
@pytest.mark.parametrize('bad', (1e-5, np.nan, np.inf))
def test_a_wrong_element_on_one_device_is_found(what, old, fresh, bad):
  old, new = blended(old, fresh, 0.25)
  new[5, 7] += bad
  fails(what, (old, new), 0.25)


@KINDS
@pytest.mark.parametrize('bad', (np.nan, np.inf))
def test_an_element_that_was_not_finite_has_to_be_fresh(what, old, fresh, bad):
  old, new = blended(old, fresh, 0.25)
  old[:, 3], new[:, 3] = bad, reset_checks.sample(fresh)[3]
  passes(what, (old, new), 0.25)
  new[:, 3] += 1
  fails(what, (old, new), 0.25)


def test_a_blend_too_small_to_be_told_from_rounding_has_to_change_something():
  old = reset_checks.sample(OLD)[None]
  with pytest.raises(RuntimeError, match='no element of the iterates changed'):
    passes('iterates', (old, old), 4e-7)  # about 3 ulps


def test_nothing_has_to_change_where_fresh_and_old_are_the_same():
  old, _ = pair = blended(OLD, OLD, 0.25)
  passes('parameters', pair, 0.25, OLD)
  fails('parameters', (old, old), 0.25)


def test_moments_that_fade_may_become_zero():
  # Below 2^-126 XLA takes a float32 for zero.
  old = np.float32([[1.5 * 2.0**-126, 2.0**-149, 2.0**-140]])
  passes('moments', (old, np.zeros_like(old)), 0.5)
  fails('moments', (old * 2.0**10, np.zeros_like(old)), 0.5)
