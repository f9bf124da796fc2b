"""tau, what a reset does in each mode, and the formulas for single leaves."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reset_cycles import soft_reset
from reset_cycles.core.cycle import StepNumbers
from reset_cycles.core.devices import Devices, PmapDevices
from reset_cycles.core.optimizers import AdamW, ScheduleFreeAdamW
from reset_cycles.core.workload import Target
from reset_cycles.parts import any_optimizer
from reset_cycles.parts.optimizers import NadamW
from reset_cycles.soft_reset import (
  COUNT,
  FULL,
  ITERATE,
  KEPT,
  MOMENT,
  WEIGHT,
  Cyclic,
  FullReset,
  KeptMomentum,
  Model,
  ResetPlan,
  SoftReset,
)

NAN, INF = math.nan, math.inf
# Half an ulp, the rounding of one operation in float32.
HALF_ULP = 2.0**-24


def target(value, rising=True):
  return Target('validation/metric', value, rising)


# (metric, target, share of the way that is left), whatever the first metric is
# and on both scales: 1 - metric / target.
RISING = (
  (0.0, 0.8, 1.0),
  (0.6, 0.8, 0.25),
  (0.8, 0.8, 0.0),
  (1.0, 0.8, -0.25),
  (-0.4, 0.8, 1.5),
  (30.0, 40.0, 0.25),
  (0.868, 1.0, 0.132),
  (0.5, 0.0, 0.0),  # no formula makes sense
  *((bad, 0.8, NAN) for bad in (NAN, INF, -INF)),
)
# (metric, target, first metric, what is left on the log and on the linear scale)
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
  (0.5, -1.0, 1.0, 0.0, 0.0),  # no formula makes sense
  *((bad, 0.8, 1.0, NAN, NAN) for bad in (NAN, INF, -INF)),
)


@pytest.mark.parametrize(
  ('rising', 'metric', 'goal', 'first', 'log', 'linear'),
  (
    *((True, m, g, y0, x, x) for m, g, x in RISING for y0 in (0.3, 0.9, NAN)),
    *((False, *row) for row in FALLING),
  ),
)
def test_the_way_that_is_left(rising, metric, goal, first, log, linear):
  """Not clipped in `distance` and `progress`, but in tau."""
  where = (metric, target(goal, rising), first)
  close = functools.partial(pytest.approx, abs=1e-15, nan_ok=True)
  for scale, left in (('log', log), ('linear', linear)):
    assert soft_reset.distance(*where, scale) == close(left)
    assert soft_reset.progress(*where, scale) == close(1 - left)
    clipped = 1.0 if math.isnan(left) else min(max(left, 0.0), 1.0)
    assert soft_reset.tau(*where, scale) == close(clipped)
  # Unless it is said: the log scale for resets, the linear one for progress.
  assert soft_reset.distance(*where) == close(log)
  assert soft_reset.tau(*where) == soft_reset.tau(*where, 'log')
  assert soft_reset.progress(*where) == close(1 - linear)


@pytest.mark.parametrize('rising', (True, False))
@pytest.mark.parametrize('goal', (0.0, -0.3, NAN, INF))
def test_tau_needs_a_positive_target(goal, rising):
  with pytest.raises(
    ValueError,
    match=r'validation_target_value=.* must be finite and above 0 where a '
    'soft reset needs tau',
  ):
    soft_reset.check_target(target(goal, rising))
  soft_reset.check_target(target(1e-9, rising))


@pytest.mark.parametrize(
  ('plan', 'expected'),
  (
    # expected: share of fresh values, factor on moments, counts kept
    (SoftReset(alpha=0.5).plan(0.25), (0.25, 0.875, True)),
    (SoftReset(alpha=0.5).plan(0.0), (0.0, 1.0, True)),
    (SoftReset(alpha=1.0).plan(1.0), (1.0, 0.0, True)),
    (SoftReset(alpha=0.0).plan(0.25), (0.25, 1.0, True)),
    (FullReset().plan(0.25), (1.0, 0.0, False)),
    (KeptMomentum().plan(0.25), (1.0, 1.0, True)),
    (Cyclic().plan(0.25), (0.0, 1.0, True)),
    (ResetPlan(0.0, 0.5, True), (0.0, 0.5, True)),
  ),
)
def test_plan_of_each_mode(plan, expected):
  assert tuple(plan) == expected
  assert plan.touches_nothing == (expected[:2] == (0.0, 1.0))


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


@pytest.mark.parametrize(
  ('share', 'expected'), ((0.0, OLD), (-0.5, OLD), (1.0, FRESH), (1.5, FRESH))
)
def test_at_both_ends_and_beyond_every_bit_is_taken(share, expected):
  new = blend(OLD, FRESH, share)
  np.testing.assert_array_equal(new.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize('share', (1e-6, 0.3, 1 - 1e-6))
def test_blend_agrees_with_float64(share):
  rng = np.random.default_rng(1)
  old, fresh = rng.normal(size=(2, 500)).astype(np.float32)
  share = np.float64(np.float32(share))
  # Each product is rounded once and so is 1 - share, then the sum.
  allowed = 2 * HALF_ULP * (np.abs(old) + np.abs(fresh)) + HALF_ULP
  expected = (1 - share) * np.float64(old) + share * np.float64(fresh)
  assert np.all(np.abs(blend(old, fresh, share) - expected) <= allowed)


def halves(*values):
  return jnp.asarray(values, jnp.bfloat16)


@pytest.mark.parametrize(
  ('old', 'fresh', 'share', 'expected'),
  (
    # Numbers that float32 holds exactly. What is not finite is replaced.
    (
      np.float32([1.0, -2.0, 0.0, 8.0, NAN, INF, -INF]),
      np.float32([3.0, 2.0, 1.0, 8.0, 0.5, 0.25, 0.125]),
      0.25,
      [1.5, -1.0, 0.25, 8.0, 0.5, 0.25, 0.125],
    ),
    # Integers change at a share of 1 only.
    (np.int32([1, 2]), np.int32([7, 8]), 0.0, [1, 2]),
    (np.int32([1, 2]), np.int32([7, 8]), 0.999, [1, 2]),
    (np.int32([1, 2]), np.int32([7, 8]), 1.0, [7, 8]),
    (halves(1, -2, NAN, 4), halves(3, 2, 0.5, 4), 0.25, [1.5, -1, 0.5, 4]),
    # Computed in float32 and rounded once: 0.99 + 0.03 = 1.02, where bfloat16
    # has 1.015625 and 1.0234375.
    (halves(1), halves(3), 0.01, [1.0234375]),
    # A fresh leaf of another type.
    (halves(1, NAN), np.float32([3.0, 0.5]), 1.0, [3.0, 0.5]),
    (halves(1, NAN), np.float32([3.0, 0.5]), 0.5, [2.0, 0.5]),
  ),
)
def test_blend_by_hand(old, fresh, share, expected):
  new = blend(old, fresh, share).astype(np.float32)
  np.testing.assert_array_equal(new, expected)


def shrink(moment, keep):
  new = compiled(soft_reset.shrink)(moment, np.float32(keep))
  assert new.dtype == moment.dtype
  return np.asarray(new)


@pytest.mark.parametrize('dtype', (jnp.float32, jnp.bfloat16))
@pytest.mark.parametrize(
  ('keep', 'expected'),
  (
    (1.0, [1.0, -2.0, 0.0, 0.0, 0.0, 0.0]),
    (0.75, [0.75, -1.5, 0.0, 0.0, 0.0, 0.0]),
    (0.0, [0.0] * 6),
  ),
)
def test_shrink_by_hand(keep, expected, dtype):
  moment = jnp.asarray([1.0, -2.0, 0.0, NAN, INF, -INF], dtype)
  new = shrink(moment, keep).astype(np.float32)
  np.testing.assert_array_equal(new, expected)
  assert not np.signbit(new[np.equal(expected, 0)]).any()


# What a reset does to each part of an optimizer's state.

NUMBERS = StepNumbers(0.1, 0.0, 0.1, 0.9, 1e-8, None)
ADAM_PARTS = [('count', COUNT), ('mu', MOMENT), ('nu', MOMENT)]
CHAIN = optax.chain(
  optax.scale_by_adam(), optax.scale_by_schedule(lambda count: 0.1)
)
SUMS = optax.GradientTransformation(
  lambda params: optax.TraceState({'w': jnp.sum(params['w'])}), None
)


@pytest.mark.parametrize(
  ('optimizer', 'expected'),
  (
    (AdamW().build(NUMBERS), ADAM_PARTS),
    (NadamW().build(NUMBERS), ADAM_PARTS),
    (
      ScheduleFreeAdamW().build(NUMBERS),
      [
        ('count', COUNT),
        ('largest_rate', COUNT),
        ('weight_sum', WEIGHT),
        ('z', ITERATE),
        ('nu', MOMENT),
      ],
    ),
    # What has no moments beside it is a count here, and kept in a loop.
    (CHAIN, [*ADAM_PARTS, ('count', COUNT)]),
    # What has fewer dimensions is no iterate, although it comes of the parameters.
    (SUMS, [('trace', MOMENT)]),
  ),
  ids=('AdamW', 'NadamW', 'ScheduleFreeAdamW', 'schedule', 'sums'),
)
def test_the_parts_of_a_state(optimizer, expected):
  """(name of a part, its role) in order, for parameters of one leaf."""
  params = {'w': jnp.zeros(2)}
  roles = soft_reset.roles_of(optimizer.init, params)
  found, _ = jax.tree_util.tree_flatten_with_path(optimizer.init(params))
  names = [
    next(key.name for key in reversed(path) if hasattr(key, 'name'))
    for path, _ in found
  ]
  assert list(zip(names, roles.roles)) == expected
  general, doubtful = any_optimizer.roles_of(optimizer.init, params)
  if optimizer is CHAIN:
    assert general.roles == (*roles.roles[:-1], KEPT)
  else:
    assert general == roles
  assert doubtful == ()


# Whole resets on the devices of both generations.

OLD_PARAMS = {
  'a': np.float32([[1.0, -2.0], [0.5, NAN]]),
  'b': np.float32([4.0, 0.0, -1.0]),
}
NEW_PARAMS = {
  'a': np.float32([[3.0, 2.0], [0.25, 0.75]]),
  'b': np.float32([0.0, 1.0, -3.0]),
}
OLD_STATS, NEW_STATS = np.float32([2.0, INF]), np.float32([0.0, 1.0])
KINDS = pytest.mark.parametrize('kind', ('jit', 'pmap'))


@functools.cache
def devices_of(kind):
  return {'jit': Devices, 'pmap': PmapDevices}[kind]()


def reset(kind, optimizer, state, plan, stats=NEW_STATS):
  """A model after a reset: (params, statistics, state), on the host.

  Args:
    kind, optimizer, plan, stats: as they are named.
    state: changes to the optimizer's initial state.
  """
  devices = devices_of(kind)
  init = optimizer.build(NUMBERS).init

  def is_own(part):
    return hasattr(part, 'nu')

  before = jax.tree_util.tree_map(
    lambda part: part._replace(**state), init(OLD_PARAMS), is_leaf=is_own
  )
  found = soft_reset.model_reinit_schedule(
    devices.put(Model(OLD_PARAMS, {'mean': OLD_STATS}, before)),
    (NEW_PARAMS, None if stats is None else {'mean': stats}),
    plan,
    soft_reset.roles_of(init, OLD_PARAMS),
    devices,
  )
  for leaf in jax.tree_util.tree_leaves(found):  # replicas stay the same
    shards = [np.asarray(shard.data) for shard in leaf.addressable_shards]
    assert len(shards) == jax.device_count()
    for other in shards[1:]:
      np.testing.assert_array_equal(other, shards[0])
  params, stats, state = devices.get(found)
  parts = jax.tree_util.tree_leaves(state, is_leaf=is_own)
  return params, stats['mean'], next(part for part in parts if is_own(part))


MU = {'a': np.float32([[1.0, INF], [2.0, 4.0]]), 'b': np.float32([8.0, 0, -8])}
NU = {'a': np.float32([[4.0, 1.0], [NAN, 4.0]]), 'b': np.float32([2.0, 2, 2])}
ADAM = {'count': np.int32(7), 'mu': MU, 'nu': NU}


@KINDS
def test_a_soft_reset_by_hand(kind):
  # tau = .25 and alpha = .5: three quarters of the old, 7/8 of the moments.
  plan = SoftReset(alpha=0.5).plan(0.25)
  params, stats, adam = reset(kind, AdamW(), ADAM, plan)
  np.testing.assert_array_equal(params['a'], [[1.5, -1.0], [0.4375, 0.75]])
  np.testing.assert_array_equal(params['b'], [3.0, 0.25, -1.5])
  np.testing.assert_array_equal(stats, [1.5, 1.0])
  np.testing.assert_array_equal(adam.mu['a'], [[0.875, 0], [1.75, 3.5]])
  np.testing.assert_array_equal(adam.mu['b'], [7.0, 0.0, -7.0])
  np.testing.assert_array_equal(adam.nu['a'], [[3.5, 0.875], [0, 3.5]])
  assert adam.count == 7


@KINDS
def test_a_full_reset_by_hand(kind):
  params, stats, adam = reset(kind, AdamW(), ADAM, FULL)
  for name, leaf in NEW_PARAMS.items():
    np.testing.assert_array_equal(params[name], leaf)
    np.testing.assert_array_equal(adam.mu[name], np.zeros_like(leaf))
    np.testing.assert_array_equal(adam.nu[name], np.zeros_like(leaf))
  np.testing.assert_array_equal(stats, NEW_STATS)
  assert adam.count == 0


def test_a_cyclic_reset_hands_back_the_model():
  model, fresh = Model({}, None, ()), ({}, None)
  plan = Cyclic().plan(0.9)
  assert soft_reset.model_reinit_schedule(model, fresh, plan, None, None) is (
    model
  )


@KINDS
def test_statistics_without_fresh_ones_are_kept_where_they_are_finite(kind):
  plan = SoftReset().plan(0.25)
  _, stats, _ = reset(kind, AdamW(), ADAM, plan, stats=None)
  np.testing.assert_array_equal(stats, [2.0, 0.0])


@KINDS
@pytest.mark.parametrize('alpha', (0.0, 0.5, 1.0))
def test_a_reset_of_schedule_frees_average(kind, alpha):
  """Its weight is multiplied by 1 - tau, the share of x that is kept.

  Whatever alpha is, which is for the moments: here 1 - alpha tau is 1, 7/8 and
  3/4. z goes with the parameters, and the counts stay.
  """
  state = {
    'count': np.int32(5),
    'largest_rate': np.float32(0.5),
    'weight_sum': np.float32(8.0),
    'z': {'a': np.float32([[0.0, 4.0], [1.0, 2.0]]), 'b': np.zeros(3, 'f')},
    'nu': {'a': np.ones((2, 2), 'f'), 'b': np.ones(3, 'f')},
  }
  plan = SoftReset(alpha=alpha).plan(0.25)
  params, _, free = reset(kind, ScheduleFreeAdamW(), state, plan)
  assert free.weight_sum == 6.0
  assert (free.count, free.largest_rate) == (5, 0.5)
  np.testing.assert_array_equal(free.z['a'], [[0.75, 3.5], [0.8125, 1.6875]])
  np.testing.assert_array_equal(free.z['b'], [0.0, 0.25, -0.75])
  np.testing.assert_array_equal(free.nu['b'], [1 - 0.25 * alpha] * 3)
  np.testing.assert_array_equal(params['b'], [3.0, 0.25, -1.5])
  _, _, free = reset(kind, ScheduleFreeAdamW(), state, FULL)
  assert (free.weight_sum, free.count, free.largest_rate) == (0, 0, 0)


@KINDS
@pytest.mark.parametrize(
  'where', (None, 'params', 'model_state', 'nu', 'z', 'weight_sum')
)
def test_whether_a_model_is_finite(kind, where):
  devices = devices_of(kind)
  params = {'w': np.ones(3, 'f')}
  init = ScheduleFreeAdamW().build(NUMBERS).init
  state, broken = init(params), {'w': np.float32([1.0, NAN, 1.0])}
  model = Model(params, {'w': np.zeros(3, 'f')}, state)
  if where in Model._fields:
    model = model._replace(**{where: broken})
  elif where:
    bad = np.float32(INF) if where == 'weight_sum' else broken
    model = model._replace(opt_state=state._replace(**{where: bad}))
  roles = soft_reset.roles_of(init, params)
  found = soft_reset.is_finite(devices.put(model), roles, devices)
  assert found is (where is None)


class Idle:
  """Devices on which one function of a leaf does nothing."""

  def __init__(self, devices, fn):
    self._devices, self._fn = devices, fn

  def __getattr__(self, name):
    return getattr(self._devices, name)

  def run(self, fn, tree, *host_values, donate=False):
    result = self._devices.run(fn, tree, *host_values)
    return (tree, result[1], result[1]) if fn is self._fn else result


@pytest.mark.parametrize(
  ('step', 'what'), (('_blend_step', 'parameters'), ('_shrink_step', 'moments'))
)
def test_a_reset_that_does_nothing_stops_the_run(step, what):
  """What else is found: tests/core/test_reset_checks.py."""
  init = AdamW().build(NUMBERS).init
  params = {'w': np.float32([1.0, -2.0, 3.0])}
  state = jax.tree_util.tree_map(
    lambda x: params['w'] if x.shape else x, init(params)
  )
  devices = Idle(devices_of('jit'), getattr(soft_reset, step))
  with pytest.raises(RuntimeError, match=f'{what} are off by up to'):
    soft_reset.model_reinit_schedule(
      devices.put(Model(params, None, state)),
      ({'w': np.float32([2.0, 5.0, 7.0])}, None),
      SoftReset().plan(0.25),
      soft_reset.roles_of(init, params),
      devices,
    )


@KINDS
def test_a_reset_compiles_nothing_after_set_up(kind, compilations):
  devices = {'jit': Devices, 'pmap': PmapDevices}[kind]()
  # Shapes that no other test has: jax remembers programs by itself as well.
  size = 131
  params = {name: np.ones(size, 'f') for name in 'abc'}
  init = ScheduleFreeAdamW().build(NUMBERS).init
  stats = {'m': np.ones(size + 1, 'f')}
  model = devices.put(Model(params, stats, init(params)))
  roles = soft_reset.roles_of(init, params)
  shapes = jax.tree_util.tree_map(devices.shape_of, model)
  with compilations() as compiled:
    soft_reset.compile_resets(shapes, roles, devices)
  # Leaves of equal shape share a program: of parameters and z one, of the
  # statistics, nu and the weight (which another test may have compiled), and
  # whether all are finite; under pmap, jax before 0.8 compiles one more.
  assert 4 <= len(compiled) <= 5 + (jax.__version_info__ < (0, 8))
  plan = SoftReset().plan(0.25)
  fresh = (params, {'m': np.zeros(size + 1, 'f')})
  with compilations() as compiled:
    soft_reset.is_finite(model, roles, devices)
    soft_reset.model_reinit_schedule(model, fresh, plan, roles, devices)
  assert compiled == []
