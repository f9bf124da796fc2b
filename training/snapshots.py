"""Models kept on the host: those that are paused, and the best evaluated one.

A snapshot is parameters, batch statistics and the whole optimizer state, without
the clock. It is put back leaf by leaf with the operations of a reset, a blend
that takes all of the new values: nothing is compiled, and beside the model one
leaf at a time is on the devices. No checkpoint has them: a preemption loses them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ..control.rules import Rules
from ..soft_reset import blend
from . import reset_checks
from .compiled_ops import CompiledOps
from .devices import Devices
from .resetting import Model

BEST = -1  # the key of the best evaluated model; others have their slot's


class Kept(NamedTuple):
  """A model on the host."""

  cycle: int  # index of the setting that has trained it
  model: Model  # NumPy arrays; opt_state is the optimizer's, without the clock


def are_needed(rules: Rules) -> bool:
  """Whether a cycle may start from a model on the host."""
  return rules.keeps_best or not rules.policy.follows_chain


def take(model: Model, devices: Devices) -> Model:
  """A copy on the host; leaves without device axis.

  Args:
    model: laid out on the devices; stays as it is.
    devices: how it lies there.
  """
  # Where devices share the host's memory, what `get` returns may be the very
  # buffer that the next step is to write to.
  return jax.tree_util.tree_map(np.array, devices.get(model))


def prepare(model: Model, ops: CompiledOps) -> None:
  """Compiles what `restore` runs, before training.

  Args:
    model: tree of jax.ShapeDtypeStruct, without device axis.
    ops: takes the operations in.
  """
  share = jax.ShapeDtypeStruct((), np.float32)
  leaves = jax.tree_util.tree_leaves(model)
  for leaf in leaves:
    shape = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    ops.prepare(blend, shape, shape, share, donate=True)
  ops.prepare(
    reset_checks.sample_all,
    [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves],
  )


def restore(model: Model, snapshot: Model, ops: CompiledOps) -> Model:
  """The model of a snapshot, laid out as another one, which is donated.

  Args:
    model: laid out on the devices, of the snapshot's shapes.
    snapshot: of `take`.
    ops: see `prepare`.

  Raises:
    RuntimeError: if the result is not the snapshot, or has other shapes.
  """
  leaves, treedef = jax.tree_util.tree_flatten(model)
  kept, kept_treedef = jax.tree_util.tree_flatten(snapshot)
  if treedef != kept_treedef:
    raise RuntimeError('A snapshot is of a model with another structure.')
  for i, value in enumerate(kept):
    leaves[i] = ops.run(blend, leaves[i], value, np.float32(1), donate=True)
    # Waiting keeps the new leaves from piling up on the devices.
    leaves[i].block_until_ready()
  found: list[Any] = jax.device_get(ops.run(reset_checks.sample_all, leaves))
  for value, new in zip(kept, found):
    expected = np.broadcast_to(reset_checks.sample(value), new.shape)
    if not np.array_equal(new, expected, equal_nan=True):
      raise RuntimeError('A snapshot was not put back as it was taken.')
  return jax.tree_util.tree_unflatten(treedef, leaves)
