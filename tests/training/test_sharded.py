"""Parameters spread over a 2 x 4 mesh: the same run, and resets in place."""

from __future__ import annotations

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tiny
from reset_cycles import submission
from reset_cycles.training.devices import JitDevices
from reset_cycles.training.sharded import ShardedDevices, devices_of
from runs import PARAMS, SWITCHING, column, host

pytestmark = pytest.mark.skipif(
  jax.__version_info__ < (0, 5),
  reason='the runners that shard have newer stacks than that of 2024',
)

WIDTH = 256
SPECS = {
  'first': PartitionSpec(None, ('data', 'model')),
  'second': PartitionSpec(('data', 'model')),
  'table': PartitionSpec('data', 'model'),
  'bias': PartitionSpec(),
}


class Wide(tiny.TinyWorkload):
  """Two layers and a table without a gradient; replicated."""

  def _init(self, rng):
    keys = jax.random.split(rng, 3)
    shapes = {
      'first': (tiny.NUM_INPUTS, WIDTH),
      'second': (WIDTH, tiny.NUM_OUTPUTS),
      'table': (WIDTH, 128),
    }
    params = {
      name: 0.1 * jax.random.normal(key, shape)
      for key, (name, shape) in zip(keys, shapes.items())
    }
    params['bias'] = jnp.zeros(tiny.NUM_OUTPUTS)
    self.param_shapes = jax.tree_util.tree_map(
      lambda x: tiny.ShapeTuple(x.shape), params
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


def train(workload, until, params=PARAMS):
  functions = submission.make_submission(params)
  driver = tiny.Driver(functions, workload(), SWITCHING)
  completes = driver.run(until=until)
  return driver, completes


def layouts(driver):
  """Of the parameters and all that has their structure, by path."""
  trees = (driver.params, driver.optimizer_state[0].inner)
  leaves = jax.tree_util.tree_flatten_with_path(trees)[0]
  return {jax.tree_util.keystr(p): leaf.sharding.spec for p, leaf in leaves}


@pytest.fixture(scope='module')
def driver():
  """After the first step of cycle 2, which begins with a reset."""
  return train(Sharded, until=4)[0]


def test_which_layout_serves():
  params, _ = Sharded().init_model_fn(jax.random.PRNGKey(0))
  assert isinstance(devices_of(params, False), ShardedDevices)
  params, _ = Wide().init_model_fn(jax.random.PRNGKey(0))
  assert type(devices_of(params, False)) is JitDevices


CHANGING = dataclasses.replace(
  PARAMS,
  cycles=[{}, {'optimizer': 'schedule_free_adamw'}, {'optimizer': 'nadamw'}],
)


@pytest.mark.parametrize('params', [PARAMS, CHANGING], ids=['same', 'other'])
def test_the_run_is_that_of_replicated_parameters(params, folder):
  """Also where cycles have other optimizers, over one state."""
  runs = []
  for workload in (Wide, Sharded):
    driver, completes = train(workload, 13, params)
    assert completes
    taus = column(folder, 'tau', event='reset')
    runs.append((host(driver.params), driver.global_step, taus))
  (ours, *decided), (theirs, *others) = runs
  assert decided == others
  assert decided == [12, ['0.2500000000000001', '0.10000000000000009']]
  assert set(SPECS.values()) >= set(layouts(driver).values())
  for name, leaf in ours.items():
    np.testing.assert_allclose(theirs[name], leaf, rtol=1e-4, atol=1e-5)


def test_every_leaf_lies_as_it_did(driver):
  """The parameters, and both moments of each."""
  assert driver.optimizer_state[1].control.number == 2
  found = layouts(driver)
  for name, spec in SPECS.items():
    lying = [s for path, s in found.items() if path.endswith(f"['{name}']")]
    assert lying == [spec] * 3


def test_the_state_of_several_optimizers_lies_as_the_parameters_do():
  """Before and after a cycle begins with another optimizer."""
  for until in (1, 6):
    driver, _ = train(Sharded, until, CHANGING)
    found = layouts(driver)
    for name, spec in SPECS.items():
      lying = [s for path, s in found.items() if path.endswith(f"['{name}']")]
      assert lying == [spec] * 3


def gathered(program):
  """Largest number of elements that a collective of a program hands out."""
  names = 'all-gather|all-to-all|collective-permute|all-reduce|reduce-scatter'
  found = re.findall(rf'= (.*?) (?:{names})(?:-start)?\(', program)
  shapes = [s for text in found for s in re.findall(r'\[([\d,]*)\]', text)]
  return max((math.prod(map(int, s.split(','))) if s else 1) for s in shapes)


def test_a_collective_is_seen():
  mesh = Mesh(np.asarray(jax.devices()), ('data',))
  split = NamedSharding(mesh, PartitionSpec('data'))
  same = NamedSharding(mesh, PartitionSpec())
  fn = jax.jit(jnp.copy, in_shardings=split, out_shardings=same)
  assert gathered(fn.lower(jnp.zeros((64, 4))).compile().as_text()) == 256


def test_a_reset_gathers_nothing(driver):
  """Beyond samples of at most 64 elements, and whether leaves are finite."""
  programs = driver.optimizer_state[1].setup.reset_ops._programs
  texts = [program.as_text() for program in programs.values()]
  assert len(texts) >= 10
  with_collectives = [t for t in texts if ' all-' in t or 'collective-' in t]
  assert with_collectives  # of the samples
  assert max(map(gathered, with_collectives)) <= 64


@pytest.mark.parametrize(
  'averaging',
  [
    {'name': 'lawa', 'k': 2, 'distance': 0.1},
    {'name': 'ema', 'span': 0.2, 'distance': 0.1},
  ],
  ids=lambda a: a['name'],
)
def test_averaged_weights_lie_as_the_parameters_do(averaging):
  """And are those of replicated ones; trained is what would be without."""
  plain, _ = train(Sharded, until=8)
  params = dataclasses.replace(PARAMS, averaging=averaging)
  ours, _ = train(Sharded, until=8, params=params)
  theirs, _ = train(Wide, until=8, params=params)
  slot = ours.optimizer_state[0].averaging.slot
  for name, leaf in ours.params.items():
    assert leaf.sharding.spec == slot[name].sharding.spec == SPECS[name]
    np.testing.assert_array_equal(host(slot)[name], host(plain.params)[name])
    np.testing.assert_allclose(
      host(leaf), host(theirs.params)[name], rtol=1e-4, atol=1e-6
    )
  assert not np.array_equal(host(slot)['bias'], host(ours.params)['bias'])
