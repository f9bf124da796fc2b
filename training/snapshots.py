"""Models kept on the host: paused ones, and the best evaluated one.

A snapshot has parameters, batch statistics and the whole optimizer state, but
not the clock. It is restored leaf by leaf with an operation of resets, a blend
that takes all of the new values: nothing is compiled, and besides the model
only one leaf at a time is on the devices. Checkpoints do not contain snapshots,
so a preemption loses them.
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

BEST = -1  # key of the best evaluated model; paused ones have their slot's


class Kept(NamedTuple):
  """A model on the host."""

  cycle: int  # index of the setting that trained it
  model: Model  # NumPy arrays; opt_state is the optimizer's, without the clock


def are_needed(rules: Rules) -> bool:
  """Whether a cycle may start from a model on the host."""
  return rules.keeps_best or not rules.policy.follows_chain


def take(model: Model, devices: Devices) -> Model:
  """A copy on the host; leaves without device axis.

  Args:
    model: laid out on the devices; it is not changed.
    devices: its layout.
  """
  # If devices share the host's memory, what `get` returns may be the very
  # buffer that the next step writes to.
  return jax.tree_util.tree_map(np.array, devices.get(model))


def prepare(model: Model, ops: CompiledOps) -> None:
  """Compiles what `restore` runs, before training.

  Args:
    model: tree of jax.ShapeDtypeStruct, without device axis.
    ops: gets the compiled operations.
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
  """The model of a snapshot, in the layout of `model`, which is donated.

  Args:
    model: laid out on the devices, with the snapshot's shapes.
    snapshot: as returned by `take`.
    ops: see `prepare`.

  Raises:
    RuntimeError: if the structures differ, or the result is not the snapshot.
  """
  leaves, treedef = jax.tree_util.tree_flatten(model)
  kept, kept_treedef = jax.tree_util.tree_flatten(snapshot)
  if treedef != kept_treedef:
    raise RuntimeError("A snapshot's structure differs from the model's.")
  for i, value in enumerate(kept):
    leaves[i] = ops.run(blend, leaves[i], value, np.float32(1), donate=True)
    # Waiting keeps the new leaves from piling up on the devices.
    leaves[i].block_until_ready()
  found: list[Any] = jax.device_get(ops.run(reset_checks.sample_all, leaves))
  for value, new in zip(kept, found):
    expected = np.broadcast_to(reset_checks.sample(value), new.shape)
    if not np.array_equal(new, expected, equal_nan=True):
      raise RuntimeError('A restored snapshot differs from what was taken.')
  return jax.tree_util.tree_unflatten(treedef, leaves)
