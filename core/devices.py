"""How arrays are laid out on the devices, in both benchmark generations.

`Devices` runs functions under `jax.jit` (current): the batch is sharded and the
rest replicated, unless the runner shards parameters (FSDP and the like). Then
everything with the parameters' structure is laid out like them, recognised by
the end of its path, and a reset works on each device's part alone.
`PmapDevices` runs them under `jax.pmap`, with a leading device axis on
everything (2024, v0.5.0).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

# The name that the benchmark's own submissions give to the device axis; models
# that synchronise across devices use it.
AXIS_NAME = 'batch'


class Devices:
  """Arrays without device axis, and compiled functions of them."""

  def __init__(self, params: Any = None, everywhere: bool = True) -> None:
    """Takes over the layout of params, if any of them is sharded.

    Args:
      params: as they lie on the devices.
      everywhere: whether parameters that are not sharded are to be replicated
        on all devices, as a runner wants it; else they stay where they are.
    """
    self._programs: dict[Any, Callable[..., Any]] = {}
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    shardings = [getattr(leaf, 'sharding', None) for _, leaf in leaves]
    named = [s for s in shardings if isinstance(s, NamedSharding)]
    self._is_sharded = any(not s.is_fully_replicated for s in named)
    mesh: Any = Mesh(np.asarray(jax.devices()), (AXIS_NAME,))
    if named and (self._is_sharded or not everywhere):
      mesh = named[0].mesh
    self.replicated: Sharding = NamedSharding(mesh, PartitionSpec())
    if not everywhere and shardings and shardings[0] and not named:
      self.replicated = shardings[0]
    # On how many devices a batch is split; FSDP splits it over all axes.
    self._split = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    self._sharded = [
      (jax.tree_util.keystr(path), leaf.shape, leaf.sharding)
      if isinstance(leaf.sharding, NamedSharding)
      else (jax.tree_util.keystr(path), leaf.shape, self.replicated)
      for path, leaf in sorted(leaves, key=lambda pair: -len(pair[0]))
      if self._is_sharded
    ]

  def _layout(self, tree: Any) -> Any:
    """The sharding of every leaf of a tree of anything with a shape."""

    def lies(path: Any, leaf: Any) -> Sharding:
      name = jax.tree_util.keystr(path)
      for end, shape, sharding in self._sharded:
        if name.endswith(end) and np.shape(leaf) == shape:
          return sharding
      return self.replicated

    return jax.tree_util.tree_map_with_path(lies, tree)

  def compile_step(self, body: Callable[..., Any]) -> Callable[..., Any]:
    """A train step from its body; the first three arguments are donated.

    Args:
      body: see `run.train_step`.

    Returns:
      (params, model_state, opt_state, batch, rng) -> what the body returns. Its
      first call compiles it.
    """

    def step(
      params: Any, model_state: Any, opt_state: Any, batch: Any, rng: jax.Array
    ) -> Any:
      # The batch's sums already span all devices.
      after = body(params, model_state, opt_state, batch, rng, lambda t: t)
      if self._is_sharded:
        after = jax.lax.with_sharding_constraint(after, self._layout(after))
      return after

    same = None if self._is_sharded else self.replicated
    out: Any = {} if self._is_sharded else {'out_shardings': same}
    return jax.jit(
      step,
      in_shardings=(same, same, same, self._split, same),
      donate_argnums=(0, 1, 2),
      **out,
    )

  def init(self, fn: Callable[[Any], Any], tree: Any) -> Any:
    """fn(tree) of a laid-out tree; the result is laid out."""
    layout = self._layout(jax.eval_shape(fn, tree))
    return jax.jit(fn, out_shardings=layout)(tree)

  def put(self, tree: Any) -> Any:
    """Lays out a tree of host values on the devices, replicated."""
    if self.replicated.is_fully_addressable:
      return jax.device_put(tree, self.replicated)
    return jax.tree_util.tree_map(self._put_from_every_process, tree)

  def _put_from_every_process(self, x: Any) -> jax.Array:
    """The same value in all processes, laid out without communication.

    device_put would compare the processes' values at every put, and would find
    that a NaN differs from itself.
    """
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
      return jax.device_put(x, self.replicated)
    x = np.asarray(x)
    return jax.make_array_from_callback(x.shape, self.replicated, x.__getitem__)

  def place(self, tree: Any) -> Any:
    """Lays out a tree of arrays that the runner has handed over."""
    if self._is_sharded:
      return jax.device_put(tree, self._layout(tree))
    return self.put(tree)

  def get(self, tree: Any) -> Any:
    """One copy of a laid-out tree, on the host."""
    return jax.tree_util.tree_map(np.asarray, tree)

  def shape_of(self, leaf: jax.Array) -> jax.ShapeDtypeStruct:
    """Shape, dtype and sharding of a laid-out array, without device axis."""
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)

  def prepare(
    self,
    fn: Callable[..., Any],
    shapes: Any,
    *hosts: jax.ShapeDtypeStruct,
    donate: bool = False,
  ) -> Callable[..., Any]:
    """Compiles fn(laid-out tree, *host values), once per kind of input.

    Args:
      fn: what to run, the same on all devices.
      shapes: tree of jax.ShapeDtypeStruct, without device axis.
      hosts: likewise for the host values.
      donate: whether the tree is donated; then the first result is laid out
        like it.
    """
    leaves, treedef = jax.tree_util.tree_flatten((shapes, hosts))
    kinds = tuple(
      (tuple(x.shape), str(x.dtype), getattr(x, 'sharding', None))
      for x in leaves
    )
    key = (fn, treedef, kinds, donate)
    if key not in self._programs:
      self._programs[key] = self._compile(fn, shapes, hosts, donate)
    return self._programs[key]

  def run(
    self,
    fn: Callable[..., Any],
    tree: Any,
    *host_values: np.ndarray | np.generic,
    donate: bool = False,
  ) -> Any:
    """fn(tree, *host_values), compiled now if it has not been prepared."""
    shapes = jax.tree_util.tree_map(self.shape_of, tree)
    hosts = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in host_values]
    return self.prepare(fn, shapes, *hosts, donate=donate)(tree, *host_values)

  def _compile(
    self, fn: Callable[..., Any], shapes: Any, hosts: Any, donate: bool
  ) -> Callable[..., Any]:
    layout = jax.tree_util.tree_map(
      lambda x: getattr(x, 'sharding', None) or self.replicated, shapes
    )
    # A host value of a leaf's shape is laid out like that leaf.
    host_layout = tuple(
      layout
      if isinstance(layout, Sharding) and host.shape == shapes.shape
      else self.replicated
      for host in hosts
    )
    out = jax.eval_shape(fn, shapes, *hosts)
    out_layout = jax.tree_util.tree_map(lambda _: self.replicated, out)
    if donate and isinstance(out, tuple):
      out_layout = (layout, *out_layout[1:])
    elif donate:
      out_layout = layout
    jitted = jax.jit(
      fn,
      in_shardings=(layout, *host_layout),
      out_shardings=out_layout,
      donate_argnums=(0,) if donate else (),
    )
    return jitted.lower(shapes, *hosts).compile()


class PmapDevices(Devices):
  """Everything has a leading device axis (benchmark v0.5.0)."""

  def __init__(self) -> None:
    super().__init__()
    self._count = jax.local_device_count()
    self._identity = jax.pmap(lambda tree: tree, axis_name=AXIS_NAME)
    self._stacked: Any = self.put(np.int32(0)).sharding

  def compile_step(self, body: Callable[..., Any]) -> Callable[..., Any]:
    """See `Devices`."""

    def step(
      params: Any, model_state: Any, opt_state: Any, batch: Any, rng: jax.Array
    ) -> Any:
      rng = jax.random.fold_in(rng, jax.lax.axis_index(AXIS_NAME))
      total = functools.partial(jax.lax.psum, axis_name=AXIS_NAME)
      return body(params, model_state, opt_state, batch, rng, total)

    return jax.pmap(
      step,
      axis_name=AXIS_NAME,
      in_axes=(0, 0, 0, 0, None),
      donate_argnums=(0, 1, 2),
    )

  def init(self, fn: Callable[[Any], Any], tree: Any) -> Any:
    """See `Devices`."""
    return jax.pmap(fn, axis_name=AXIS_NAME)(tree)

  def put(self, tree: Any) -> Any:
    """See `Devices`."""
    stacked = jax.tree_util.tree_map(
      lambda x: np.broadcast_to(x, (self._count, *np.shape(x))), tree
    )
    return self._identity(stacked)

  def place(self, tree: Any) -> Any:
    """See `Devices`."""
    # From jax 0.8 on, a pmap depends on the mesh of its inputs: one with
    # another axis name would make the step compile twice.
    if isinstance(self._stacked, NamedSharding):
      return jax.device_put(tree, self._stacked)
    return tree

  def get(self, tree: Any) -> Any:
    """See `Devices`."""

    def first_copy(x: jax.Array) -> np.ndarray:
      return np.asarray(x.addressable_shards[0].data).reshape(x.shape[1:])

    return jax.tree_util.tree_map(first_copy, tree)

  def shape_of(self, leaf: jax.Array) -> jax.ShapeDtypeStruct:
    """See `Devices`."""
    return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)

  def _compile(
    self, fn: Callable[..., Any], shapes: Any, hosts: Any, donate: bool
  ) -> Callable[..., Any]:
    mapped = jax.pmap(
      fn,
      axis_name=AXIS_NAME,
      in_axes=(0,) + (None,) * len(hosts),
      donate_argnums=(0,) if donate else (),
    )
    stacked = jax.tree_util.tree_map(
      lambda x: jax.ShapeDtypeStruct((self._count, *x.shape), x.dtype), shapes
    )
    return mapped.lower(stacked, *hosts).compile()
