"""1 device and 8, pmap and jit, replicated and sharded: the same runs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from helpers import fake_benchmark, one_device
from helpers.runs import (
  GENERATIONS,
  PARAMS,
  SWITCHING,
  column,
  host,
  new_driver,
  newly_set_up,
)

TESTS = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope='module')
def on_one(tmp_path_factory):
  """(generation, case) -> what a process with one device ends with."""
  folder = tmp_path_factory.mktemp('one')
  flags = {'XLA_FLAGS': '--xla_force_host_platform_device_count=1'}
  paths = [str(TESTS), os.environ.get('PYTHONPATH', '')]
  flags['PYTHONPATH'] = os.pathsep.join([*paths, *filter(None, sys.path)])
  subprocess.run(
    [sys.executable, one_device.__file__, str(folder)],
    env={**os.environ, **flags},
    check=True,
  )
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


@pytest.mark.parametrize('generation', GENERATIONS)
def test_replicas_are_identical(generation):
  driver = new_driver(generation=generation)
  driver.run(until=10)
  assert driver.optimizer_state[1].control.number == 3
  for leaf in jax.tree_util.tree_leaves((driver.params, driver.model_state)):
    first, *rest = [np.asarray(shard.data) for shard in leaf.addressable_shards]
    assert len(rest) == 7
    for other in rest:
      np.testing.assert_array_equal(first, other)


SPECS = {
  'first': PartitionSpec(None, ('data', 'model')),
  'second': PartitionSpec(('data', 'model')),
  'bias': PartitionSpec(),
}


class Wide(fake_benchmark.TinyWorkload):
  """Two layers, replicated."""

  def _init(self, rng):
    shapes = {
      'first': (fake_benchmark.NUM_INPUTS, 256),
      'second': (256, fake_benchmark.NUM_OUTPUTS),
    }
    keys = jax.random.split(rng, 2)
    params = {
      name: 0.1 * jax.random.normal(key, shape)
      for key, (name, shape) in zip(keys, shapes.items())
    }
    params['bias'] = jnp.zeros(fake_benchmark.NUM_OUTPUTS)
    self.param_shapes = jax.tree_util.tree_map(
      lambda x: fake_benchmark.ShapeTuple(x.shape), params
    )
    return params, None

  def model_fn(
    self, params, batch, state, mode, rng, update_batch_norm, dropout_rate=0.0
  ):
    hidden = jnp.tanh(batch['inputs'] @ params['first'])
    return hidden @ params['second'] + params['bias'][None], state


class Sharded(Wide):
  """The same, as a runner hands it over that shards."""

  def _init(self, rng):
    params, state = super()._init(rng)
    mesh = Mesh(np.asarray(jax.devices()).reshape(2, 4), ('data', 'model'))
    return {
      name: jax.device_put(leaf, NamedSharding(mesh, SPECS[name]))
      for name, leaf in params.items()
    }, state


@pytest.mark.skipif(
  jax.__version_info__ < (0, 5),
  reason='the runners that shard have newer stacks than that of 2024',
)
def test_a_sharded_run_is_that_of_replicated_parameters(folder):
  """And every leaf lies as it did: the parameters, and both moments of each."""
  runs = []
  for workload in (Wide(6), Sharded(6)):
    driver = newly_set_up(PARAMS, workload, SWITCHING)
    assert driver.run()
    runs.append((driver, column(folder, 'tau', event='reset')))
  (ours, decided), (theirs, others) = runs
  assert decided == others == ['0.2500000000000001', '0.10000000000000009']
  for name, leaf in host(ours.params).items():
    found = host(theirs.params)[name]
    np.testing.assert_allclose(found, leaf, rtol=1e-4, atol=1e-5)
  trees = (theirs.params, theirs.optimizer_state[0].inner)
  leaves = jax.tree_util.tree_flatten_with_path(trees)[0]
  for name, spec in SPECS.items():
    lying = [
      leaf.sharding.spec
      for path, leaf in leaves
      if jax.tree_util.keystr(path).endswith(f"['{name}']")
    ]
    assert lying == [spec] * 3
