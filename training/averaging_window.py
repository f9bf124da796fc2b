"""The last snapshots of the weights, on the host.

A snapshot is copied on the devices, and from one of them to the host while
training goes on. It is read when the next one is taken or the average is
needed; by then it has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

_BLOCK = 1 << 18  # elements averaged at once, so that they stay in the cache


class Window(NamedTuple):
  """Snapshots, oldest first, each a list of leaves.

  Attributes:
    arrived: host arrays.
    pending: the one that is being copied, arrays on one device; or None.
  """

  arrived: tuple[list[np.ndarray], ...] = ()
  pending: list[jax.Array] | None = None

  @property
  def count(self) -> int:
    """Number of snapshots, including the one that is being copied."""
    return len(self.arrived) + (self.pending is not None)


def added(window: Window, tree: Any, size: int) -> Window:
  """The window after starting to copy a snapshot to the host; does not wait.

  Args:
    window: the window before.
    tree: laid-out arrays that nobody donates.
    size: how many snapshots are kept.
  """
  leaves = [
    leaf.addressable_shards[0].data for leaf in jax.tree_util.tree_leaves(tree)
  ]
  for leaf in leaves:
    leaf.copy_to_host_async()
  return settled(window, size)._replace(pending=leaves)


def settled(window: Window, size: int) -> Window:
  """The window with the pending snapshot arrived; the last `size` are kept."""
  if window.pending is None:
    return window
  arrived = (*window.arrived, jax.device_get(window.pending))
  return Window(arrived[-size:])


def mean(window: Window, like: Any) -> Any:
  """The mean of the snapshots that have arrived.

  Args:
    window: has at least one.
    like: tree of anything with a shape, without device axis.

  Returns:
    Host arrays with the structure and shapes of `like` and the snapshots'
    dtypes.
  """
  shapes, treedef = jax.tree_util.tree_flatten(like)
  leaves = [
    mean_of_arrays(same).reshape(shape.shape)
    for same, shape in zip(zip(*window.arrived), shapes)
  ]
  return jax.tree_util.tree_unflatten(treedef, leaves)


def mean_of_arrays(arrays: Sequence[np.ndarray]) -> np.ndarray:
  """The mean of arrays of equal shape, summed in float32, in their dtype."""
  flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
  result = np.empty_like(flat[0])
  for start in range(0, result.size, _BLOCK):
    block = slice(start, start + _BLOCK)
    total = flat[0][block].astype(np.float32)
    for array in flat[1:]:
      total += array[block].astype(np.float32, copy=False)
    result[block] = (total / np.float32(len(flat))).astype(result.dtype)
  return result.reshape(arrays[0].shape)
