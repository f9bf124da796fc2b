"""tau, what a reset does in each mode, and the formulas for single leaves."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from reset_cycles import soft_reset
from reset_cycles.soft_reset import Reset

NAN, INF = math.nan, math.inf
# Half an ulp, the rounding of one operation in float32.
HALF_ULP = 2.0**-24


# tau of a metric that rises, by hand: 1 - metric / target.
RISING = (
  (0.0, 0.8, 1.0),
  (0.2, 0.8, 0.75),
  (0.6, 0.8, 0.25),
  (0.8, 0.8, 0.0),  # at the target
  (0.9, 0.8, 0.0),  # beyond
  (-0.5, 0.8, 1.0),
  (30.0, 40.0, 0.25),
  (0.868, 1.0, 0.132),
  (NAN, 0.8, 1.0),
  (INF, 0.8, 1.0),
  (-INF, 0.8, 1.0),
)


@pytest.mark.parametrize(('metric', 'target', 'expected'), RISING)
@pytest.mark.parametrize('first', (None, 0.3, 0.9, NAN))
def test_tau_of_a_rising_metric(metric, target, expected, first):
  found = soft_reset.tau(metric, target, first, rising=True)
  assert found == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
  ('tau', 'target'),
  (
    (0.868, 0.28098),  # figure 3.11, OGBG's mean average precision
    (0.014, 0.28098),  # figure 3.8a
    (0.0, 0.28098),  # figures 3.8b and c
    (0.028, 30.8491),  # figure 3.9, WMT's BLEU
    (0.024, 30.8491),
  ),
)
def test_tau_of_the_thesis(tau, target):
  metric = (1 - tau) * target
  found = soft_reset.tau(metric, target, None, rising=True)
  assert found == pytest.approx(tau, abs=1e-15)


# tau of a metric that falls, by hand: log(metric / target) / log(first / target).
FALLING = (
  (0.1, 0.01, 1.0, 0.5),
  (1.0, 0.01, 1.0, 1.0),  # no progress yet
  (0.01, 0.01, 1.0, 0.0),  # at the target
  (0.005, 0.01, 1.0, 0.0),  # beyond
  (0.0, 0.01, 1.0, 0.0),
  (-1.0, 0.01, 1.0, 0.0),
  (3.0, 0.01, 1.0, 1.0),  # worse than untrained
  (16.0, 2.0, 128.0, 0.5),  # perplexity: 2^4 on the way from 2^7 to 2^1
  (4.0, 2.0, 128.0, 1 / 6),
  (NAN, 0.01, 1.0, 1.0),
  (INF, 0.01, 1.0, 1.0),
  (-INF, 0.01, 1.0, 1.0),
  # The first metric does not serve: 1 - target / metric.
  (0.04, 0.01, None, 0.75),
  (0.04, 0.01, NAN, 0.75),
  (0.04, 0.01, INF, 0.75),
  (0.04, 0.01, 0.01, 0.75),  # no worse than the target
  (0.04, 0.01, 0.001, 0.75),
  (0.04, 0.01, -1.0, 0.75),
  (0.01, 0.01, None, 0.0),
  (0.001, 0.01, None, 0.0),
)


@pytest.mark.parametrize(('metric', 'target', 'first', 'expected'), FALLING)
def test_tau_of_a_falling_metric(metric, target, first, expected):
  found = soft_reset.tau(metric, target, first, rising=False)
  assert found == pytest.approx(expected, abs=1e-15)


# On the linear scale: (metric - target) / (first - target).
LINEAR = (
  (0.4, 0.2, 1.0, 0.25),  # an error rate; the accuracies are 0.6 and 0.8
  (1.0, 0.2, 1.0, 1.0),
  (0.2, 0.2, 1.0, 0.0),
  (0.1, 0.2, 1.0, 0.0),
  (3.0, 0.2, 1.0, 1.0),  # worse than untrained
  (65.0, 2.0, 128.0, 0.5),
  (NAN, 0.2, 1.0, 1.0),
  (INF, 0.2, 1.0, 1.0),
  # The first metric does not serve: 1 - target / metric.
  (0.8, 0.2, None, 0.75),
  (0.8, 0.2, NAN, 0.75),
  (0.8, 0.2, 0.2, 0.75),
)


@pytest.mark.parametrize(('metric', 'target', 'first', 'expected'), LINEAR)
def test_tau_of_a_falling_metric_on_the_linear_scale(
  metric, target, first, expected
):
  found = soft_reset.tau(metric, target, first, False, 'linear')
  assert found == pytest.approx(expected, abs=1e-15)


def test_the_examples_of_tau():
  assert soft_reset.tau(0.6, 0.8, None, True) == pytest.approx(0.25, abs=1e-15)
  log = soft_reset.tau(0.4, 0.2, 1.0, False)
  assert log == pytest.approx(0.43, abs=0.005)
  linear = soft_reset.tau(0.4, 0.2, 1.0, False, 'linear')
  assert linear == pytest.approx(0.25, abs=1e-15)


@pytest.mark.parametrize('accuracy', (0.0, 0.1, 0.33, 0.6, 0.79, 0.8, 0.95))
@pytest.mark.parametrize('target', (0.3, 0.8))
def test_falling_and_rising_metrics_treat_the_same_model_alike(
  accuracy, target
):
  """Accuracy, or error rate from 1 on: one number, on the linear scale alone.

  Which holds for goals that are not the final target as well.
  """
  as_accuracy = soft_reset.tau(accuracy, target, 0.0, True, 'linear')
  as_error = soft_reset.tau(1 - accuracy, 1 - target, 1.0, False, 'linear')
  assert as_error == pytest.approx(as_accuracy, abs=1e-15)
  assert soft_reset.tau(accuracy, target, 0.0, True) == as_accuracy
  if 0 < as_accuracy < 1:
    assert soft_reset.tau(1 - accuracy, 1 - target, 1.0, False) > as_accuracy


@pytest.mark.parametrize('distance', ('log', 'linear'))
@pytest.mark.parametrize('rising', (True, False))
def test_tau_agrees_with_twin_and_stays_in_range(rising, distance):
  rng = np.random.default_rng(0)
  for metric, target, first in np.exp(rng.normal(0, 2, (500, 3))):
    found = soft_reset.tau(metric, target, first, rising, distance)
    expected = reference.tau(metric, target, first, rising, distance)
    assert 0 <= found <= 1
    # Two forms of a logarithm, of numbers of the order of 10; or of a quotient,
    # where 1 minus a number near 1 has lost digits.
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize('rising', (True, False))
@pytest.mark.parametrize('target', (0.0, -0.3, NAN, INF))
def test_tau_needs_a_positive_target(target, rising):
  with pytest.raises(
    ValueError,
    match=r'validation_target_value=.* must be finite and above 0 where a '
    r"reset needs tau \(reset_mode='soft'\)",
  ):
    soft_reset.tau(0.5, target, 1.0, rising)


@pytest.mark.parametrize(
  ('mode', 'expected'),
  (
    ('soft', True),
    ('full', False),
    ('kept_momentum', False),
    ('cyclic', False),
  ),
)
def test_which_modes_need_tau(mode, expected):
  assert soft_reset.needs_tau(mode) == expected
  plans = {soft_reset.plan_reset(mode, tau, 0.5, True) for tau in (0.25, 0.5)}
  assert (len(plans) == 2) == expected


@pytest.mark.parametrize(
  ('mode', 'tau', 'alpha', 'is_finite', 'expected'),
  (
    # expected: share of fresh parameters, factor on moments, count kept
    ('soft', 0.25, 0.5, True, (0.25, 0.875, True)),
    ('soft', 0.0, 0.5, True, (0.0, 1.0, True)),
    ('soft', 1.0, 0.5, True, (1.0, 0.5, True)),
    ('soft', 1.0, 1.0, True, (1.0, 0.0, True)),
    ('soft', 0.25, 0.0, True, (0.25, 1.0, True)),
    ('soft', 0.0, 0.5, False, (1.0, 0.0, False)),
    ('soft', 0.25, 1.0, False, (1.0, 0.0, False)),
    ('full', 0.25, 0.5, True, (1.0, 0.0, False)),
    ('full', 0.25, 0.5, False, (1.0, 0.0, False)),
    ('kept_momentum', 0.25, 0.5, True, (1.0, 1.0, True)),
    ('kept_momentum', 0.25, 0.5, False, (1.0, 1.0, True)),
    ('cyclic', 0.25, 0.5, True, (0.0, 1.0, True)),
    ('cyclic', 0.25, 0.5, False, (0.0, 1.0, True)),
  ),
)
def test_plan_of_each_mode(mode, tau, alpha, is_finite, expected):
  plan = soft_reset.plan_reset(mode, tau, alpha, is_finite)
  assert tuple(plan) == expected
  assert plan.touches_nothing == (expected[:2] == (0.0, 1.0))


@pytest.mark.parametrize(
  ('reset', 'touches_nothing'),
  (
    (Reset(0.0, 1.0, True), True),
    (Reset(0.0, 0.5, True), False),
    (Reset(0.1, 1.0, True), False),
    (Reset(1.0, 1.0, True), False),
  ),
)
def test_touches_nothing(reset, touches_nothing):
  assert reset.touches_nothing == touches_nothing


@functools.cache
def compiled(fn):
  return jax.jit(fn)


def blend(old, fresh, share):
  new = compiled(soft_reset.blend)(old, fresh, np.float32(share))
  assert new.dtype == old.dtype
  assert new.shape == old.shape
  return np.asarray(new)


OLD = np.float32([1.0, -2.0, 0.0, NAN, INF, -INF, 3e38, 1e-30])
FRESH = np.float32([3.0, 2.0, -0.0, 0.5, 0.25, 0.125, -3e38, 1e30])


def test_a_share_of_0_keeps_every_bit():
  new = blend(OLD, FRESH, 0.0)
  np.testing.assert_array_equal(new.view(np.int32), OLD.view(np.int32))


def test_a_share_of_1_takes_every_bit():
  new = blend(OLD, FRESH, 1.0)
  np.testing.assert_array_equal(new.view(np.int32), FRESH.view(np.int32))


def test_shares_beyond_the_ends_are_the_ends():
  np.testing.assert_array_equal(blend(OLD, FRESH, -0.5), OLD)
  np.testing.assert_array_equal(blend(OLD, FRESH, 1.5), FRESH)


def test_blend_by_hand():
  # Numbers that float32 holds exactly. What is not finite is replaced.
  old = np.float32([1.0, -2.0, 0.0, 8.0, NAN, INF, -INF])
  fresh = np.float32([3.0, 2.0, 1.0, 8.0, 0.5, 0.25, 0.125])
  expected = [1.5, -1.0, 0.25, 8.0, 0.5, 0.25, 0.125]
  np.testing.assert_array_equal(blend(old, fresh, 0.25), expected)


@pytest.mark.parametrize('share', (1e-6, 0.014, 0.3, 0.5, 0.868, 1 - 1e-6))
def test_blend_agrees_with_twin(share):
  rng = np.random.default_rng(1)
  old, fresh = rng.normal(size=(2, 500)).astype(np.float32)
  share = float(np.float32(share))
  # Each product is rounded once and so is 1 - share, then the sum.
  allowed = 2 * HALF_ULP * (np.abs(old) + np.abs(fresh)) + HALF_ULP
  off = np.abs(blend(old, fresh, share) - reference.blend(old, fresh, share))
  assert np.all(off <= allowed)


def test_blend_of_integers_changes_at_a_share_of_1_only():
  old, fresh = np.int32([1, 2, 3]), np.int32([7, 8, 9])
  for share in (0.0, 0.5, 0.999):
    np.testing.assert_array_equal(blend(old, fresh, share), old)
  np.testing.assert_array_equal(blend(old, fresh, 1.0), fresh)


def test_blend_of_bfloat16():
  old = jnp.asarray([1.0, -2.0, NAN, 4.0], jnp.bfloat16)
  fresh = jnp.asarray([3.0, 2.0, 0.5, 4.0], jnp.bfloat16)
  new = blend(old, fresh, 0.25).astype(np.float32)
  np.testing.assert_array_equal(new, [1.5, -1.0, 0.5, 4.0])
  # Computed in float32 and rounded once: 0.99 + 0.03 = 1.02, where bfloat16 has
  # 1.015625 and 1.0234375.
  new = blend(old, fresh, 0.01).astype(np.float32)
  assert new[0] == 1.0234375


def test_blend_takes_a_fresh_leaf_of_another_type():
  old = jnp.asarray([1.0, NAN], jnp.bfloat16)
  for share, expected in ((1.0, [3.0, 0.5]), (0.5, [2.0, 0.5])):
    new = blend(old, np.float32([3.0, 0.5]), share).astype(np.float32)
    np.testing.assert_array_equal(new, expected)


def shrink(moment, keep):
  new = compiled(soft_reset.shrink)(moment, np.float32(keep))
  assert new.dtype == moment.dtype
  return np.asarray(new)


def test_shrink_by_hand():
  moment = np.float32([1.0, -2.0, 0.0, NAN, INF, -INF])
  for keep, expected in (
    (1.0, [1.0, -2.0, 0.0, 0.0, 0.0, 0.0]),
    (0.75, [0.75, -1.5, 0.0, 0.0, 0.0, 0.0]),
    (0.0, [0.0] * 6),
  ):
    new = shrink(moment, keep)
    np.testing.assert_array_equal(new, expected)
    assert not np.signbit(new[np.equal(expected, 0)]).any()


def test_shrink_of_bfloat16():
  moment = jnp.asarray([1.0, -2.0, NAN], jnp.bfloat16)
  new = shrink(moment, 0.75).astype(np.float32)
  np.testing.assert_array_equal(new, [0.75, -1.5, 0.0])


def test_shrink_agrees_with_twin():
  moment = np.random.default_rng(2).normal(size=500).astype(np.float32)
  keep = float(np.float32(1 - 0.868 * 0.5))
  expected = reference.shrink(moment, keep)
  np.testing.assert_allclose(shrink(moment, keep), expected, rtol=HALF_ULP)
