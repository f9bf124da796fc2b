"""The meta data of a run: libraries, devices, seed and workload."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
from typing import Any

import jax

from . import spec

_LIBRARIES = ('flax', 'jax', 'jaxlib', 'numpy', 'optax')
# Trees, and known only after the model's initialisation.
_NOT_PROPERTIES = ('param_shapes', 'model_params_types')


def make_meta_data(workload: spec.Workload, rng_seed: int) -> dict[str, Any]:
  """Everything that meta_data_<n>.json holds.

  Of the workload: numbers and texts among its public attributes. Folders of
  runs are shared, so no host name, user name or address is in it.
  """
  properties = {}
  for name in dir(workload):
    if name.startswith('_') or name in _NOT_PROPERTIES:
      continue
    value = getattr(workload, name)
    if isinstance(value, (bool, int, float, str)):
      properties[f'workload.{name}'] = value
  devices = jax.local_devices()
  return {
    **properties,
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
  libraries = {name: importlib.metadata.version(name) for name in _LIBRARIES}
  return {'python': platform.python_version(), **libraries}


def meta_data_path(
  log_dir: pathlib.Path, preemption_count: int = 0
) -> pathlib.Path:
  """The file of a run's meta data; each resumption writes its own."""
  return log_dir / f'meta_data_{preemption_count}.json'
