"""tau, what a reset does in each mode, and the formula for single leaves.

What a reset does to a whole model: tests/engine/test_model_reset.py.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles import soft_reset
from reset_cycles.core.evaluation import Evaluation, Target, Way
from reset_cycles.core.schedules import Cosine, LinearWarmup
from reset_cycles.shapes.simple import Lambda, PolynomialWarmup
from reset_cycles.soft_reset import SoftReset

NAN, INF = math.nan, math.inf


def _nan(x):
  return x * NAN


def target(value, rising=True):
  return Target('validation/metric', value, rising)


# (metric, target, share of the way that remains), whatever the first metric is
# and on both scales: 1 - metric / target.
RISING = (
  (0.0, 0.8, 1.0),
  (0.6, 0.8, 0.25),
  (0.8, 0.8, 0.0),
  (1.0, 0.8, -0.25),
  (-0.4, 0.8, 1.5),
  (30.0, 40.0, 0.25),
  (0.868, 1.0, 0.132),
  # The thesis' taus on OGBG, .014 and .868.
  (0.277, 0.28098, 0.00398 / 0.28098),
  (0.0371, 0.28098, 0.24388 / 0.28098),
  *((bad, 0.8, NAN) for bad in (NAN, INF, -INF)),
)
# (metric, target, first metric, what remains on the log and on the linear scale)
FALLING = (
  # log(metric / target) / log(first / target).
  (0.1, 0.01, 1.0, 0.5, 0.09 / 0.99),
  (16.0, 2.0, 128.0, 0.5, 14 / 126),  # perplexity: 2^4 of 2^7 to 2^1
  (4.0, 2.0, 128.0, 1 / 6, 2 / 126),
  # (metric - target) / (first - target).
  (0.4, 0.2, 1.0, math.log(2) / math.log(5), 0.25),  # an error rate
  (65.0, 2.0, 128.0, math.log(32.5) / math.log(64), 0.5),
  (1.0, 0.01, 1.0, 1.0, 1.0),  # no progress yet
  (100.0, 0.01, 1.0, 2.0, 101.0),  # worse than untrained: 99.99 / .99
  (0.01, 0.01, 1.0, 0.0, 0.0),
  (0.001, 0.01, 1.0, -0.5, -1 / 110),  # beyond
  (0.0, 0.01, 1.0, -INF, -1 / 99),
  (-1.0, 0.01, 1.0, -INF, -1.01 / 0.99),
  # The first metric does not serve: 1 - target / metric.
  *((0.04, 0.01, bad, 0.75, 0.75) for bad in (NAN, INF, 0.01, -1.0)),
  (0.001, 0.01, NAN, -9.0, -9.0),
  (0.0, 0.01, NAN, -INF, -INF),
  *((bad, 0.8, 1.0, NAN, NAN) for bad in (NAN, INF, -INF)),
)


# (rising, metric, target, first metric, what remains), where the metric has no
# natural zero: rewards, log-likelihoods, R2.
NO_ZERO = (
  (True, -100.0, -50.0, -250.0, 0.25),
  (True, -0.5, 0.0, -2.0, 0.25),
  (True, -300.0, -50.0, -250.0, 1.25),
  (True, -40.0, -50.0, -250.0, -0.05),
  (False, -1.0, -2.0, 2.0, 0.25),
  (False, 0.5, 0.0, 2.0, 0.25),
  # The first metric does not serve: no formula makes sense.
  *((True, 0.5, 0.0, bad, 0.0) for bad in (NAN, -INF, 0.0, 0.1)),
  *((False, 0.5, -1.0, bad, 0.0) for bad in (NAN, INF, -1.0, -1.5)),
  *((rises, NAN, -1.0, 0.0, NAN) for rises in (True, False)),
)


@pytest.mark.parametrize(
  ('rising', 'metric', 'goal', 'first', 'log', 'linear'),
  (
    *((True, m, g, y0, x, x) for m, g, x in RISING for y0 in (0.3, 0.9, NAN)),
    *((False, *row) for row in FALLING),
    *((*row, row[-1]) for row in NO_ZERO),
  ),
  ids=lambda value: f'{value:.3g}',
)
def test_the_remaining_way(rising, metric, goal, first, log, linear):
  asked = functools.partial(target(goal, rising).remaining, metric, first)
  close = functools.partial(pytest.approx, abs=1e-15, nan_ok=True)
  for scale, remaining in (('log', log), ('linear', linear)):
    assert asked(scale) == close(remaining)
  # Unless it is said.
  assert asked() == close(log)


@pytest.mark.parametrize(
  ('metric', 'rising', 'expected'),
  (
    (0.6, True, 0.25),
    (0.9, True, 0.0),  # beyond the target
    (-0.4, True, 1.0),  # worse than at first
    (NAN, True, 1.0),
    (INF, False, 1.0),
    (0.0, False, 0.0),  # an infinite logarithm
    (8.0, False, 1.0),
  ),
)
def test_tau_by_hand(metric, rising, expected):
  """The remaining way, clipped to [0, 1]."""
  last, first = Evaluation(2, 1.0, metric), Evaluation(1, 1.0, 4.0)
  found = SoftReset().tau(Way(last, first, target(0.8, rising), 0, 1))
  assert found == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
  ('fade', 'step', 'expected'),
  (
    (0.0, 90, 0.25),
    (2.0, 20, 0.15),
    (2.0, 50, 0.0),
    (2.0, 70, 0.0),
    (0.5, 300, 0.125),  # beyond the horizon
  ),
)
def test_tau_fades_with_the_share_of_the_run_that_is_over(fade, step, expected):
  """tau max(0, 1 - fade f); the scale is that of the reset."""
  first, last = Evaluation(1, NAN, 1.0), Evaluation(9, NAN, 0.4)
  reset = SoftReset(scale='linear', fade=fade)
  found = reset.tau(Way(last, first, target(0.2, rising=False), step, 100))
  assert found == pytest.approx(expected)


HALF = LinearWarmup(start=0.0)  # e = f
ROOT = PolynomialWarmup(power=0.5)


@pytest.mark.parametrize(
  ('expected', 'share', 'metric', 'tau'),
  (
    (HALF, 0.5, 0.3, 0.25),  # 1 - .3 / (.5 * .8)
    (HALF, 0.5, 0.4, 0.0),  # what is due
    (HALF, 0.5, 0.6, 0.0),  # ahead
    (HALF, 0.5, -0.1, 1.0),
    (HALF, 0.0, 0.1, 0.0),  # nothing is due
    (HALF, 1.0, 0.6, 0.25),  # 1 - .6 / .8, as without
    (HALF, 1.5, 0.6, 0.25),  # beyond the planned end
    (HALF, 0.0, NAN, 1.0),
    (ROOT, 0.25, 0.1, 0.75),  # e = .5
    (None, 0.5, 0.3, 0.625),
  ),
)
def test_tau_by_the_progress_that_is_due(expected, share, metric, tau):
  last, first = Evaluation(2, 1.0, metric), Evaluation(1, 1.0, 0.0)
  run = round(1000 * share), 1000
  found = SoftReset(expected=expected).tau(Way(last, first, target(0.8), *run))
  assert found == pytest.approx(tau, abs=1e-6)
  if expected and 0 < share <= 1 and metric == metric:
    # The thesis' formula with a target of e y*.
    due = {HALF: share, ROOT: share**0.5}[expected]
    own = SoftReset().tau(Way(last, first, target(0.8 * due), *run))
    assert found == pytest.approx(own, abs=1e-6)


@pytest.mark.parametrize(
  ('scale', 'metric', 'gone'),
  (('log', 4.0, 3 / 4), ('linear', 20.0, 12 / 30)),
)
def test_the_progress_that_is_due_of_a_metric_that_falls(scale, metric, gone):
  """From 32 to a target of 2: 3 of 4 halvings; 12 of 30. Half of tau fades."""
  first, last = Evaluation(1, NAN, 32.0), Evaluation(9, NAN, metric)
  # .8 + .2 / 2 are due.
  reset = SoftReset(scale=scale, fade=1.0, expected=LinearWarmup(0.8))
  found = reset.tau(Way(last, first, target(2.0, rising=False), 50, 100))
  assert found == pytest.approx((1 - gone / 0.9) / 2, abs=1e-6)


@pytest.mark.parametrize(
  'shape',
  (Cosine(), Lambda(lambda x: 2 * x), Lambda(lambda x: x - 0.5), Lambda(_nan)),
  ids=('falls', 'above_1', 'below_0', 'nan'),
)
def test_a_progress_that_cannot_be_due_is_refused(shape):
  with pytest.raises(
    ValueError, match='^expected=.*: must be a shape in .0, 1'
  ):
    SoftReset(expected=shape)


compiled = jax.jit(soft_reset.blend)


def blend(old, fresh, keep, share):
  keep, share = np.float32(keep), np.float32(share)
  new = compiled(old, fresh, keep, share)
  assert (new.dtype, new.shape) == (old.dtype, old.shape)
  return np.asarray(new)


OLD = np.float32([1.0, -2.0, 0.0, NAN, INF, -INF, 3e38, 1e-30])
FRESH = np.float32([3.0, 2.0, -0.0, 0.5, 0.25, 0.125, NAN, INF])


@pytest.mark.parametrize(
  ('keep', 'share', 'expected'),
  ((1.0, 0.0, OLD), (0.0, 1.0, FRESH)),
  ids=('old', 'fresh'),
)
def test_at_both_ends_every_bit_is_taken(keep, share, expected):
  new = blend(OLD, FRESH, keep, share)
  np.testing.assert_array_equal(new.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize('share', (1e-6, 0.3, 1 - 1e-6))
def test_blend_agrees_with_float64(share):
  rng = np.random.default_rng(1)
  old, fresh = rng.normal(size=(2, 500)).astype(np.float32)
  keep, share = np.float32(1 - share), np.float32(share)
  expected = np.float64(keep) * old + np.float64(share) * fresh
  # Half an ulp for each product and for their sum.
  allowed = 2.0**-24 * (2 * np.abs(old) + 2 * np.abs(fresh))
  assert np.all(np.abs(blend(old, fresh, keep, share) - expected) <= allowed)


def halves(*values):
  return jnp.asarray(values, jnp.bfloat16)


@pytest.mark.parametrize(
  ('old', 'fresh', 'keep', 'share', 'expected'),
  (
    # Moments: their fresh ones are 0.
    (np.float32([2.0, NAN]), np.zeros(2, 'f'), 0.875, 0.125, [1.75, NAN]),
    (np.float32([2.0, INF]), np.zeros(2, 'f'), 0.0, 1.0, [0.0, 0.0]),
    # Integers change where nothing is kept.
    (np.int32([1, 2]), np.int32([7, 8]), 1.0, 0.0, [1, 2]),
    (np.int32([1, 2]), np.int32([7, 8]), 0.001, 0.999, [1, 2]),
    (np.int32([1, 2]), np.int32([7, 8]), 0.0, 1.0, [7, 8]),
    (halves(1, -2, 4), halves(3, 2, 4), 0.75, 0.25, [1.5, -1, 4]),
    # Computed in float32 and rounded once: 0.99 + 0.03 = 1.02, where bfloat16
    # has 1.015625 and 1.0234375.
    (halves(1), halves(3), 0.99, 0.01, [1.0234375]),
    # A fresh leaf of another type.
    (halves(1, NAN), np.float32([3.0, 0.5]), 0.0, 1.0, [3.0, 0.5]),
    (halves(1, 3), np.float32([3.0, 0.5]), 0.5, 0.5, [2.0, 1.75]),
  ),
  ids=(
    *('moments', 'no_moments', 'int_old', 'int_mixed', 'int_fresh'),
    *('bfloat16', 'rounded_once', 'other_fresh', 'other_mixed'),
  ),
)
def test_blend_by_hand(old, fresh, keep, share, expected):
  new = blend(old, fresh, keep, share).astype(np.float32)
  np.testing.assert_array_equal(new, expected)
