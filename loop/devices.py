"""How a loop's arrays lie on its devices: as its parameters do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import (
  NamedSharding,
  PartitionSpec,
  Sharding,
  SingleDeviceSharding,
)

from ..core.devices import Devices
from ..engine.model_reset import OPT_STATE


class LoopDevices(Devices):
  """Parameters stay where they are, and everything else follows them.

  A leaf that has a parameter's shape, and a path that ends with the parameter's
  path, is laid out like the parameter: moments, iterates, fresh values. The
  rest is replicated. A state that is spread further over the same devices, as
  in ZeRO-1, stays so.

  Parameters may lie on devices that no single mesh spans, as the stages of a
  pipeline do. A compiled function then runs on the first device, and its
  results go back to where they belong. The rest is uncommitted: on no device in
  particular.
  """

  def __init__(self, params: Any, opt_state: Any = None) -> None:
    """Takes over the layout of a model's parameters, and of what is spread."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    shardings: list[Any] = [leaf.sharding for _, leaf in leaves]
    named = [s for s in shardings if isinstance(s, NamedSharding)]
    widest = max((s.device_set for s in shardings), key=len)
    self._is_apart = any(not s.device_set <= widest for s in shardings)
    replicated = shardings[0]
    if self._is_apart:
      first = min(shardings[0].device_set, key=lambda device: device.id)
      replicated = SingleDeviceSharding(first)
    elif named:
      replicated = NamedSharding(named[0].mesh, PartitionSpec())
    self._replicated: Any = replicated
    self._sharded = [
      (path, leaf.shape, leaf.sharding)
      for path, leaf in sorted(leaves, key=lambda pair: -len(pair[0]))
      if self._is_apart or leaf.sharding in named
    ]
    # By the key paths of the optimizer's state.
    self._spread: dict[Any, Sharding] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(opt_state)[0]:
      sharding = getattr(leaf, 'sharding', None)
      if not isinstance(sharding, NamedSharding) or self._is_apart:
        continue
      is_same = sharding.device_set == replicated.device_set
      if is_same and not sharding.is_fully_replicated:
        self._spread[path] = sharding

  def _sharding(self, path: Any, leaf: Any) -> Sharding | None:
    """The sharding of a leaf that is spread, or belongs to a parameter."""
    if OPT_STATE in path:
      in_state = path[path.index(OPT_STATE) + 1 :]
      if in_state in self._spread:
        return self._spread[in_state]
    for end, shape, sharding in self._sharded:
      is_end = path[len(path) - len(end) :] == end
      if is_end and np.shape(leaf) == shape:
        return sharding
    return None

  def layout(self, tree: Any) -> Any:
    """See `Devices`."""
    lies = lambda path, leaf: self._sharding(path, leaf) or self._replicated
    return jax.tree_util.tree_map_with_path(lies, tree)

  def put(self, tree: Any) -> Any:
    """See `Devices`."""
    if self._is_apart:
      return jax.tree_util.tree_map(jnp.array, tree)
    place = lambda x: _laid_out(x, self._replicated)
    return jax.tree_util.tree_map(place, tree)

  def place(self, tree: Any) -> Any:
    """See `Devices`; host values are laid out as well."""
    if not self._is_apart:
      return jax.tree_util.tree_map(_laid_out, tree, self.layout(tree))

    def place(path: Any, leaf: Any) -> jax.Array:
      sharding = self._sharding(path, leaf)
      # By way of the host; else the array would stay tied to its device.
      if sharding is None:
        return jnp.array(self.get(leaf))
      return _laid_out(leaf, sharding)

    return jax.tree_util.tree_map_with_path(place, tree)

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
    home = self._replicated
    with jax.disable_jit(False):  # a compiled function knows no other way
      if self._is_apart:
        jitted = jax.jit(fn, in_shardings=home, out_shardings=home)
        program = jitted.lower(self.shapes_of(tree), *hosts).compile()
      else:
        program = super().compile(fn, tree, *hosts, donate=donate)

    def call(tree: Any, *hosts: Any) -> Any:
      with jax.disable_jit(False):
        if self._is_apart:
          return self.place(program(*jax.device_put((tree, *hosts), home)))
        # Each of several processes lays out its own part of the host values.
        return program(tree, *map(self.place, hosts))

    return call


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
