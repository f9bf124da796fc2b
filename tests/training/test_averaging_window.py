"""Snapshots on the host and their mean."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.training import averaging_window
from reset_cycles.training.averaging_window import Window
from reset_cycles.training.devices import JitDevices, PmapDevices

DEVICES = {'jit': JitDevices, 'pmap': PmapDevices}


def trees(count):
  rng = np.random.default_rng(0)
  return [
    {'a': rng.normal(size=(2, 3)).astype(np.float32), 'b': np.float32(i)}
    for i in range(count)
  ]


@pytest.mark.parametrize('name', DEVICES)
def test_the_last_are_kept(name):
  devices, window = DEVICES[name](), Window()
  given = trees(5)
  for i, tree in enumerate(given):
    window = averaging_window.added(window, devices.put(tree), 3)
    assert window.count == min(i + 1, 4)
  window = averaging_window.settled(window, 3)
  assert (window.count, window.pending) == (3, None)
  assert averaging_window.settled(window, 3) is window
  shapes = jax.tree_util.tree_map(
    lambda x: jax.ShapeDtypeStruct(np.shape(x), np.float32), given[0]
  )
  mean = averaging_window.mean(window, shapes)
  assert mean['b'].shape == ()
  for key in ('a', 'b'):
    np.testing.assert_allclose(
      mean[key], sum(t[key] for t in given[2:]) / 3, rtol=1e-6
    )


def test_blocks_and_types(monkeypatch):
  monkeypatch.setattr(averaging_window, '_BLOCK', 4)
  arrays = [np.arange(11, dtype=np.float32) * i for i in (1, 2, 6)]
  mean = averaging_window.mean_of_arrays(arrays)
  np.testing.assert_array_equal(mean, np.arange(11, dtype=np.float32) * 3)
  # 1 + 2^-7, in bfloat16, three times: their sum has more bits than one has.
  halves = [np.asarray(jnp.full((3,), 1 + 2**-7, jnp.bfloat16))] * 3
  mean = averaging_window.mean_of_arrays(halves)
  assert mean.dtype == halves[0].dtype
  np.testing.assert_array_equal(mean, halves[0])
