"""This process with 8 devices, and two with 4 each: the same loop."""

import json
import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from helpers import two_processes
from helpers.run_files import python_path, xla_flags

pytestmark = pytest.mark.skipif(
  jax.__version_info__ < (0, 8),
  reason='collectives between processes on CPUs: the newest stack has them',
)


def start(index, address, folder):
  return subprocess.Popen(
    [sys.executable, two_processes.__file__, str(index), address, str(folder)],
    env={
      **os.environ,
      'XLA_FLAGS': xla_flags(num_devices=4),
      'PYTHONPATH': python_path(),
      'JAX_DISABLE_MOST_OPTIMIZATIONS': '1',  # compiling takes the longest
    },
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
  )


def outcomes(folder):
  """What each of two processes ended with: (what was said, arrays)."""
  with socket.socket() as free:
    free.bind(('localhost', 0))
    address = f'localhost:{free.getsockname()[1]}'
  processes = [start(i, address, folder) for i in range(2)]
  try:
    for process in processes:
      _, errors = process.communicate(timeout=300)
      assert process.returncode == 0, errors
  finally:
    for process in processes:
      process.kill()
  found = []
  for index in range(2):
    said = json.loads((folder / f'{index}.json').read_text())
    with np.load(folder / f'{index}.npz') as saved:
      found.append((said, [saved[name] for name in saved.files]))
  return found


def test_two_processes_give_the_loop_of_one(tmp_path):
  assert jax.device_count() == 8
  said, state = two_processes.train_loop()
  (first, ours), (second, theirs) = outcomes(tmp_path)
  assert first == second == said
  assert any('SoftReset' in event for event in said)
  arrays = jax.tree_util.tree_leaves(state)
  for one, other, expected in zip(ours, theirs, arrays, strict=True):
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4)
