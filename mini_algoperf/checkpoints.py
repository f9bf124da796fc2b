"""Checkpoints of a run: what is saved, and how it is restored.

The file format is flax's own (`flax.training.checkpoints` reads it), written
with `flax.serialization` alone. The format is the same on all versions of flax.
It restores the evaluations; orbax would have to know their number. Writing
takes a hundredth of orbax's time. As in the benchmark, only the first part of
`optimizer_state` is saved, and under pmap only the first device's copy. The
last entry of a file is the SHA-256 of all that stands before it.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import flax.jax_utils
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np

from . import files

# Trees that lie on the devices; everything else is plain values.
DEVICE_TREES = ('model_params', 'optimizer_state', 'model_state')
_DIGEST = 'sha256'
_DIGEST_SIZE = hashlib.sha256().digest_size


def checkpoint_paths(log_dir: pathlib.Path) -> list[pathlib.Path]:
  """Checkpoints of a trial, the newest first."""
  steps = {path.name[11:]: path for path in log_dir.glob('checkpoint_*')}
  numbers = filter(str.isdecimal, steps)
  return [steps[step] for step in sorted(numbers, key=int, reverse=True)]


def save(
  log_dir: pathlib.Path, state: Mapping[str, Any], generation: str
) -> pathlib.Path:
  """Writes `checkpoint_<global_step>` in the place of the one before.

  The state has values by name, among them global_step, DEVICE_TREES and
  eval_results.
  """
  host = jax.device_get(dict(state, eval_results=tuple(state['eval_results'])))
  if generation == 'pmap':
    for name in DEVICE_TREES:
      host[name] = jax.tree_util.tree_map(
        lambda x: np.asarray(x[0]), host[name]
      )
  # Msgpack keeps the order of a dict, and a text of bytes ends its entry.
  blank = {**host, _DIGEST: bytes(_DIGEST_SIZE)}
  content: bytes = flax.serialization.to_bytes(blank)[:-_DIGEST_SIZE]
  path = log_dir / f'checkpoint_{state["global_step"]}'
  files.write_whole(path, content + hashlib.sha256(content).digest())
  for older in checkpoint_paths(log_dir):
    if older != path:
      older.unlink()
  # Of a process that was killed while it wrote one of another step.
  for leftover in log_dir.glob('.checkpoint_*.tmp'):
    leftover.unlink(missing_ok=True)
  return path


def read_latest(log_dir: pathlib.Path) -> dict[str, Any] | None:
  """The newest checkpoint, as nested dicts; None without any.

  Raises:
    ValueError: if the newest checkpoint is damaged. A run that is killed does
      not damage it: a checkpoint is written whole or not at all.
  """
  paths = checkpoint_paths(log_dir)
  if not paths:
    return None
  data = files.read_bytes(paths[0])
  content, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
  if hashlib.sha256(content).digest() != digest:
    raise ValueError(
      f'{paths[0]} is damaged, or an older version wrote it: it has not the '
      'checksum of its data'
    )
  state: dict[str, Any] = flax.serialization.msgpack_restore(data)
  del state[_DIGEST]
  return state


def restore(
  raw: Mapping[str, Any], template: Mapping[str, Any], generation: str
) -> dict[str, Any]:
  """Gives a checkpoint the types and devices of a run that was set up anew.

  Raises:
    ValueError: if the checkpoint is that of another model or optimizer.
  """
  state = dict(raw)
  for name in DEVICE_TREES:
    state[name] = _restore_tree(name, raw[name], template[name], generation)
  # Flax has a list as {'0': {'0': step, '1': metrics}, ...}. The benchmark
  # swaps and misnames the parts here (v0.5.0) or loses them (main).
  saved: dict[str, Any] = raw['eval_results']
  state['eval_results'] = [
    (int(saved[key]['0']), dict(saved[key]['1']))
    for key in sorted(saved, key=int)
  ]
  return state


def _restore_tree(name: str, raw: Any, template: Any, generation: str) -> Any:
  # flax by itself passes over entries that the template has no place for.
  entries = flax.serialization.to_state_dict(template)
  if len(set(map(jax.tree_util.tree_structure, (entries, raw)))) > 1:
    raise ValueError(
      f'checkpoint: {name} has other entries than those of this submission and '
      'workload; resume with those of the first run.'
    )
  tree = flax.serialization.from_state_dict(template, raw, name)
  if generation == 'pmap':
    tree = flax.jax_utils.replicate(tree)
  else:
    tree = jax.tree_util.tree_map(_place_like, template, tree)
  expected, shapes = (
    [np.shape(leaf) for leaf in jax.tree_util.tree_leaves(of)]
    for of in (template, tree)
  )
  if expected != shapes:
    raise ValueError(
      f'checkpoint: {name} has arrays of shape {shapes}, but this submission '
      f'and workload have {expected}; resume with those of the first run.'
    )
  return tree


def _place_like(template: Any, value: Any) -> Any:
  if not isinstance(template, jax.Array):
    return value
  if len(template.sharding.device_set) > 1:
    return jax.device_put(value, template.sharding)
  # Not bound to its device, so that a step over several devices may move it.
  return jnp.asarray(value)
