"""How a loop's arrays lie on its devices: as its parameters do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..core.devices import Devices


class LoopDevices(Devices):
  """Parameters stay where they are, and everything else follows them.

  What has a parameter's shape, and a path that ends with the parameter's, is
  laid out like it: moments, iterates, fresh values. The rest is replicated.
  """

  def __init__(self, params: Any) -> None:
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    shardings: list[Any] = [leaf.sharding for _, leaf in leaves]
    named = [s for s in shardings if isinstance(s, NamedSharding)]
    self._replicated = shardings[0]
    if named:
      self._replicated = NamedSharding(named[0].mesh, PartitionSpec())
    self._sharded = [
      (jax.tree_util.keystr(path), leaf.shape, leaf.sharding)
      for path, leaf in sorted(leaves, key=lambda pair: -len(pair[0]))
      if leaf.sharding in named
    ]

  def layout(self, tree: Any) -> Any:
    """See `Devices`."""

    def lies(path: Any, leaf: Any) -> Sharding:
      name = jax.tree_util.keystr(path)
      for end, shape, sharding in self._sharded:
        if name.endswith(end) and np.shape(leaf) == shape:
          return sharding
      return self._replicated

    return jax.tree_util.tree_map_with_path(lies, tree)

  def put(self, tree: Any) -> Any:
    """See `Devices`."""
    place = lambda x: _laid_out(x, self._replicated)
    return jax.tree_util.tree_map(place, tree)

  def place(self, tree: Any) -> Any:
    """See `Devices`; host values are laid out as well."""
    return jax.tree_util.tree_map(_laid_out, tree, self.layout(tree))

  def get(self, tree: Any) -> Any:
    """See `Devices`."""

    def whole(leaf: Any) -> np.ndarray:
      is_here = getattr(leaf, 'is_fully_addressable', True)
      if is_here or leaf.is_fully_replicated:
        return np.asarray(leaf)
      return multihost_utils.process_allgather(leaf, tiled=True)

    return jax.tree_util.tree_map(whole, tree)

  def compile(
    self, fn: Callable[..., Any], tree: Any, *hosts: Any, donate: bool = False
  ) -> Callable[..., Any]:
    """See `Devices`."""
    program = super().compile(fn, tree, *hosts, donate=donate)
    # Of several processes, each lays out its own part of the host values.
    return lambda tree, *hosts: program(tree, *map(self.place, hosts))


def _laid_out(x: Any, sharding: Sharding) -> jax.Array:
  """An array, the same in all processes, without communication between them.

  device_put would compare the processes' values at every put, and would find
  that a NaN differs from itself.
  """
  is_here = getattr(x, 'is_fully_addressable', True)
  if sharding.is_fully_addressable or not is_here:
    return jax.device_put(x, sharding)
  x = np.asarray(x)
  return jax.make_array_from_callback(x.shape, sharding, x.__getitem__)
