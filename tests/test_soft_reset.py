"""tau, what a reset does in each mode, and the formulas for single leaves."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import reference
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


@pytest.mark.parametrize(('metric', 'goal', 'expected'), RISING)
@pytest.mark.parametrize('first', (0.3, 0.9, NAN))
@pytest.mark.parametrize('scale', soft_reset.SCALES)
def test_tau_of_a_rising_metric(metric, goal, expected, first, scale):
  found = soft_reset.tau(metric, target(goal), first, scale)
  assert found == pytest.approx(expected, abs=1e-15)


# (metric, target, first, tau on both scales).
FALLING = (
  # log(metric / target) / log(first / target).
  ('log', 0.1, 0.01, 1.0, 0.5),
  ('log', 16.0, 2.0, 128.0, 0.5),  # perplexity: 2^4 of 2^7 to 2^1
  ('log', 4.0, 2.0, 128.0, 1 / 6),
  # (metric - target) / (first - target).
  ('linear', 0.4, 0.2, 1.0, 0.25),  # an error rate; accuracies 0.6 and 0.8
  ('linear', 65.0, 2.0, 128.0, 0.5),
  *(
    (scale, *row)
    for scale in soft_reset.SCALES
    for row in (
      (1.0, 0.01, 1.0, 1.0),  # no progress yet
      (3.0, 0.01, 1.0, 1.0),  # worse than untrained
      (0.01, 0.01, 1.0, 0.0),  # at the target
      (0.005, 0.01, 1.0, 0.0),  # beyond
      (0.0, 0.01, 1.0, 0.0),
      (-1.0, 0.01, 1.0, 0.0),
      (NAN, 0.01, 1.0, 1.0),
      (INF, 0.01, 1.0, 1.0),
      (-INF, 0.01, 1.0, 1.0),
      # The first metric does not serve: 1 - target / metric.
      (0.04, 0.01, NAN, 0.75),
      (0.04, 0.01, INF, 0.75),
      (0.04, 0.01, 0.01, 0.75),  # no worse than the target
      (0.04, 0.01, -1.0, 0.75),
      (0.01, 0.01, NAN, 0.0),
      (0.001, 0.01, NAN, 0.0),
    )
  ),
)


@pytest.mark.parametrize(
  ('scale', 'metric', 'goal', 'first', 'expected'), FALLING
)
def test_tau_of_a_falling_metric(scale, metric, goal, first, expected):
  where = (metric, target(goal, rising=False), first)
  found = soft_reset.tau(*where, scale)
  assert found == pytest.approx(expected, abs=1e-15)
  # The scale is the logarithmic one unless it is said.
  assert scale == 'linear' or soft_reset.tau(*where) == found


@pytest.mark.parametrize(
  ('metric', 'goal', 'rising', 'left'),
  (
    (0.6, 0.8, True, 0.25),
    (1.0, 0.8, True, -0.25),  # not clipped
    (-0.4, 0.8, True, 1.5),
    (0.1, 0.2, False, -0.125),
    (1.8, 0.2, False, 2.0),
    (0.5, 0.0, True, 0.0),  # no formula makes sense
    (0.5, -1.0, False, 0.0),
    *((bad, 0.8, True, NAN) for bad in (NAN, INF, -INF)),
    *((bad, 0.8, False, NAN) for bad in (NAN, INF, -INF)),
  ),
)
def test_distance_and_progress_are_not_clipped(metric, goal, rising, left):
  where = (metric, target(goal, rising), 1.0)
  close = functools.partial(pytest.approx, abs=1e-15, nan_ok=True)
  assert soft_reset.distance(*where, 'linear') == close(left)
  # progress is on the linear scale unless it is told otherwise.
  for found in (
    soft_reset.progress(*where),
    soft_reset.progress(*where, 'linear'),
  ):
    assert found == close(1 - left)


@pytest.mark.parametrize('accuracy', (0.0, 0.1, 0.33, 0.6, 0.79, 0.8, 0.95))
@pytest.mark.parametrize('goal', (0.3, 0.8))
def test_falling_and_rising_metrics_treat_the_same_model_alike(accuracy, goal):
  """Accuracy, or error rate from 1 on: one number, on the linear scale alone."""
  falls = target(1 - goal, rising=False)
  as_accuracy = soft_reset.tau(accuracy, target(goal), 0.0, 'linear')
  as_error = soft_reset.tau(1 - accuracy, falls, 1.0, 'linear')
  assert as_error == pytest.approx(as_accuracy, abs=1e-15)
  if 0 < as_accuracy < 1:
    assert soft_reset.tau(1 - accuracy, falls, 1.0, 'log') > as_accuracy


@pytest.mark.parametrize('scale', ('log', 'linear'))
@pytest.mark.parametrize('rising', (True, False))
def test_tau_agrees_with_twin_and_stays_in_range(rising, scale):
  rng = np.random.default_rng(0)
  for metric, goal, first in np.exp(rng.normal(0, 2, (500, 3))):
    found = soft_reset.tau(metric, target(goal, rising), first, scale)
    expected = reference.tau(metric, goal, first, rising, scale)
    assert 0 <= found <= 1
    # Two forms of a logarithm, of numbers of the order of 10; or of a quotient,
    # where 1 minus a number near 1 has lost digits.
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-13)


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
  ('mode', 'tau', 'expected'),
  (
    # expected: share of fresh values, factor on moments, counts kept
    (SoftReset(alpha=0.5), 0.25, (0.25, 0.875, True)),
    (SoftReset(alpha=0.5), 0.0, (0.0, 1.0, True)),
    (SoftReset(alpha=0.5), 1.0, (1.0, 0.5, True)),
    (SoftReset(alpha=1.0), 1.0, (1.0, 0.0, True)),
    (SoftReset(alpha=0.0), 0.25, (0.25, 1.0, True)),
    (FullReset(), 0.25, (1.0, 0.0, False)),
    (KeptMomentum(), 0.25, (1.0, 1.0, True)),
    (Cyclic(), 0.25, (0.0, 1.0, True)),
  ),
)
def test_plan_of_each_mode(mode, tau, expected):
  plan = mode.plan(tau)
  assert tuple(plan) == expected
  assert plan.touches_nothing == (expected[:2] == (0.0, 1.0))


@pytest.mark.parametrize('plan', ((0.0, 0.5, True), (0.1, 1.0, True)))
def test_a_plan_that_touches_the_moments_or_the_model_alone(plan):
  assert not ResetPlan(*plan).touches_nothing


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


def test_blend_by_hand():
  # Numbers that float32 holds exactly. What is not finite is replaced.
  old = np.float32([1.0, -2.0, 0.0, 8.0, NAN, INF, -INF])
  fresh = np.float32([3.0, 2.0, 1.0, 8.0, 0.5, 0.25, 0.125])
  expected = [1.5, -1.0, 0.25, 8.0, 0.5, 0.25, 0.125]
  np.testing.assert_array_equal(blend(old, fresh, 0.25), expected)


@pytest.mark.parametrize('share', (1e-6, 0.014, 0.3, 0.5, 0.868, 1 - 1e-6))
def test_blend_agrees_with_float64(share):
  rng = np.random.default_rng(1)
  old, fresh = rng.normal(size=(2, 500)).astype(np.float32)
  share = np.float64(np.float32(share))
  # Each product is rounded once and so is 1 - share, then the sum.
  allowed = 2 * HALF_ULP * (np.abs(old) + np.abs(fresh)) + HALF_ULP
  expected = (1 - share) * np.float64(old) + share * np.float64(fresh)
  assert np.all(np.abs(blend(old, fresh, share) - expected) <= allowed)


def test_blend_of_integers_changes_at_a_share_of_1_only():
  old, fresh = np.int32([1, 2, 3]), np.int32([7, 8, 9])
  for share, expected in ((0.0, old), (0.5, old), (0.999, old), (1.0, fresh)):
    np.testing.assert_array_equal(blend(old, fresh, share), expected)


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


def test_shrink_agrees_with_float64():
  moment = np.random.default_rng(2).normal(size=500).astype(np.float32)
  keep = np.float64(np.float32(1 - 0.868 * 0.5))
  expected = keep * np.float64(moment)
  np.testing.assert_allclose(shrink(moment, keep), expected, rtol=HALF_ULP)


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
  ('where', 'expected'),
  (
    (None, True),
    ('params', False),
    ('model_state', False),
    ('nu', False),
    ('z', False),
    ('weight_sum', False),
  ),
)
def test_whether_a_model_is_finite(kind, where, expected):
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
  assert found is expected


class Wrong:
  """Devices on which one function of a leaf does something else."""

  def __init__(self, devices, fn, change):
    self._devices, self._fn, self._change = devices, fn, change

  def __getattr__(self, name):
    return getattr(self._devices, name)

  def run(self, fn, tree, *host_values, donate=False):
    result = self._devices.run(fn, tree, *host_values)
    if fn is not self._fn:
      return result
    new = self._change(tree)
    sample = soft_reset.reset_checks.sample
    return new, result[1], sample(np.asarray(new))


CHANGES = {
  'nothing done': lambda old: old * 1,
  'not finite': lambda old: old + jnp.nan,
  'scaled by a wrong factor': lambda old: old * 0.3,
}


@pytest.mark.parametrize('change', CHANGES)
@pytest.mark.parametrize(
  ('step', 'what'), (('_blend_step', 'parameters'), ('_shrink_step', 'moments'))
)
def test_a_reset_that_goes_wrong_stops_the_run(change, step, what):
  devices = devices_of('jit')
  init = AdamW().build(NUMBERS).init
  params = {'w': np.float32([1.0, -2.0, 3.0])}
  state = jax.tree_util.tree_map(
    lambda x: params['w'] if x.shape else x, init(params)
  )
  wrong = Wrong(devices, getattr(soft_reset, step), CHANGES[change])
  with pytest.raises(RuntimeError, match=f'{what} are off by up to'):
    soft_reset.model_reinit_schedule(
      devices.put(Model(params, None, state)),
      ({'w': np.float32([2.0, 5.0, 7.0])}, None),
      SoftReset().plan(0.25),
      soft_reset.roles_of(init, params),
      wrong,
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
