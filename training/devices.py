"""How arrays are laid out on the devices, in both benchmark generations.

`PmapDevices` runs functions under `jax.pmap`, with a leading device axis on
everything (2024, v0.5.0); `JitDevices` runs them under `jax.jit` with the batch
sharded and the rest replicated (current). They have the same methods, described
in `Devices`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# The name that the benchmark's own submissions give to the device axis; models
# that synchronise across devices use it.
AXIS_NAME = 'batch'


class Devices(Protocol):
  """How arrays are laid out on the devices, and how functions run on them."""

  def compile_step(self, body: Callable) -> Callable:
    """A train step from its body; the first three arguments are donated.

    Args:
      body: see `step.train_step`.

    Returns:
      (params, model_state, opt_state, batch, rng) -> what the body returns. Its
      first call compiles it.
    """

  def compile(
    self, fn: Callable, shapes: Any, *host_shapes: Any, donate: bool = False
  ) -> Callable:
    """Compiles fn(laid-out tree, *host values) now, for given shapes.

    Args:
      fn: what to run, the same on all devices.
      shapes: tree of jax.ShapeDtypeStruct, without device axis.
      host_shapes: likewise for the host values.
      donate: whether the laid-out tree is donated.

    Returns:
      The compiled function; its result is laid out.
    """

  def init(self, fn: Callable, tree: Any) -> Any:
    """fn(tree) of a laid-out tree; the result is laid out."""

  def put(self, tree: Any) -> Any:
    """Lays out a tree of host values on the devices."""

  def place(self, tree: Any) -> Any:
    """Lays out a tree of arrays that the runner has handed over."""

  def get(self, tree: Any) -> Any:
    """One copy of a laid-out tree, on the host."""

  def shape_of(self, leaf: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a laid-out array, without device axis."""


class PmapDevices:
  """Everything has a leading device axis (benchmark v0.5.0)."""

  def __init__(self) -> None:
    self._count = jax.local_device_count()
    self._identity = jax.pmap(lambda tree: tree, axis_name=AXIS_NAME)
    self._layout = self.put(np.int32(0)).sharding

  def compile_step(self, body: Callable) -> Callable:
    def step(
      params: Any, model_state: Any, opt_state: Any, batch: Any, rng: jax.Array
    ) -> tuple[Any, Any, Any, Any]:
      rng = jax.random.fold_in(rng, jax.lax.axis_index(AXIS_NAME))
      total = functools.partial(jax.lax.psum, axis_name=AXIS_NAME)
      return body(params, model_state, opt_state, batch, rng, total)

    return jax.pmap(
      step,
      axis_name=AXIS_NAME,
      in_axes=(0, 0, 0, 0, None),
      donate_argnums=(0, 1, 2),
    )

  def compile(
    self, fn: Callable, shapes: Any, *host_shapes: Any, donate: bool = False
  ) -> Callable:
    mapped = jax.pmap(
      fn,
      axis_name=AXIS_NAME,
      in_axes=(0,) + (None,) * len(host_shapes),
      donate_argnums=(0,) if donate else (),
    )
    stacked = jax.tree_util.tree_map(
      lambda x: jax.ShapeDtypeStruct((self._count, *x.shape), x.dtype), shapes
    )
    return mapped.lower(stacked, *host_shapes).compile()

  def init(self, fn: Callable, tree: Any) -> Any:
    return jax.pmap(fn, axis_name=AXIS_NAME)(tree)

  def put(self, tree: Any) -> Any:
    stacked = jax.tree_util.tree_map(
      lambda x: np.broadcast_to(x, (self._count, *np.shape(x))), tree
    )
    return self._identity(stacked)

  def place(self, tree: Any) -> Any:
    # From jax 0.8 on, a pmap depends on the mesh of its inputs: one with
    # another axis name would make the step compile twice.
    if isinstance(self._layout, NamedSharding):
      return jax.device_put(tree, self._layout)
    return tree

  def get(self, tree: Any) -> Any:
    def first_copy(x: jax.Array) -> np.ndarray:
      return np.asarray(x.addressable_shards[0].data).reshape(x.shape[1:])

    return jax.tree_util.tree_map(first_copy, tree)

  def shape_of(self, leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)


class JitDevices:
  """The batch is sharded on its first axis, the rest replicated (main)."""

  def __init__(self) -> None:
    mesh = Mesh(np.asarray(jax.devices()), (AXIS_NAME,))
    self._replicated = NamedSharding(mesh, PartitionSpec())
    self._sharded = NamedSharding(mesh, PartitionSpec(AXIS_NAME))

  def compile_step(self, body: Callable) -> Callable:
    def step(
      params: Any, model_state: Any, opt_state: Any, batch: Any, rng: jax.Array
    ) -> tuple[Any, Any, Any, Any]:
      # The batch is one sharded array, so its sums already span all devices.
      return body(params, model_state, opt_state, batch, rng, lambda t: t)

    same, split = self._replicated, self._sharded
    return jax.jit(
      step,
      in_shardings=(same, same, same, split, same),
      out_shardings=same,
      donate_argnums=(0, 1, 2),
    )

  def compile(
    self, fn: Callable, shapes: Any, *host_shapes: Any, donate: bool = False
  ) -> Callable:
    jitted = jax.jit(
      fn,
      in_shardings=self._replicated,
      out_shardings=self._replicated,
      donate_argnums=(0,) if donate else (),
    )
    return jitted.lower(shapes, *host_shapes).compile()

  def init(self, fn: Callable, tree: Any) -> Any:
    return jax.jit(fn, out_shardings=self._replicated)(tree)

  def put(self, tree: Any) -> Any:
    if self._replicated.is_fully_addressable:
      return jax.device_put(tree, self._replicated)
    return jax.tree_util.tree_map(self._put_from_every_process, tree)

  def _put_from_every_process(self, x: Any) -> jax.Array:
    """The same value in all processes, laid out without communication.

    device_put would compare the processes' values at every put, and would find
    that a NaN differs from itself.
    """
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
      return jax.device_put(x, self._replicated)
    x = np.asarray(x)
    return jax.make_array_from_callback(
      x.shape, self._replicated, x.__getitem__
    )

  def place(self, tree: Any) -> Any:
    return self.put(tree)

  def get(self, tree: Any) -> Any:
    return jax.tree_util.tree_map(np.asarray, tree)

  def shape_of(self, leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
