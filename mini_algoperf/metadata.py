"""What a run was made with: libraries, devices, seed and workload."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
from typing import Any

import jax

from . import files, spec

_LIBRARIES = ('flax', 'jax', 'jaxlib', 'numpy', 'optax')
# Trees, and known only after the model's initialisation.
_NOT_PROPERTIES = ('param_shapes', 'model_params_types')


def workload_properties(workload: spec.Workload) -> dict[str, Any]:
  """Numbers and texts among a workload's public attributes."""
  properties = {}
  for name in dir(workload):
    if name.startswith('_') or name in _NOT_PROPERTIES:
      continue
    try:
      value = getattr(workload, name)
    except NotImplementedError:  # as OGBG's train_mean
      continue
    if isinstance(value, (bool, int, float, str)):
      properties[f'workload.{name}'] = value
  return properties


def make_meta_data(workload: spec.Workload, rng_seed: int) -> dict[str, Any]:
  """Everything that meta_data_<n>.json holds.

  No host name, user name or address is among it: folders of runs are shared.
  """
  devices = jax.local_devices()
  return {
    **workload_properties(workload),
    'rng_seed': rng_seed,
    'os_platform': platform.platform(),
    **{f'{name}_version': version for name, version in versions().items()},
    'device_platform': devices[0].platform,
    'device_kind': devices[0].device_kind,
    'device_count': len(devices),
    'cpu_count': os.cpu_count(),
  }


def versions() -> dict[str, str]:
  """Python's version, and those of the libraries that compute."""
  found = {name: importlib.metadata.version(name) for name in _LIBRARIES}
  return {'python': platform.python_version(), **found}


def meta_data_path(
  log_dir: pathlib.Path, preemption_count: int = 0
) -> pathlib.Path:
  """The file of a run's meta data; each resumption writes its own."""
  return log_dir / f'meta_data_{preemption_count}.json'


def recorded_seed(log_dir: pathlib.Path) -> int | None:
  """The seed that a trial was started with; None if it never was.

  Raises:
    ValueError: if the file of its meta data has none.
  """
  path = meta_data_path(log_dir)
  if not path.exists():
    return None
  meta = files.read_json(path)
  if 'rng_seed' not in meta:
    raise ValueError(f'{path}: has no rng_seed, so nothing can be resumed.')
  return int(meta['rng_seed'])
