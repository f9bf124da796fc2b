"""1 device and 8, pmap and jit: the same parameters."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import twenty_steps

GENERATIONS = ('jit', 'pmap')


@pytest.fixture(scope='module')
def on_eight():
  """Generation -> (laid-out model, leaves on the host)."""
  models = {}
  for generation in GENERATIONS:
    model, devices = twenty_steps.train(generation)
    leaves = jax.tree_util.tree_leaves(devices.get(model))
    models[generation] = (model, leaves)
  return models


@pytest.fixture(scope='module')
def on_one(tmp_path_factory):
  """Generation -> leaves on the host, trained in a process with one device."""
  folder = tmp_path_factory.mktemp('one')
  flags = {'XLA_FLAGS': '--xla_force_host_platform_device_count=1'}
  subprocess.run(
    [sys.executable, twenty_steps.__file__, str(folder)],
    env={**os.environ, **flags},
    check=True,
  )
  leaves = {}
  for generation in GENERATIONS:
    with np.load(folder / f'{generation}.npz') as saved:
      leaves[generation] = [saved[name] for name in saved.files]
  return leaves


def assert_close(leaves, others):
  """Equal up to the order of summation.

  Adam divides by the root of the second moment, so that an entry with a tiny
  gradient moves by about the learning rate whatever the gradient's size: the
  rounding of a sum over 64 examples, 1e-6 of it, can turn up as 1e-2 of a
  step. 20 steps at 0.0017 make 0.035, and 1 % of that is the tolerance; wrong
  weighting of devices or replicas that differ show as steps, not as per cents.
  """
  assert len(leaves) == len(others)
  for leaf, other in zip(leaves, others):
    np.testing.assert_allclose(leaf, other, rtol=1e-4, atol=3.5e-4)


def test_devices_are_eight(on_eight):
  assert jax.device_count() == 8
  for model, _ in on_eight.values():
    for leaf in jax.tree_util.tree_leaves(model):
      assert len(leaf.sharding.device_set) == 8


@pytest.mark.parametrize('generation', GENERATIONS)
def test_one_device_and_eight(generation, on_one, on_eight):
  assert_close(on_one[generation], on_eight[generation][1])


def test_pmap_and_jit(on_one, on_eight):
  assert_close(on_eight['pmap'][1], on_eight['jit'][1])
  assert_close(on_one['pmap'], on_one['jit'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_replicas_are_identical(generation, on_eight):
  for leaf in jax.tree_util.tree_leaves(on_eight[generation][0]):
    first, *rest = [np.asarray(shard.data) for shard in leaf.addressable_shards]
    assert len(rest) == 7
    for other in rest:
      np.testing.assert_array_equal(first, other)
