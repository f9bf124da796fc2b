"""model_reinit_schedule on 8 devices, under pmap and under jit."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference
from reset_cycles import soft_reset
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.inner import Slots
from reset_cycles.soft_reset import Reset
from reset_cycles.training import resetting
from reset_cycles.training.devices import JitDevices, PmapDevices
from reset_cycles.training.resetting import Model

NUM_DEVICES = 8
COUNT = 17  # of the optimizer, before the reset

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


class AveragingState(NamedTuple):
  """Of an optimizer that nobody has written: parts in an order of their own."""

  steps: Any  # shape=(), dtype=int32
  average: Any  # of the parameters, likewise
  weight: Any  # shape=(), dtype=float32; no reset may touch it
  velocity: Any  # of the parameters' structure


class Averaging:
  """One moment, and one iterate that is like the parameters."""

  def slots(self, opt_state):
    _, state = opt_state
    return Slots((state.velocity,), (state.average,), (state.steps,))

  def with_slots(self, opt_state, slots):
    clock, state = opt_state
    (velocity,), (average,), (steps,), _ = slots
    new = state._replace(velocity=velocity, average=average, steps=steps)
    return clock, new


def adamw_state(moments, iterate):
  del iterate  # AdamW has none
  adam = optax.ScaleByAdamState(np.int32(COUNT), *moments)
  return (optax.EmptyState(), adam)


def averaging_state(moments, iterate):
  return AveragingState(np.int32(COUNT), iterate, np.float32(0.3), moments[0])


INNERS = {
  'adamw': (AdamW(), adamw_state),
  'averaging': (Averaging(), averaging_state),
}


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
MOMENTS, ITERATE = (host_tree(3)[0], host_tree(4)[0]), host_tree(5)[0]


class Bench(NamedTuple):
  """Where resets are tried: a generation, and an inner optimizer."""

  kind: str
  devices: Any
  inner: Any
  make_state: Any
  ops: Any

  def model(self, old=OLD, moments=MOMENTS, iterate=ITERATE):
    """A model in mid-training, laid out on the devices, and a run's clock."""
    clock = (np.int32(400), np.float32(0.75))
    opt_state = (clock, self.make_state(moments, iterate))
    return Model(*self.devices.put((*old, opt_state)))

  def reset(self, model, reset, fresh=FRESH):
    return resetting.model_reinit_schedule(
      model, fresh, reset, self.inner, self.ops
    )

  def is_finite(self, model):
    return resetting.is_finite(model, self.inner, self.ops)

  def slots(self, model):
    return self.inner.slots(model.opt_state)

  def host(self, tree):
    """One replica of each leaf, after having compared it with the others."""
    return jax.tree_util.tree_map(
      lambda leaf: replicas(leaf, self.kind)[0], tree
    )


def replicas(leaf, kind):
  """What lies on each device."""
  shards = [np.asarray(shard.data) for shard in leaf.addressable_shards]
  assert len(shards) == NUM_DEVICES
  if kind == 'pmap':
    shards = [shard.reshape(leaf.shape[1:]) for shard in shards]
  assert all(shard.tobytes() == shards[0].tobytes() for shard in shards)
  return shards


def compile_for(old, moments, iterate, devices, inner, make_state):
  slots = inner.slots(((), make_state(moments, iterate)))
  return resetting.compile_reset(*old, [slots], devices)


@functools.cache
def make_bench(kind, name):
  """Made once."""
  make = {'pmap': PmapDevices, 'jit': JitDevices}[kind]
  inner, make_state = INNERS[name]
  devices = make()
  ops = compile_for(OLD, MOMENTS, ITERATE, devices, inner, make_state)
  return Bench(kind, devices, inner, make_state, ops)


@pytest.fixture(params=INNERS)
def inner_name(request):
  return request.param


@pytest.fixture(params=('pmap', 'jit'))
def bench(request, inner_name):
  assert jax.local_device_count() == NUM_DEVICES
  return make_bench(request.param, inner_name)


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
def test_values_agree_with_twin_on_all_devices(bench, mode):
  reset = RESETS[mode]
  model = bench.reset(bench.model(), reset)
  share, keep = np.float32(reset.tau), np.float32(reset.keep_moments)
  slots = bench.host(bench.slots(model))
  before = bench.slots(bench.model())

  def blended(old, fresh):
    return jax.tree_util.tree_map(
      lambda o, f: twin_blend(o, f, float(share)), old, fresh
    )

  found = bench.host((model.params, model.model_state))
  assert_trees_close(found, blended(OLD, FRESH), OLD, FRESH)
  moments = MOMENTS[: len(before.moments)]
  expected = jax.tree_util.tree_map(
    lambda moment: reference.shrink(moment, float(keep)), moments
  )
  assert_trees_close(slots.moments, expected, moments)
  for iterate in slots.iterates:
    assert_trees_close(iterate, blended(ITERATE, FRESH[0]), ITERATE, FRESH[0])
  (count,) = slots.counts
  assert count == (COUNT if reset.keep_count else 0)
  assert count.dtype == np.int32


