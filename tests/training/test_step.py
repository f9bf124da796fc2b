"""The train step and how it lies on devices, against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reset_cycles.training.devices import JitDevices, PmapDevices
from reset_cycles.training.step import train_step

NUM_EXAMPLES, NUM_INPUTS = 16, 3
ADAPTERS = {'jit': JitDevices, 'pmap': PmapDevices}


def model_fn(params, batch, model_state, rng):
  return batch['inputs'] @ params['w'], {'steps': model_state['steps'] + 1}


def loss_fn(logits, batch):
  losses = 0.5 * jnp.square(logits - batch['targets']) * batch['weights']
  return losses.sum(), batch['weights'].sum()


def problem(weights):
  rng = np.random.default_rng(0)
  batch = {
    'inputs': rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS)),
    'targets': rng.normal(size=NUM_EXAMPLES),
    'weights': weights,
  }
  batch = {key: value.astype(np.float32) for key, value in batch.items()}
  return {'w': rng.normal(size=NUM_INPUTS).astype(np.float32)}, batch


def one_step(name, params, batch):
  """params after a step of gradient descent at rate 1, the metrics, inputs."""
  devices = ADAPTERS[name]()
  if name == 'pmap':
    n = jax.local_device_count()
    batch = {k: v.reshape(n, -1, *v.shape[1:]) for k, v in batch.items()}
  descent = optax.sgd(1.0)
  step = devices.compile_step(train_step(model_fn, loss_fn, descent))
  params = devices.put(params)
  model_state = devices.put({'steps': np.float32(0)})
  opt_state = devices.init(descent.init, params)
  new_params, new_state, _, metrics = step(
    params, model_state, opt_state, batch, jax.random.PRNGKey(0)
  )
  assert devices.get(new_state)['steps'] == 1
  return new_params, metrics, devices, params


@pytest.mark.parametrize('name', ADAPTERS)
def test_gradient_is_the_mean_over_valid_examples_of_all_devices(name):
  # The first device has no valid example, others have one or two.
  weights = np.ones(NUM_EXAMPLES)
  weights[[0, 1, 4, 9]] = 0
  params, batch = problem(weights)
  residual = batch['inputs'] @ params['w'] - batch['targets']
  grad = (weights * residual) @ batch['inputs'] / weights.sum()
  loss = (weights * residual**2).sum() / 2 / weights.sum()
  new_params, metrics, devices, old_params = one_step(name, params, batch)
  # Sums of 16 products of numbers of size 1 in float32.
  np.testing.assert_allclose(
    devices.get(new_params)['w'], params['w'] - grad, rtol=0, atol=3e-6
  )
  metrics = devices.get(metrics)
  np.testing.assert_allclose(metrics['loss'], loss, rtol=3e-6)
  np.testing.assert_allclose(
    metrics['grad_norm'], np.linalg.norm(grad), rtol=3e-6
  )
  assert old_params['w'].is_deleted()


@pytest.mark.parametrize('name', ADAPTERS)
def test_a_batch_without_valid_examples_changes_nothing(name):
  params, batch = problem(np.zeros(NUM_EXAMPLES))
  new_params, metrics, devices, _ = one_step(name, params, batch)
  np.testing.assert_array_equal(devices.get(new_params)['w'], params['w'])
  assert devices.get(metrics)['loss'] == 0


@pytest.mark.parametrize('name', ADAPTERS)
def test_all_devices_hold_the_same(name):
  params, batch = problem(np.ones(NUM_EXAMPLES))
  new_params, _, _, _ = one_step(name, params, batch)
  shards = [np.asarray(s.data) for s in new_params['w'].addressable_shards]
  assert len(shards) == jax.local_device_count() == 8
  for shard in shards:
    np.testing.assert_array_equal(shard, shards[0])


@pytest.mark.parametrize('name', ADAPTERS)
def test_put_and_get(name):
  devices = ADAPTERS[name]()
  tree = {'a': np.arange(6.0, dtype=np.float32).reshape(2, 3), 'b': np.int32(4)}
  back = devices.get(devices.put(tree))
  assert back['b'] == 4
  assert back['b'].shape == ()
  np.testing.assert_array_equal(back['a'], tree['a'])


def test_layouts():
  x = np.zeros((2, 3), np.float32)
  assert PmapDevices().put(x).shape == (8, 2, 3)
  replicated = JitDevices().put(x)
  assert replicated.shape == (2, 3)
  assert replicated.sharding.is_fully_replicated


@pytest.mark.parametrize('name', ADAPTERS)
def test_random_numbers_differ_between_examples_of_different_devices(name):
  """Dropout must not drop the same on all devices."""

  def noisy(params, batch, model_state, rng):
    noise = jax.random.normal(rng, batch['targets'].shape)
    return noise, {'noise': noise}

  devices = ADAPTERS[name]()
  body = train_step(noisy, loss_fn, optax.sgd(1.0))
  _, batch = problem(np.ones(NUM_EXAMPLES))
  if name == 'pmap':
    batch = {k: v.reshape(8, -1, *v.shape[1:]) for k, v in batch.items()}
  step = devices.compile_step(body)
  params = devices.put({'w': np.zeros(NUM_INPUTS, np.float32)})
  state = devices.put({'noise': np.float32(0)})
  opt_state = devices.init(optax.sgd(1.0).init, params)
  _, new_state, _, _ = step(
    params, state, opt_state, batch, jax.random.PRNGKey(0)
  )
  noise = np.asarray(new_state['noise']).ravel()
  assert len(np.unique(noise)) == NUM_EXAMPLES


@pytest.mark.parametrize('name', ADAPTERS)
def test_compile_donates_on_request(name):
  devices = ADAPTERS[name]()
  shape = jax.ShapeDtypeStruct((3,), jnp.float32)
  scalar = jax.ShapeDtypeStruct((), jnp.float32)
  for donate in (False, True):
    double = devices.compile(lambda x, k: k * x, shape, scalar, donate=donate)
    x = devices.put(np.ones(3, np.float32))
    y = double(x, np.float32(2))
    np.testing.assert_array_equal(devices.get(y), [2, 2, 2])
    assert x.is_deleted() == donate
