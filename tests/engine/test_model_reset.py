"""What a reset does to every leaf of a model, on the devices."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.run_files import python
from reset_cycles.core.devices import Devices, PmapDevices
from reset_cycles.engine.model_reset import Model, ModelReset, role_in
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.roles import KEPT
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.optimizers.step import Step
from reset_cycles.soft_reset import (
  Cyclic,
  FullReset,
  KeptMomentum,
  ResetPlan,
  SoftReset,
)

NAN, INF = math.nan, math.inf
OPTIMIZERS = {'adamw': AdamW(), 'free': ScheduleFreeAdamW()}
KINDS = pytest.mark.parametrize('kind', ('jit', 'pmap'))
BOTH = pytest.mark.parametrize('name', OPTIMIZERS)


def halves(*values):
  return np.asarray(values, jnp.bfloat16)


OLD = {
  'a': np.float32([[1.0, -2.0], [0.3, 7.0]]),
  'b': np.float32([4.0, NAN, -1.0]),
  'half': halves(1.0, -2.0, 4.0),
  'whole': np.int32([1, 2]),
}
NEW = {
  'a': np.float32([[3.0, 2.0], [0.1, 0.7]]),
  'b': np.float32([0.0, 1.0, INF]),
  'half': halves(3.0, 2.0, 4.0),
  'whole': np.int32([7, 8]),
}
OLD_STATS = {
  'mean': np.float32([2.0, 0.7]),
  'seen': np.int32(3),
  'begun': np.bool_(True),
}
NEW_STATS = {
  'mean': np.float32([0.0, 0.1]),
  'seen': np.int32(0),
  'begun': np.bool_(False),
}


def filled(state, factor):
  """The state with numbers of its own in every leaf."""
  leaves, treedef = jax.tree_util.tree_flatten(state)
  numbers = np.random.default_rng(0).normal(size=(len(leaves), 20)) * factor
  return treedef.unflatten(
    np.asarray(row[: np.size(leaf)].reshape(np.shape(leaf)), leaf.dtype)
    for row, leaf in zip(numbers, leaves)
  )


@functools.cache
def programs(kind, name):
  """Of resets, compiled once a session, and the model before each."""
  devices = {'jit': Devices, 'pmap': PmapDevices}[kind]()
  init = OPTIMIZERS[name].build(Step(np.float32(0))).init
  state = jax.tree_util.tree_map(np.asarray, init(OLD))
  before = Model(OLD, OLD_STATS, filled(state, 9))
  model = devices.put(before)
  roles = role_in(OPTIMIZERS[name].roles(None))
  return devices, before, ModelReset(devices, roles, init, model)


def after(kind, name, plan, fresh=(NEW, NEW_STATS)):
  """The model before a reset and after it, on the host."""
  devices, before, reset = programs(kind, name)
  model = devices.put(before)
  found, _ = reset(model, fresh, plan)
  assert all(leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(model))
  for leaf in jax.tree_util.tree_leaves(found):  # replicas stay the same
    shards = [np.asarray(shard.data) for shard in leaf.addressable_shards]
    assert len(shards) == jax.device_count()
    for other in shards[1:]:
      np.testing.assert_array_equal(other, shards[0])
  return before, devices.get(found)


def blended(old, fresh, keep, share):
  """keep * old + share * fresh of each leaf, in float64."""

  def leaf(old, new):
    if not jnp.issubdtype(old.dtype, jnp.inexact):
      return old if keep else new
    if 0 in (keep, share):
      return np.asarray(old if keep else new).astype(old.dtype)
    mixed = keep * old.astype(np.float64) + share * np.float64(new)
    return mixed.astype(old.dtype)

  return jax.tree_util.tree_map(leaf, old, fresh)


def assert_close(found, expected):
  """Two roundings apart at most, of the leaf's own type; exact for others."""

  def leaf(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    bits = {1: 52, 2: 7, 4: 23}[found.dtype.itemsize]
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=2.0**-bits, atol=1e-7)

  jax.tree_util.tree_map(leaf, found, expected)


