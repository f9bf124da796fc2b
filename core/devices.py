"""How arrays are laid out on the devices, in both benchmark generations.

`Devices` runs functions under `jax.jit` (current): the batch is sharded and the
rest replicated. `PmapDevices` runs them under `jax.pmap`, with a leading device
axis on everything (2024, v0.5.0).
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

  def __init__(self) -> None:
    mesh = Mesh(np.asarray(jax.devices()), (AXIS_NAME,))
    self._replicated = NamedSharding(mesh, PartitionSpec())
    self._split = NamedSharding(mesh, PartitionSpec(AXIS_NAME))

  def layout(self, tree: Any) -> Any:
    """The sharding of every leaf of a tree of anything with a shape."""
    return jax.tree_util.tree_map(lambda _: self._replicated, tree)

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
      return body(params, model_state, opt_state, batch, rng, lambda t: t)

    same = self._replicated
    return jax.jit(
      step,
      in_shardings=(same, same, same, self._split, same),
      out_shardings=same,
      donate_argnums=(0, 1, 2),
    )

  def init(self, fn: Callable[[Any], Any], tree: Any) -> Any:
    """fn(tree) of a laid-out tree; the result is laid out."""
    layout = self.layout(jax.eval_shape(fn, tree))
    return jax.jit(fn, out_shardings=layout)(tree)

  def put(self, tree: Any) -> Any:
    """Lays out a tree of host values on the devices, replicated."""
    return jax.device_put(tree, self._replicated)

  def place(self, tree: Any) -> Any:
    """Lays out a tree of arrays that the runner has handed over."""
    return jax.device_put(tree, self.layout(tree))

  def get(self, tree: Any) -> Any:
    """One copy of a laid-out tree, on the host."""
    return jax.tree_util.tree_map(np.asarray, tree)

  def shapes_of(self, tree: Any) -> Any:
    """Shape and dtype of laid-out arrays, without device axis."""
    return jax.tree_util.tree_map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree
    )

  def compile(
    self, fn: Callable[..., Any], tree: Any, *hosts: Any, donate: bool = False
  ) -> Callable[..., Any]:
    """Compiles fn(laid-out tree, *host values) before it is needed.

    Args:
      fn: what to run, the same on all devices.
      tree: of laid-out arrays, or their shapes if there is no device axis.
      hosts: trees of jax.ShapeDtypeStruct for the host values.
      donate: whether the tree is donated.
    """
    shapes = self.shapes_of(tree)
    out = self.layout(jax.eval_shape(fn, shapes, *hosts))
    jitted = jax.jit(
      fn,
      in_shardings=(self.layout(tree), *map(self.layout, hosts)),
      out_shardings=out,
      donate_argnums=(0,) if donate else (),
    )
    return jitted.lower(shapes, *hosts).compile()


class PmapDevices(Devices):
  """Everything has a leading device axis (benchmark v0.5.0)."""

  def __init__(self) -> None:
    super().__init__()
    self._count = jax.local_device_count()
    self._identity = jax.pmap(lambda tree: tree, axis_name=AXIS_NAME)
    self._stacked: Sharding | None = None

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
    if self._stacked is None:
      self._stacked = self.put(np.int32(0)).sharding
    if isinstance(self._stacked, NamedSharding):
      return jax.device_put(tree, self._stacked)
    return tree

  def get(self, tree: Any) -> Any:
    """See `Devices`."""

    def first_copy(x: jax.Array) -> np.ndarray:
      return np.asarray(x.addressable_shards[0].data).reshape(x.shape[1:])

    return jax.tree_util.tree_map(first_copy, tree)

  def shapes_of(self, tree: Any) -> Any:
    """See `Devices`."""
    return jax.tree_util.tree_map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), tree
    )

  def compile(
    self, fn: Callable[..., Any], tree: Any, *hosts: Any, donate: bool = False
  ) -> Callable[..., Any]:
    """See `Devices`."""
    mapped = jax.pmap(
      fn,
      axis_name=AXIS_NAME,
      in_axes=(0,) + (None,) * len(hosts),
      donate_argnums=(0,) if donate else (),
    )
    return mapped.lower(tree, *hosts).compile()
