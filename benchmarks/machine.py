"""The versions and machine of a measurement, to be saved with it."""

from __future__ import annotations

import datetime as dt
import pathlib
import platform
import subprocess

import flax
import jax
import numpy as np
import optax


def commit() -> str:
  """The working tree's commit, with + if it has changes; '' outside of git."""
  found = [
    subprocess.run(
      ['git', '-C', str(pathlib.Path(__file__).parent), *command],
      capture_output=True,
      text=True,
    ).stdout.strip()
    for command in (['rev-parse', '--short', 'HEAD'], ['diff', '--shortstat'])
  ]
  return found[0] + ('+' if found[1] else '')


def versions() -> dict[str, str]:
  """Date, commit, device and versions, to save with the figures."""
  device = jax.devices()[0]
  return {
    'commit': commit(),
    'date': dt.date.today().isoformat(),
    'device': f'{device.platform}: {device.device_kind}',
    'machine': f'{platform.machine()}, {jax.device_count()} device(s)',
    'python': platform.python_version(),
    'jax': jax.__version__,
    'flax': flax.__version__,
    'optax': optax.__version__,
    'numpy': np.__version__,
  }
