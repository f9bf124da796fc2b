"""Functions compiled for the devices ahead of time, once per kind of input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .devices import Devices


class CompiledOps:
  """Runs functions of laid-out trees and host values, compiled beforehand.

  Anything that has not been prepared is compiled when it is first run: some
  models change the shape of their batch statistics at the first step.

  Attributes:
    devices: how arrays lie on the devices.
  """

  def __init__(self, devices: Devices):
    self.devices = devices
    self._programs: dict[Any, Callable] = {}

  def prepare(
    self,
    fn: Callable,
    shapes: Any,
    *host_shapes: jax.ShapeDtypeStruct,
    donate: bool = False,
  ) -> Callable:
    """`Devices.compile` with these arguments, unless that is done already.

    Returns:
      The compiled function.
    """
    leaves, treedef = jax.tree_util.tree_flatten((shapes, host_shapes))
    kinds = tuple(
      (tuple(x.shape), str(x.dtype), getattr(x, 'sharding', None))
      for x in leaves
    )
    key = (fn, treedef, kinds, donate)
    if key not in self._programs:
      self._programs[key] = self.devices.compile(
        fn, shapes, *host_shapes, donate=donate
      )
    return self._programs[key]

  def run(
    self,
    fn: Callable,
    tree: Any,
    *host_values: np.ndarray | np.generic,
    donate: bool = False,
  ) -> Any:
    """fn(tree, *host_values) on all devices.

    Args:
      fn, donate: see `Devices.compile`.
      tree: laid-out arrays.
      host_values: NumPy arrays or numbers.

    Returns:
      What fn returns, laid out.
    """
    shapes = jax.tree_util.tree_map(self.devices.shape_of, tree)
    host_shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in host_values]
    compiled = self.prepare(fn, shapes, *host_shapes, donate=donate)
    return compiled(tree, *host_values)