@pytest.mark.parametrize('mode', ('full', 'kept momentum'))
def test_a_whole_reset_takes_the_fresh_bits(bench, mode):
  model = bench.reset(bench.model(), RESETS[mode])
  found = bench.host((model.params, model.model_state))
  jax.tree_util.tree_map(np.testing.assert_array_equal, found, FRESH)
  slots = bench.host(bench.slots(model))
  for iterate in slots.iterates:
    jax.tree_util.tree_map(np.testing.assert_array_equal, iterate, FRESH[0])
  factor = {'full': 0, 'kept momentum': 1}[mode]
  expected = jax.tree_util.tree_map(lambda m: factor * m, MOMENTS)
  for moment, wanted in zip(slots.moments, expected):
    jax.tree_util.tree_map(np.testing.assert_array_equal, moment, wanted)


@pytest.mark.parametrize('mode', ('soft, at the target', 'cyclic'))
def test_nothing_to_do_does_nothing(bench, mode):
  model = bench.model()
  # Without a reset in the whole run there are no operations, no fresh models.
  same = resetting.model_reinit_schedule(model, None, RESETS[mode], None, None)
  assert same is model


@pytest.mark.parametrize('mode', REAL_RESETS)
def test_layout_stays_and_buffers_are_donated(bench, mode):
  model = bench.model()
  layouts = [
    (leaf.sharding, leaf.ndim) for leaf in jax.tree_util.tree_leaves(model)
  ]
  new = bench.reset(model, RESETS[mode])
  for (layout, ndim), leaf in zip(layouts, jax.tree_util.tree_leaves(new)):
    assert leaf.sharding.is_equivalent_to(layout, ndim)
  slots = bench.slots(model)
  donated = (model.params, model.model_state, slots.moments, slots.iterates)
  for leaf in jax.tree_util.tree_leaves(donated):
    # On CPUs jaxlib 0.4 reuses no buffer of this type.
    if leaf.dtype == jnp.bfloat16 and jax.__version_info__ < (0, 5):
      continue
    assert leaf.is_deleted()


def test_what_is_in_no_slot_is_not_touched(bench):
  model = bench.model()
  clock, state = model.opt_state
  new_clock, new_state = bench.reset(model, RESETS['full']).opt_state
  assert all(a is b for a, b in zip(new_clock, clock))
  assert not any(leaf.is_deleted() for leaf in clock)
  assert type(new_state) is type(state)
  if isinstance(state, AveragingState):
    assert new_state.weight is state.weight


def test_a_reset_compiles_nothing(bench, compilations):
  models = [bench.model() for _ in RESETS]
  with compilations() as compiled:
    for model, reset in zip(models, RESETS.values()):
      bench.is_finite(model)
      bench.reset(model, reset)
  assert compiled == []


def test_leaves_of_equal_shape_share_an_operation(
  bench, inner_name, compilations
):
  # Shapes that no other test has compiled.
  first = {'adamw': 23, 'averaging': 29}[inner_name]
  old, moments, iterate = jax.tree_util.tree_map(
    lambda x: jax.ShapeDtypeStruct((first, *x.shape), x.dtype),
    (OLD, MOMENTS, ITERATE),
  )
  with compilations() as compiled:
    ops = compile_for(
      old, moments, iterate, bench.devices, bench.inner, bench.make_state
    )
  # 4 kinds of parameters, and a count among the statistics: blended, tested for
  # finiteness; moments shrunk; samples of parameters and statistics, and of
  # Adam's moments. A single moment has the samples of the parameters, and so
  # has an iterate.
  num_samples = {'adamw': 3, 'averaging': 2}[inner_name]
  assert len(compiled) == 5 + 5 + 4 + num_samples
  kernel = jax.ShapeDtypeStruct((40, 7), np.float32)
  share = jax.ShapeDtypeStruct((), np.float32)
  prepared = ops.prepare(soft_reset.blend, kernel, kernel, share, donate=True)
  again = jax.ShapeDtypeStruct((40, 7), np.float32)
  assert prepared is ops.prepare(
    soft_reset.blend, again, again, share, donate=True
  )


@pytest.mark.parametrize('kind', ('pmap', 'jit'))
def test_a_blend_needs_no_second_leaf(kind):
  """The old leaf's buffer is the new one's; nothing else is made."""
  if jax.__version_info__ < (0, 5):
    pytest.skip('jax 0.4 does not tell the memory of a program on a CPU')
  ops = make_bench(kind, 'adamw').ops
  leaf = jax.ShapeDtypeStruct((1000, 100), np.float32)
  scalar = jax.ShapeDtypeStruct((), np.float32)
  operations = [
    ops.prepare(soft_reset.blend, leaf, leaf, scalar, donate=True),
    ops.prepare(soft_reset.shrink, leaf, scalar, donate=True),
  ]
  for operation in operations:
    memory = operation.memory_analysis()
    assert memory.alias_size_in_bytes == memory.output_size_in_bytes == 400_000


