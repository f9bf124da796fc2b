"""1 device and 8, pmap and jit: the same runs."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import one_device
from helpers.run_files import python_path, xla_flags
from helpers.runs import GENERATIONS
from reset_cycles.core.devices import Devices, PmapDevices


@pytest.fixture(scope='module')
def on_one(tmp_path_factory):
  """(generation, case) -> what a process with one device ends with."""
  folder = tmp_path_factory.mktemp('one')
  env = {
    **os.environ,
    'PYTHONPATH': python_path(),
    'XLA_FLAGS': xla_flags(num_devices=1),
    'JAX_DISABLE_MOST_OPTIMIZATIONS': '1',  # compiling takes the longest
  }
  command = [sys.executable, one_device.__file__, str(folder)]
  subprocess.run(command, env=env, check=True)
  found = {}
  for generation in GENERATIONS:
    for case in one_device.CASES:
      with np.load(folder / f'{generation} {case}.npz') as saved:
        found[generation, case] = [saved[name] for name in saved.files]
  return found


@pytest.mark.parametrize('case', one_device.CASES)
def test_one_device_and_eight_jit_and_pmap(case, on_one):
  """Equal up to the order of summation, which Adam can blow up.

  An entry with a tiny gradient moves by about the learning rate whatever the
  gradient's size. 40 steps at most 0.014 apart make 0.5, and 1 % of a step of
  each is allowed.
  """
  assert jax.device_count() == 8
  runs = [on_one[generation, case] for generation in GENERATIONS]
  runs += [one_device.train(case, generation) for generation in GENERATIONS]
  for other in runs[1:]:
    np.testing.assert_array_equal(other[0], runs[0][0])
    for leaf, expected in zip(other[1:], runs[0][1:]):
      np.testing.assert_allclose(leaf, expected, rtol=1e-3, atol=2e-3)


both = pytest.mark.parametrize(
  'devices', (Devices(), PmapDevices()), ids=GENERATIONS
)
TREE = {'w': np.arange(6, dtype=np.float32).reshape(2, 3), 'n': np.int32(7)}


def axis_of(devices):
  """The shape of the axis that is in front of every array."""
  return (8,) if isinstance(devices, PmapDevices) else ()


@both
def test_what_is_put_is_whole_on_every_device_and_comes_back(devices):
  laid_out = devices.put(TREE)
  for name, value in TREE.items():
    leaf = laid_out[name]
    assert leaf.shape == (*axis_of(devices), *np.shape(value))
    assert leaf.dtype == value.dtype
    copies = [shard.data for shard in leaf.addressable_shards]
    assert {shard.device for shard in leaf.addressable_shards} == {
      *jax.devices()
    }
    for copy in copies:
      np.testing.assert_array_equal(np.reshape(copy, np.shape(value)), value)
  found = devices.get(laid_out)
  for name, value in TREE.items():
    assert type(found[name]) is np.ndarray
    np.testing.assert_array_equal(found[name], value)
  shapes = devices.shapes_of(laid_out)
  assert (shapes['w'].shape, shapes['w'].dtype) == ((2, 3), np.float32)
  assert (shapes['n'].shape, shapes['n'].dtype) == ((), np.int32)


@both
def test_what_is_placed_is_laid_out_as_what_is_put(devices):
  """The runner's arrays: of one device in jit, stacked by jax.pmap in pmap."""
  given = jax.device_put(TREE)
  if axis_of(devices):
    stacked = {
      n: np.broadcast_to(x, (8, *np.shape(x))) for n, x in TREE.items()
    }
    given = jax.pmap(lambda tree: tree)(stacked)
  placed, put = devices.place(given), devices.put(TREE)
  for name, value in TREE.items():
    is_same = placed[name].sharding.is_equivalent_to(
      put[name].sharding, placed[name].ndim
    )
    assert is_same
    np.testing.assert_array_equal(devices.get(placed)[name], value)


@both
def test_a_step_has_the_sum_over_the_batch_and_donates_what_it_replaces(
  devices,
):
  """And its key is the same in jit, another one on each device in pmap."""

  def step(params, model_state, opt_state, batch, rng, total):
    return params + total(batch.sum()), model_state + 1, opt_state, rng

  given = devices.put((np.float32(0.5), np.int32(1), np.float32(3.0)))
  batch = np.arange(8, dtype=np.float32)
  batch = batch[:, None] if axis_of(devices) else batch
  key = jax.random.PRNGKey(3)
  *found, keys = devices.compile_step(step)(*given, batch, key)
  assert [float(x) for x in devices.get(found)] == [28.5, 2.0, 3.0]
  assert [x.is_deleted() for x in given] == [True] * 3
  expected = np.asarray(key)
  if axis_of(devices):
    expected = [np.asarray(jax.random.fold_in(key, i)) for i in range(8)]
  np.testing.assert_array_equal(keys, expected)


@both
@pytest.mark.parametrize('donate', (False, True))
def test_a_compiled_function_donates_what_it_is_told_to(devices, donate):
  tree, host = devices.put(TREE), np.float32(2.0)
  fn = lambda tree, host: {**tree, 'w': tree['w'] * host}
  shape = jax.ShapeDtypeStruct((), np.float32)
  compiled = devices.compile(fn, tree, shape, donate=donate)
  found = devices.get(compiled(tree, host))
  np.testing.assert_array_equal(found['w'], 2 * TREE['w'])
  assert tree['w'].is_deleted() is donate


@both
@pytest.mark.parametrize('members', (1, 8, 11))
def test_a_stack_is_spread_over_the_devices(devices, members, compilations):
  """All devices get all results, equal to those of one by itself.

  Each works on its share of the members: the eighth part, rounded up.
  """
  assert jax.device_count() == 8
  rng = np.random.default_rng(members)
  stack = rng.normal(size=(members, 3, 5)).astype(np.float32)
  seen = []

  def fn(part):
    seen.append(part.shape)
    return jnp.cumsum(jnp.tanh(part), axis=2)

  def step(params, model_state, opt_state, batch, rng, total):
    return params, model_state, devices.spread(fn, opt_state), params

  begun = devices.put((np.float32(0), None, stack))
  compiled = devices.compile_step(step)
  has_axis = isinstance(devices, PmapDevices)
  batch = np.zeros((8, 1) if has_axis else 8, np.float32)
  key = jax.random.PRNGKey(0)
  with compilations() as count:
    found = compiled(*begun, batch, key)[2]
  assert len(count) == 1
  expected = np.cumsum(np.tanh(stack), axis=2)
  copies = [np.asarray(shard.data) for shard in found.addressable_shards]
  assert len(copies) == 8
  for copy in copies:
    np.testing.assert_allclose(
      copy.reshape(stack.shape), expected, rtol=1e-6, atol=1e-6
    )
    np.testing.assert_array_equal(copy, copies[0])
  # In pmap a device is told its own part only.
  share = -(-members // 8)
  whole = share * (1 if has_axis else 8)
  assert seen == [(whole, 3, 5)]
