"""Functions compiled once per kind of input."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from reset_cycles.training import compiled_ops
from reset_cycles.training.devices import JitDevices, PmapDevices

MAKE = {'pmap': PmapDevices, 'jit': JitDevices}


@pytest.fixture(params=MAKE)
def ops(request):
  return compiled_ops.CompiledOps(MAKE[request.param]())


def add(tree, number):
  return jax.tree_util.tree_map(lambda x: x + number, tree)


def shape(*dims, dtype=np.float32):
  return jax.ShapeDtypeStruct(dims, dtype)


def test_run_on_all_devices(ops):
  tree = ops.devices.put({'a': np.arange(3.0, dtype=np.float32)})
  found = ops.run(add, tree, np.float32(2))
  for shard in found['a'].addressable_shards:
    np.testing.assert_array_equal(np.ravel(shard.data), [2, 3, 4])
  assert len(found['a'].sharding.device_set) == jax.device_count()
  np.testing.assert_array_equal(ops.devices.get(tree)['a'], [0, 1, 2])


def test_what_was_prepared_is_not_compiled_again(ops, compilations):
  tree = ops.devices.put([np.zeros((5, 11), np.float32)])
  with compilations() as compiled:
    ops.prepare(add, [shape(5, 11)], shape())
  assert len(compiled) == 1
  with compilations() as compiled:
    ops.prepare(add, [shape(5, 11)], shape())
    ops.run(add, tree, np.float32(1))
  assert compiled == []


@pytest.mark.parametrize(
  'other', [[shape(4)], [shape(3, dtype=np.int32)], (shape(3),), shape(3)]
)
def test_another_kind_of_input_has_a_program_of_its_own(ops, other):
  assert ops.prepare(add, [shape(3)], shape()) is not ops.prepare(
    add, other, shape()
  )


def test_what_was_not_prepared_is_compiled_when_needed(ops):
  tree = ops.devices.put(np.zeros((2, 13), np.float32))
  out = ops.run(add, tree, np.float32(1))
  assert np.all(ops.devices.get(out) == 1)


def test_a_donated_tree_is_gone(ops):
  tree = ops.devices.put([np.zeros(64, np.float32)])
  ops.run(add, tree, np.float32(1), donate=True)
  assert tree[0].is_deleted()
