"""How arrays are laid out on the devices, in both benchmark generations.

`Devices` runs functions under `jax.jit` (current): the batch is sharded and the
rest replicated. `PmapDevices` runs them under `jax.pmap`, with a leading device
axis on everything (2024, v0.5.0).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import tree_map

# The name that the benchmark's own submissions give to the device axis; models
# that synchronise across devices use it.
AXIS_NAME = 'batch'


class Devices:
  """Arrays without device axis, and compiled functions of them."""

  _num_axes = 0  # of devices, in front of a laid-out array's own

  def __init__(self) -> None:
    mesh = Mesh(np.asarray(jax.devices()), (AXIS_NAME,))
    self._replicated = NamedSharding(mesh, PartitionSpec())
    self._split = NamedSharding(mesh, PartitionSpec(AXIS_NAME))

  def layout(self, tree: Any) -> Any:
    """The sharding of every leaf of a tree of anything with a shape."""
    return tree_map(lambda _: self._replicated, tree)

  def compile_step(self, body: Callable[..., Any]) -> Any:
    """A train step from its body, compiled when called: `engine.train_step`.

    (params, model_state, opt_state, batch, rng) -> what the body returns; the
    first three are donated.
    """
    same = self._replicated
    return jax.jit(
      # Sums already span all devices.
      functools.partial(body, total=lambda tree: tree),
      in_shardings=(same, same, same, self._split, same),
      out_shardings=same,
      donate_argnums=(0, 1, 2),
    )

  def spread(
    self, fn: Callable[[jax.Array], jax.Array], stack: jax.Array
  ) -> jax.Array:
    """fn(stack), with the members shared out over the devices; in a train step.

    Args:
      fn: of each member of a stack by itself, such as a vmapped function; keeps
        the stack's shape.
      stack: shape=(members, ...), the same on all devices, as the result is.
    """
    share = jax.lax.with_sharding_constraint(_padded(stack), self._split)
    whole = jax.lax.with_sharding_constraint(fn(share), self._replicated)
    return whole[: len(stack)]

  def init(self, fn: Callable[[Any], Any], tree: Any) -> Any:
    """fn(tree) of a laid-out tree; the result is laid out."""
    return self.compile(fn, tree)(tree)

  def put(self, tree: Any) -> Any:
    """Lays out a tree of host values on the devices, replicated."""
    return jax.device_put(tree, self._replicated)

  place = put  # of arrays that the runner has handed over

  def get(self, tree: Any) -> Any:
    """One copy of a laid-out tree, on the host."""
    return tree_map(np.asarray, tree)

  def num_rows(self, batch: Any) -> int:
    """How many rows a laid-out array has, over all devices."""
    return math.prod(np.shape(batch)[: self._num_axes + 1])

  def shapes_of(self, tree: Any) -> Any:
    """Shape and dtype of laid-out arrays, without device axis."""
    shape_of = lambda x: jax.ShapeDtypeStruct(
      x.shape[self._num_axes :], x.dtype
    )
    return tree_map(shape_of, tree)

  def compile(
    self,
    fn: Callable[..., Any],  # what to run, the same on all devices
    tree: Any,  # of laid-out arrays, or of their shapes
    *hosts: Any,  # trees of jax.ShapeDtypeStruct
    donate: bool = False,  # whether the tree is donated
  ) -> Any:
    """Compiles fn(laid-out tree, *host values) before it is needed."""
    shapes = self.shapes_of(tree)
    jitted = jax.jit(
      fn,
      in_shardings=(self.layout(tree), *map(self.layout, hosts)),
      out_shardings=self.layout(jax.eval_shape(fn, shapes, *hosts)),
      donate_argnums=(0,) * donate,
    )
    return jitted.lower(shapes, *hosts).compile()


class PmapDevices(Devices):
  """Everything has a leading device axis (benchmark v0.5.0)."""

  _num_axes = 1

  def __init__(self) -> None:
    super().__init__()
    self._pmap = functools.partial(jax.pmap, axis_name=AXIS_NAME)
    self._identity = self._pmap(lambda tree: tree)

  def compile_step(self, body: Callable[..., Any]) -> Any:
    def step(*args: Any) -> Any:
      rng = jax.random.fold_in(args[-1], jax.lax.axis_index(AXIS_NAME))
      total = functools.partial(jax.lax.psum, axis_name=AXIS_NAME)
      return body(*args[:-1], rng, total)

    return self._pmap(
      step, in_axes=(0, 0, 0, 0, None), donate_argnums=(0, 1, 2)
    )

  def spread(
    self, fn: Callable[[jax.Array], jax.Array], stack: jax.Array
  ) -> jax.Array:
    padded = _padded(stack)
    size = len(padded) // jax.device_count()
    start = size * jax.lax.axis_index(AXIS_NAME)
    share = fn(jax.lax.dynamic_slice_in_dim(padded, start, size))
    return jax.lax.all_gather(share, AXIS_NAME, tiled=True)[: len(stack)]

  def put(self, tree: Any) -> Any:
    count = jax.local_device_count()
    stack = lambda x: np.broadcast_to(x, (count, *np.shape(x)))
    return self._identity(tree_map(stack, tree))

  def place(self, tree: Any) -> Any:
    # From jax 0.8 on, a pmap depends on the mesh of its inputs: one with
    # another axis name would make the step compile twice.
    stacked = self.put(np.int32(0)).sharding
    is_mesh = isinstance(stacked, NamedSharding)
    return jax.device_put(tree, stacked) if is_mesh else tree

  def get(self, tree: Any) -> Any:
    def first_copy(x: jax.Array) -> np.ndarray:
      return np.asarray(x.addressable_shards[0].data).reshape(x.shape[1:])

    return tree_map(first_copy, tree)

  def compile(
    self, fn: Callable[..., Any], tree: Any, *hosts: Any, donate: bool = False
  ) -> Any:
    in_axes = (0,) + (None,) * len(hosts)
    mapped = self._pmap(fn, in_axes=in_axes, donate_argnums=(0,) * donate)
    return mapped.lower(tree, *hosts).compile()


def _padded(stack: jax.Array) -> jax.Array:
  """The stack with zeros at its end, to a multiple of the number of devices."""
  missing = -len(stack) % jax.device_count()
  return jnp.pad(stack, [(0, missing)] + [(0, 0)] * (stack.ndim - 1))