@KINDS
@BOTH
@pytest.mark.parametrize(
  ('plan', 'tau', 'keep_moments', 'keep_counts'),
  (
    (SoftReset(alpha=0.5).plan(0.25), 0.25, 0.875, True),
    (SoftReset(alpha=1.0).plan(0.3), 0.3, 0.7, True),
    (SoftReset(alpha=1.0).plan(1.0), 1.0, 0.0, True),
    (SoftReset(alpha=0.0).plan(1e-4), 1e-4, 1.0, True),
    (FullReset().plan(0.25), 1.0, 0.0, False),
    (KeptMomentum().plan(0.25), 1.0, 1.0, True),
    (Cyclic().plan(0.25), 0.0, 1.0, True),
    (ResetPlan(0.0, 0.5, True), 0.0, 0.5, True),
  ),
  ids='soft alpha_1 tau_1 alpha_0 full kept cyclic moments'.split(),
)
def test_every_leaf_is_one_blend(
  kind, name, plan, tau, keep_moments, keep_counts
):
  """keep * leaf + share * the leaf that a run begins with."""
  assert plan.touches_nothing == ((tau, keep_moments) == (0.0, 1.0))
  before, found = after(kind, name, plan)
  mixed = functools.partial(blended, keep=1 - tau, share=tau)
  assert_close(found.params, mixed(OLD, NEW))
  assert_close(found.model_state, mixed(OLD_STATS, NEW_STATS))
  zeros = jax.tree_util.tree_map(np.zeros_like, OLD)
  shrunk = functools.partial(
    blended, fresh=zeros, keep=keep_moments, share=1 - keep_moments
  )
  is_own = lambda part: hasattr(part, 'nu')
  of_adam, state_of_adam = (
    next(filter(is_own, jax.tree_util.tree_leaves(s, is_leaf=is_own)))
    for s in (before.opt_state, found.opt_state)
  )
  assert state_of_adam.count == (of_adam.count if keep_counts else 0)
  assert of_adam.count != 0
  assert_close(state_of_adam.nu, shrunk(of_adam.nu))
  if name == 'adamw':
    assert_close(state_of_adam.mu, shrunk(of_adam.mu))
    return
  old, state = before.opt_state, found.opt_state
  assert state.count == (old.count if keep_counts else 0) and old.count != 0
  assert_close(state.z, mixed(old.z, NEW))
  # The weight of the average is that of what is kept of x.
  assert_close(state.weight_sum, np.float32((1 - tau) * old.weight_sum))


@KINDS
@pytest.mark.parametrize(
  ('plan', 'tau', 'keep_moments'),
  (
    (SoftReset(alpha=0.5).plan(0.25), 0.25, 0.875),
    (FullReset().plan(0.25), 1.0, 0.0),
    (KeptMomentum().plan(0.25), 1.0, 1.0),
  ),
  ids=('soft', 'full', 'kept'),
)
def test_what_a_reset_did(kind, plan, tau, keep_moments):
  """|tau (fresh - old)| / |old| of (3, 4) and (0, 0, 12), whose norm is 13.

  Fresh they are (0, 0) and (0, 0, 0.5): a difference of (3, 4, 11.5), with the
  norm sqrt(9 + 16 + 132.25). The moments are 1 throughout: sqrt(10).
  """
  devices = {'jit': Devices, 'pmap': PmapDevices}[kind]()
  old = {'a': np.float32([3.0, 4.0]), 'b': np.float32([0.0, 0.0, 12.0])}
  new = {'a': np.zeros(2, 'f'), 'b': np.float32([0.0, 0.0, 0.5])}
  init = AdamW().build(Step(np.float32(0))).init
  ones = jax.tree_util.tree_map(lambda x: np.ones_like(x), init(old))
  model = devices.put(Model(old, None, ones))
  roles = role_in(AdamW().roles(None))
  reset = ModelReset(devices, roles, init, model)
  _, effect = reset(model, (new, None), plan)
  change = tau * math.sqrt(157.25) / 13
  norm = math.sqrt(10)
  np.testing.assert_allclose(
    effect, (change, norm, keep_moments * norm), rtol=1e-6
  )


@KINDS
@pytest.mark.parametrize(
  'plan', (SoftReset().plan(0.25), FullReset().plan(0.0)), ids=('soft', 'full')
)
def test_statistics_that_do_not_fit_are_kept_where_they_are_finite(
  kind, plan, caplog
):
  devices, before, reset = programs(kind, 'adamw')
  odd = {**OLD_STATS, 'mean': np.float32([INF, 0.7])}
  for fresh in (None, {'mean': np.zeros(3, 'f'), 'seen': np.int32(0)}):
    model = devices.put(before._replace(model_state=odd))
    found = devices.get(reset(model, (NEW, fresh), plan)[0])
    assert_close(found.model_state['mean'], np.float32([0.0, 0.7]))
    assert found.model_state['seen'] == 3
    assert found.model_state['begun'].dtype == bool
    assert found.model_state['begun']
    assert 'batch statistics differ in shape' in caplog.text


