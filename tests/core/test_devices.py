"""1 device and 8, pmap and jit: the same runs."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import one_device
from helpers.run_files import python_path
from helpers.runs import GENERATIONS
from reset_cycles.core.devices import Devices, PmapDevices


@pytest.fixture(scope='module')
def on_one(tmp_path_factory):
  """(generation, case) -> what a process with one device ends with."""
  folder = tmp_path_factory.mktemp('one')
  flags = {'XLA_FLAGS': '--xla_force_host_platform_device_count=1'}
  env = {**os.environ, **flags, 'PYTHONPATH': python_path()}
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


@pytest.mark.parametrize('devices', (Devices(), PmapDevices()), ids=GENERATIONS)
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
