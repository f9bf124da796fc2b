"""What a step or a reset must not hold: the host, donated arrays, models."""

from __future__ import annotations

import gc
import weakref

import jax
import numpy as np
import pytest

from reset_cycles.soft_reset import blend
from reset_cycles.training.compiled_ops import CompiledOps
from reset_cycles.training.devices import JitDevices
from reset_cycles.training.fresh_models import FreshModels
from runs import GENERATIONS, new_driver


@pytest.fixture
def waits(monkeypatch):
  """A list that grows whenever the host waits for an array, or reads one."""
  from jax._src.array import ArrayImpl

  found = []

  def noted(owner, name, original):
    def wrapped(*args, **kwargs):
      found.append(name)
      return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)

  noted(jax, 'block_until_ready', jax.block_until_ready)
  noted(jax, 'device_get', jax.device_get)
  noted(ArrayImpl, 'block_until_ready', ArrayImpl.block_until_ready)
  value = ArrayImpl._value
  monkeypatch.setattr(
    ArrayImpl,
    '_value',
    property(lambda self: (found.append('read'), value.fget(self))[1]),
  )
  return found


@pytest.mark.parametrize(
  'wait',
  [
    lambda: jax.numpy.zeros(3).block_until_ready(),
    lambda: jax.block_until_ready({'a': jax.numpy.zeros(3)}),
    lambda: jax.device_get(jax.numpy.zeros(3)),
    lambda: float(jax.numpy.zeros(())),
    lambda: np.asarray(JitDevices().put(np.zeros(3))),
  ],
)
def test_every_way_to_wait_is_seen(waits, wait):
  wait()
  assert waits


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_ordinary_step_waits_for_nothing(generation, waits, folder):
  driver = new_driver(generation=generation, evaluations={1: (1.0, 0.4)})
  driver.run(until=2)  # takes over the state, and the first evaluation
  del waits[:]
  driver.run(until=4)
  assert waits == []
  driver.step()  # the boundary reads whether the model is finite
  assert waits


@pytest.mark.skipif(
  jax.__version_info__ < (0, 5), reason='CPUs do not donate before'
)
@pytest.mark.parametrize('generation', GENERATIONS)
def test_all_that_is_donated_is_gone_after_a_step(generation):
  """Parameters, statistics, and every leaf of the optimizer's state."""
  driver = new_driver(generation=generation, evaluations={})
  driver.run(until=2)
  given = (driver.params, driver.model_state, driver.optimizer_state[0].inner)
  leaves = jax.tree_util.tree_leaves(given)
  assert len(leaves) >= 2 + 1 + 4  # the moments are two of each parameter
  driver.step()
  assert [leaf.is_deleted() for leaf in leaves] == [True] * len(leaves)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_reset_has_one_fresh_leaf_at_a_time(generation, monkeypatch):
  """Each blend is waited for before the next fresh leaf goes to the devices."""
  from jax._src.array import ArrayImpl

  tape, run, wait = [], CompiledOps.run, ArrayImpl.block_until_ready

  def noted_run(self, fn, tree, *host_values, **kwargs):
    if fn is blend:
      tape.append(f'blend {host_values[0].shape}')
    return run(self, fn, tree, *host_values, **kwargs)

  def noted_wait(self):
    tape.append('wait')
    return wait(self)

  driver = new_driver(generation=generation)
  driver.run(until=3)  # the evaluation of step 3 ends the cycle
  monkeypatch.setattr(CompiledOps, 'run', noted_run)
  monkeypatch.setattr(ArrayImpl, 'block_until_ready', noted_wait)
  driver.step()
  assert tape == [
    'blend (2,)',
    'wait',
    'blend (6, 2)',
    'wait',
    'blend (6,)',
    'wait',
  ]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_fresh_model_is_freed_after_its_reset(generation, monkeypatch):
  taken, take = [], FreshModels.take

  def noted(self, index):
    model = take(self, index)
    taken.extend(map(weakref.ref, jax.tree_util.tree_leaves(model)))
    return model

  monkeypatch.setattr(FreshModels, 'take', noted)
  driver = new_driver(generation=generation)
  driver.run(until=3)
  assert taken == []
  driver.step()
  gc.collect()
  assert len(taken) == 3
  assert [leaf() for leaf in taken] == [None] * 3
