"""Parameters that are sharded: each device holds a part of each leaf.

The benchmark's runners replicate. A runner that shards (FSDP and the like) hands
parameters over with their `NamedSharding`s; then everything with the
parameters' structure is laid out like them: moments, iterates and averages,
recognised by the end of their path. A reset works on each device's part alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .devices import Devices, JitDevices, PmapDevices


def devices_of(params: Any, has_device_axis: bool) -> Devices:
  """The layout of a run's arrays, judged by that of its parameters.

  Args:
    params: as the runner hands them over.
    has_device_axis: see `workload.has_device_axis`.
  """
  if has_device_axis:
    return PmapDevices()
  return ShardedDevices(params) if _is_sharded(params) else JitDevices()


def _is_sharded(params: Any) -> bool:
  return any(
    isinstance(getattr(leaf, 'sharding', None), NamedSharding)
    and not leaf.sharding.is_fully_replicated
    for leaf in jax.tree_util.tree_leaves(params)
  )


class ShardedDevices(JitDevices):
  """Each leaf is laid out like the parameter whose path its own path ends with.

  For a single process: fresh models are read whole on the host.
  """

  def __init__(self, params: Any) -> None:
    """Takes over the layout of params; at least one leaf is sharded."""
    super().__init__()
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    mesh = next(
      leaf.sharding.mesh
      for _, leaf in leaves
      if isinstance(leaf.sharding, NamedSharding)
    )
    self._replicated = NamedSharding(mesh, PartitionSpec())
    self._sharded = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    by_length = sorted(leaves, key=lambda pair: -len(pair[0]))
    self._parameters = [
      (jax.tree_util.keystr(path), leaf.shape, self._named(leaf))
      for path, leaf in by_length
    ]

  def _named(self, leaf: jax.Array) -> NamedSharding:
    is_named = isinstance(leaf.sharding, NamedSharding)
    return leaf.sharding if is_named else self._replicated

  def _layout(self, tree: Any) -> Any:
    """The sharding of every leaf of a tree of anything with a shape."""

    def lies(path: Any, leaf: Any) -> NamedSharding:
      name = jax.tree_util.keystr(path)
      for end, shape, sharding in self._parameters:
        if name.endswith(end) and np.shape(leaf) == shape:
          return sharding
      return self._replicated

    return jax.tree_util.tree_map_with_path(lies, tree)

  def compile_step(self, body: Callable) -> Callable:
    def step(
      params: Any, model_state: Any, opt_state: Any, batch: Any, rng: jax.Array
    ) -> Any:
      after = body(params, model_state, opt_state, batch, rng, lambda t: t)
      return jax.lax.with_sharding_constraint(after, self._layout(after))

    return jax.jit(
      step,
      in_shardings=(None, None, None, self._sharded, None),
      donate_argnums=(0, 1, 2),
    )

  def compile(
    self, fn: Callable, shapes: Any, *host_shapes: Any, donate: bool = False
  ) -> Callable:
    """See `Devices`; a host value of a leaf's shape is laid out like that leaf.

    Results of donated leaves keep their layout; all others are replicated.
    """
    layout = jax.tree_util.tree_map(
      lambda x: getattr(x, 'sharding', None) or self._replicated, shapes
    )
    hosts = tuple(
      layout
      if isinstance(layout, NamedSharding) and host.shape == shapes.shape
      else self._replicated
      for host in host_shapes
    )
    jitted = jax.jit(
      fn,
      in_shardings=(layout, *hosts),
      out_shardings=self._after(fn, shapes, layout, *host_shapes)
      if donate
      else self._replicated,
      donate_argnums=(0,) if donate else (),
    )
    return jitted.lower(shapes, *host_shapes).compile()

  def _after(
    self, fn: Callable, shapes: Any, layout: Any, *host_shapes: Any
  ) -> Any:
    """The layout of fn's results: its tree's if they match, else by path."""
    result = jax.eval_shape(fn, shapes, *host_shapes)
    structure = jax.tree_util.tree_structure
    same = structure(result) == structure(shapes)
    return layout if same else self._layout(result)

  def init(self, fn: Callable, tree: Any) -> Any:
    layout = self._layout(jax.eval_shape(fn, tree))
    return jax.jit(fn, out_shardings=layout)(tree)

  def place(self, tree: Any) -> Any:
    return jax.device_put(tree, self._layout(tree))

  def shape_of(self, leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
