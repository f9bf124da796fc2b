"""model_reinit_schedule on 8 devices, under pmap and under jit."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference
from reset_cycles import soft_reset
from reset_cycles.optimizers import adamw as optimizer
from reset_cycles.schedule_params import HPARAMS
from reset_cycles.schedules import cycle_clock
from reset_cycles.soft_reset import Model, Reset
from reset_cycles.training import devices as parallel

NUM_DEVICES = 8
COUNT = 17  # of Adam, before the reset

# What a reset in each mode does; see test_soft_reset.
RESETS = {
  'soft': Reset(0.25, 0.875, True),
  'soft, far from the target': Reset(0.868, 1 - 0.868 / 2, True),
  'soft, diverged': Reset(1.0, 0.5, True),
  'soft, at the target': Reset(0.0, 1.0, True),
  'full': Reset(1.0, 0.0, False),
  'kept momentum': Reset(1.0, 1.0, True),
  'cyclic': Reset(0.0, 1.0, True),
}
REAL_RESETS = [m for m in RESETS if not RESETS[m].touches_nothing]


def host_tree(seed):
  """(params, model_state), with more and with fewer than 64 elements."""
  rng = np.random.default_rng(seed)

  def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)

  params = {
    'dense': {'kernel': normal(40, 7), 'bias': normal(7)},
    'again': {'kernel': normal(40, 7)},
    'scalar': normal(),
    'half': np.asarray(jnp.asarray(normal(5), jnp.bfloat16)),
  }
  model_state = {'mean': normal(7), 'batches': np.int32(seed)}
  return params, model_state


OLD, FRESH = host_tree(1), host_tree(2)
MOMENTS = host_tree(3)[0], host_tree(4)[0]


@functools.cache
def set_up(kind):
  """(devices, reset operations), made once."""
  make = {'pmap': parallel.PmapDevices, 'jit': parallel.JitDevices}[kind]
  devices = make()
  return devices, soft_reset.compile_reset(*FRESH, devices)


@pytest.fixture(params=('pmap', 'jit'))
def kind(request):
  assert jax.local_device_count() == NUM_DEVICES
  return request.param


def make_model(devices, old=OLD, moments=MOMENTS):
  """A model in mid-training, laid out on the devices."""
  params, model_state = old
  adamw = optimizer.adamw(HPARAMS, [optax.constant_schedule(1.0)], [100])
  adam = optax.ScaleByAdamState(np.int32(COUNT), *moments)
  opt_state = optimizer.map_states(
    lambda _: adam, adamw.init(params), optax.ScaleByAdamState
  )
  return Model(*devices.put((params, model_state, opt_state)))


def replicas(leaf, kind):
  """What lies on each device."""
  shards = [np.asarray(shard.data) for shard in leaf.addressable_shards]
  assert len(shards) == NUM_DEVICES
  if kind == 'pmap':
    shards = [shard.reshape(leaf.shape[1:]) for shard in shards]
  assert all(shard.tobytes() == shards[0].tobytes() for shard in shards)
  return shards


def on_host(tree, kind):
  """One replica of each leaf, after having compared it with the others."""
  return jax.tree_util.tree_map(lambda leaf: replicas(leaf, kind)[0], tree)


def adam_of(model):
  return optimizer.find_state(model.opt_state, optax.ScaleByAdamState)


def assert_trees_close(tree, expected, *terms):
  """Within the rounding of a blend; see test_blend_agrees_with_twin."""

  def check(leaf, wanted, *sizes):
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
      np.testing.assert_array_equal(leaf, wanted)
      return
    size = sum(np.abs(np.asarray(s, np.float64)) for s in sizes) + 1
    # In bfloat16 the result is rounded once more, and no coarser than this.
    half_ulp = float(jnp.finfo(leaf.dtype).eps) / 2
    off = np.abs(leaf.astype(np.float64) - wanted)
    assert np.all(off <= 2 * half_ulp * size)

  jax.tree_util.tree_map(check, tree, expected, *terms)


def twin_blend(old, fresh, share):
  if np.issubdtype(old.dtype, np.integer):
    return fresh if share >= 1 else old
  return reference.blend(old, fresh, share)


@pytest.mark.parametrize('mode', RESETS)
def test_values_agree_with_twin_on_all_devices(kind, mode):
  devices, ops = set_up(kind)
  reset = RESETS[mode]
  model = soft_reset.model_reinit_schedule(
    make_model(devices), FRESH, reset, ops
  )
  share, keep = np.float32(reset.tau), np.float32(reset.keep_moments)
  expected = jax.tree_util.tree_map(
    lambda old, fresh: twin_blend(old, fresh, float(share)), OLD, FRESH
  )
  found = on_host((model.params, model.model_state), kind)
  assert_trees_close(found, expected, OLD, FRESH)
  adam = on_host(adam_of(model), kind)
  expected = jax.tree_util.tree_map(
    lambda moment: reference.shrink(moment, float(keep)), MOMENTS
  )
  assert_trees_close((adam.mu, adam.nu), expected, MOMENTS)
  assert adam.count == (COUNT if reset.keep_count else 0)
  assert adam.count.dtype == np.int32


@pytest.mark.parametrize('mode', ('full', 'kept momentum'))
def test_a_whole_reset_takes_the_fresh_bits(kind, mode):
  devices, ops = set_up(kind)
  model = soft_reset.model_reinit_schedule(
    make_model(devices), FRESH, RESETS[mode], ops
  )
  found = on_host((model.params, model.model_state), kind)
  jax.tree_util.tree_map(np.testing.assert_array_equal, found, FRESH)
  adam = on_host(adam_of(model), kind)
  factor = {'full': 0, 'kept momentum': 1}[mode]
  expected = jax.tree_util.tree_map(lambda m: factor * m, MOMENTS)
  jax.tree_util.tree_map(
    np.testing.assert_array_equal, (adam.mu, adam.nu), expected
  )


@pytest.mark.parametrize('mode', ('soft, at the target', 'cyclic'))
def test_nothing_to_do_does_nothing(kind, mode):
  devices, _ = set_up(kind)
  model = make_model(devices)
  # Without a reset in the whole run there are no operations, no fresh models.
  same = soft_reset.model_reinit_schedule(model, None, RESETS[mode], None)
  assert same is model


@pytest.mark.parametrize('mode', REAL_RESETS)
def test_layout_stays_and_buffers_are_donated(kind, mode):
  devices, ops = set_up(kind)
  model = make_model(devices)
  layouts = [
    (leaf.sharding, leaf.ndim) for leaf in jax.tree_util.tree_leaves(model)
  ]
  clock = optimizer.find_state(model.opt_state, cycle_clock.CycleClock)
  new = soft_reset.model_reinit_schedule(model, FRESH, RESETS[mode], ops)
  for (layout, ndim), leaf in zip(layouts, jax.tree_util.tree_leaves(new)):
    assert leaf.sharding.is_equivalent_to(layout, ndim)
  adam = adam_of(model)
  donated = (model.params, model.model_state, adam.mu, adam.nu)
  for leaf in jax.tree_util.tree_leaves(donated):
    # On CPUs jaxlib 0.4 reuses no buffer of this type.
    if leaf.dtype == jnp.bfloat16 and jax.__version_info__ < (0, 5):
      continue
    assert leaf.is_deleted()
  # The clock of the run is no part of a reset.
  same = optimizer.find_state(new.opt_state, cycle_clock.CycleClock)
  assert all(a is b for a, b in zip(same, clock))
  assert not any(leaf.is_deleted() for leaf in clock)


def test_a_reset_compiles_nothing(kind, compilations):
  devices, ops = set_up(kind)
  models = [make_model(devices) for _ in RESETS]
  with compilations() as compiled:
    for model, reset in zip(models, RESETS.values()):
      soft_reset.is_finite(model, ops)
      soft_reset.model_reinit_schedule(model, FRESH, reset, ops)
  assert compiled == []


def test_leaves_of_equal_shape_share_an_operation(kind, compilations):
  devices, _ = set_up(kind)
  # Shapes that no other test has compiled.
  params, model_state = jax.tree_util.tree_map(
    lambda x: jax.ShapeDtypeStruct((23, *x.shape), x.dtype), FRESH
  )
  with compilations() as compiled:
    ops = soft_reset.compile_reset(params, model_state, devices)
  # 4 kinds of parameters, and a count among the statistics: blended, tested for
  # finiteness; moments shrunk; samples of parameters, statistics and moments.
  assert len(compiled) == 5 + 5 + 4 + 3
  kernel, share = jax.ShapeDtypeStruct((40, 7), np.float32), np.float32(0.5)
  prepared = ops.prepare(
    soft_reset.blend_leaf, kernel, kernel, share, donate=True
  )
  again = jax.ShapeDtypeStruct((40, 7), np.float32)
  assert prepared is ops.prepare(
    soft_reset.blend_leaf, again, again, share, donate=True
  )


def test_a_blend_needs_no_second_leaf(kind):
  """The old leaf's buffer is the new one's; nothing else is made."""
  if jax.__version_info__ < (0, 5):
    pytest.skip('jax 0.4 does not tell the memory of a program on a CPU')
  _, ops = set_up(kind)
  leaf = jax.ShapeDtypeStruct((1000, 100), np.float32)
  scalar = jax.ShapeDtypeStruct((), np.float32)
  operations = [
    ops.prepare(soft_reset.blend_leaf, leaf, leaf, scalar, donate=True),
    ops.prepare(soft_reset.shrink_leaf, leaf, scalar, donate=True),
  ]
  for operation in operations:
    memory = operation.memory_analysis()
    assert memory.alias_size_in_bytes == memory.output_size_in_bytes == 400_000


@pytest.mark.parametrize('part', ('params', 'model_state', 'mu', 'nu'))
@pytest.mark.parametrize('bad', (np.nan, np.inf, -np.inf))
def test_a_model_that_is_not_finite_is_recovered(kind, part, bad):
  devices, ops = set_up(kind)
  assert soft_reset.is_finite(make_model(devices), ops)
  trees = {'params': OLD[0], 'model_state': OLD[1]}
  trees.update(mu=MOMENTS[0], nu=MOMENTS[1])
  trees[part] = jax.tree_util.tree_map(np.copy, trees[part])
  leaf = trees[part]['mean' if part == 'model_state' else 'half']
  leaf[-1] = bad
  old, moments = tuple(trees.values())[:2], tuple(trees.values())[2:]
  model = make_model(devices, old, moments)
  finite = soft_reset.is_finite(model, ops)
  assert not finite
  # tau = 0: the target had been reached when the run diverged.
  reset = soft_reset.plan_reset('soft', 0.0, 0.5, finite)
  model = soft_reset.model_reinit_schedule(model, FRESH, reset, ops)
  assert soft_reset.is_finite(model, ops)
  found = on_host((model.params, model.model_state), kind)
  jax.tree_util.tree_map(np.testing.assert_array_equal, found, FRESH)


def test_a_single_bad_element_is_replaced_in_a_partial_reset(kind):
  # A mode that does not ask whether the model is finite comes to the same.
  devices, ops = set_up(kind)
  params = {**OLD[0], 'half': OLD[0]['half'].copy()}
  params['half'][2] = np.nan
  model = make_model(devices, (params, OLD[1]))
  model = soft_reset.model_reinit_schedule(model, FRESH, RESETS['soft'], ops)
  half = on_host(model.params, kind)['half'].astype(np.float32)
  assert half[2] == FRESH[0]['half'][2]
  assert half[1] != FRESH[0]['half'][1]


def test_moments_next_to_zero(kind):
  # Those of parameters without a gradient fade: below 2^-126 float32 has no full
  # precision and XLA takes them for zero. That is no failed reset.
  devices, ops = set_up(kind)
  sizes = np.float32([2.0**-125, 1.5 * 2.0**-126, 2.0**-126, 2.0**-149, 0.0])
  tiny = {**MOMENTS[0], 'dense': dict(MOMENTS[0]['dense'])}
  tiny['dense']['bias'] = np.resize(sizes, 7)
  model = make_model(devices, moments=(tiny, tiny))
  model = soft_reset.model_reinit_schedule(
    model, FRESH, RESETS['soft, diverged'], ops
  )
  bias = on_host(adam_of(model).nu, kind)['dense']['bias']
  assert np.all(np.abs(bias) <= sizes[0] / 2)


def test_a_model_without_batch_statistics(kind):
  devices, _ = set_up(kind)
  old, fresh = {'w': np.float32([1, 2])}, {'w': np.float32([3, 6])}
  ops = soft_reset.compile_reset(fresh, None, devices)
  model = make_model(devices, (old, None), (old, old))
  assert soft_reset.is_finite(model, ops)
  model = soft_reset.model_reinit_schedule(
    model, (fresh, None), Reset(0.5, 0.5, True), ops
  )
  assert model.model_state is None
  np.testing.assert_array_equal(on_host(model.params, kind)['w'], [2, 4])
  np.testing.assert_array_equal(on_host(adam_of(model).mu, kind)['w'], [0.5, 1])