PARTS = ('params', 'model_state', 'first moment', 'second moment', 'iterate')
ABSENT = {'adamw': 'iterate', 'averaging': 'second moment'}


@pytest.mark.parametrize('bad', (np.nan, np.inf, -np.inf))
def test_a_model_that_is_not_finite_is_recovered(bench, inner_name, bad):
  assert bench.is_finite(bench.model())
  for part in (p for p in PARTS if p != ABSENT[inner_name]):
    trees = dict(zip(PARTS, (*OLD, *MOMENTS, ITERATE)))
    trees[part] = jax.tree_util.tree_map(np.copy, trees[part])
    leaf = trees[part]['mean' if part == 'model_state' else 'half']
    leaf[-1] = bad
    params, model_state, *moments, iterate = trees.values()
    model = bench.model((params, model_state), moments, iterate)
    finite = bench.is_finite(model)
    assert not finite, part
    # tau = 0: the target had been reached when the run diverged.
    reset = soft_reset.plan_reset('soft', 0.0, 0.5, finite)
    model = bench.reset(model, reset)
    assert bench.is_finite(model)
    found = bench.host((model.params, model.model_state))
    jax.tree_util.tree_map(np.testing.assert_array_equal, found, FRESH)


def test_a_single_bad_element_is_replaced_in_a_partial_reset(bench):
  # A mode that does not ask whether the model is finite comes to the same.
  params = {**OLD[0], 'half': OLD[0]['half'].copy()}
  params['half'][2] = np.nan
  model = bench.reset(bench.model((params, OLD[1])), RESETS['soft'])
  half = bench.host(model.params)['half'].astype(np.float32)
  assert half[2] == FRESH[0]['half'][2]
  assert half[1] != FRESH[0]['half'][1]


def test_moments_next_to_zero(bench):
  # Those of parameters without a gradient fade: below 2^-126 float32 has no full
  # precision and XLA takes them for zero. That is no failed reset.
  sizes = np.float32([2.0**-125, 1.5 * 2.0**-126, 2.0**-126, 2.0**-149, 0.0])
  tiny = {**MOMENTS[0], 'dense': dict(MOMENTS[0]['dense'])}
  tiny['dense']['bias'] = np.resize(sizes, 7)
  model = bench.model(moments=(tiny, tiny))
  model = bench.reset(model, RESETS['soft, diverged'])
  bias = bench.host(bench.slots(model).moments[-1])['dense']['bias']
  assert np.all(np.abs(bias) <= sizes[0] / 2)


def small_bench(bench):
  """Of two parameters and nothing else, 1 and 2; fresh ones are 3 and 6."""
  old = {'w': np.float32([1, 2])}
  ops = compile_for(
    (old, None), (old, old), old, bench.devices, bench.inner, bench.make_state
  )
  bench = bench._replace(ops=ops)
  return bench, bench.model((old, None), (old, old), old)


def test_a_model_without_batch_statistics(bench):
  bench, model = small_bench(bench)
  assert bench.is_finite(model)
  fresh = {'w': np.float32([3, 6])}, None
  model = bench.reset(model, Reset(0.5, 0.5, True), fresh)
  assert model.model_state is None
  np.testing.assert_array_equal(bench.host(model.params)['w'], [2, 4])
  slots = bench.host(bench.slots(model))
  for moment in slots.moments:
    np.testing.assert_array_equal(moment['w'], [0.5, 1])
  for iterate in slots.iterates:
    np.testing.assert_array_equal(iterate['w'], [2, 4])


def test_without_fresh_statistics_those_there_stay(bench):
  state = {'mean': OLD[1]['mean'].copy(), 'batches': np.int32(5)}
  state['mean'][1] = np.nan
  model = bench.model((OLD[0], state))
  model = bench.reset(model, RESETS['full'], (FRESH[0], None))
  found = bench.host(model.model_state)
  state['mean'][1] = 0  # what is not finite would stay so
  jax.tree_util.tree_map(np.testing.assert_array_equal, found, state)


def test_a_fresh_model_of_another_size_is_refused(bench):
  bench, model = small_bench(bench)
  fresh = {'w': np.float32([3, 6, 9])}, None
  with pytest.raises(
    RuntimeError, match="init_model_fn's parameters differ in size"
  ):
    bench.reset(model, Reset(0.5, 0.5, True), fresh)


def test_an_optimizer_without_a_state(bench):
  """Plain gradient descent: nothing to shrink, nothing to blend."""

  class Nothing:
    def slots(self, opt_state):
      return Slots((), (), ())

    def with_slots(self, opt_state, slots):
      assert slots == Slots((), (), ())
      return opt_state

  bench, model = small_bench(bench)
  bench = bench._replace(inner=Nothing())
  fresh = {'w': np.float32([3, 6])}, None
  assert bench.is_finite(model)
  new = bench.reset(model, Reset(1.0, 0.0, False), fresh)
  assert new.opt_state is model.opt_state
  np.testing.assert_array_equal(bench.host(new.params)['w'], [3, 6])