def test_parameters_that_do_not_fit_are_named():
  devices, before, reset = programs('jit', 'adamw')
  wrong = {**NEW, 'a': np.zeros((2, 3), 'f')}
  with pytest.raises(ValueError, match="^init_model_fn's parameters differ"):
    reset(devices.put(before), (wrong, NEW_STATS), FullReset().plan(0.0))


@KINDS
def test_whether_a_model_is_finite(kind):
  devices, before, reset = programs(kind, 'free')
  params = {**OLD, 'b': NEW['a'][0, [0, 0, 0]]}
  model = before._replace(params=params)
  assert reset.is_finite(devices.put(model))

  def bad(tree):
    return {**tree, next(iter(tree)): np.full_like(tree[next(iter(tree))], INF)}

  state = model.opt_state
  replaced = lambda path, x: bad(x) if path[-1].name == 'nu' else x
  is_tree = lambda x: isinstance(x, dict)
  squares = jax.tree_util.tree_map_with_path(replaced, state, is_leaf=is_tree)
  for broken in (
    before,
    model._replace(model_state=bad(OLD_STATS)),
    model._replace(opt_state=squares),
    model._replace(opt_state=state._replace(z=bad(state.z))),
    model._replace(opt_state=state._replace(weight_sum=np.float32(NAN))),
  ):
    assert not reset.is_finite(devices.put(broken))


def test_a_model_is_finite_whatever_is_kept():
  model = Devices().put(Model(OLD, OLD_STATS, ()))
  role_of = lambda path: {'params': KEPT}.get(path[0].name)
  reset = ModelReset(Devices(), role_of, lambda params: (), model)
  assert reset.is_finite(model)


@KINDS
def test_a_reset_compiles_nothing_after_set_up(kind, compilations):
  devices = {'jit': Devices, 'pmap': PmapDevices}[kind]()
  # Shapes that no other test has: jax remembers programs by itself as well.
  params = {name: np.ones(131, 'f') for name in 'abc'}
  stats = {'m': np.ones(132, 'f')}
  init = ScheduleFreeAdamW().build(Step(np.float32(0))).init
  model = devices.put(Model(params, stats, init(params)))
  roles = role_in(ScheduleFreeAdamW().roles(None))
  with compilations() as compiled:
    reset = ModelReset(devices, roles, init, model)
  assert len(compiled) == 2
  with compilations() as compiled:
    assert reset.is_finite(model)
    reset(model, (params, stats), SoftReset().plan(0.25))
  assert compiled == []


IN_DOUBLE = """
import functools

import jax
import numpy as np

jax.config.update('jax_enable_x64', True)
from reset_cycles.core.devices import Devices, PmapDevices
from reset_cycles.engine.model_reset import Model, ModelReset, role_in
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.step import Step
from reset_cycles.soft_reset import SoftReset

old, new = np.float64([1 / 3]), np.float32([1 / 7])
tau = 1 - 0.6 / 0.9  # not a number of float32
for devices in (Devices(), PmapDevices()):
  init = AdamW().build(Step(0.0)).init
  state = jax.tree_util.tree_map(lambda x: x + 1, init({'w': old}))
  model = devices.put(Model({'w': old}, None, state))
  roles = role_in(AdamW().roles(None))
  reset = ModelReset(devices, roles, init, model)
  found = devices.get(reset(model, ({'w': new}, None), SoftReset().plan(tau))[0])
  np.testing.assert_allclose(
    found.params['w'], (1 - tau) * old + tau * np.float64(new), rtol=4e-16
  )
  for leaf in jax.tree_util.tree_leaves(found.opt_state):
    assert leaf.dtype != np.float32
    expected = 1.0 if leaf.dtype == np.int32 else 1 - tau / 2
    np.testing.assert_allclose(leaf, expected, rtol=4e-16)
"""


def test_parameters_of_float64_are_blended_in_float64():
  python(IN_DOUBLE)
