"""One process with 8 devices, and two with 4 each: the same loop."""

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


def start(index, count, address, folder):
  return subprocess.Popen(
    [sys.executable, two_processes.__file__]
    + [str(index), str(count), address, str(folder)],
    env={
      **os.environ,
      'XLA_FLAGS': xla_flags(8 // count),
      'PYTHONPATH': python_path(),
    },
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
  )


def outcomes(count, folder):
  """What each process ended with: (what was said, arrays)."""
  folder.mkdir()
  with socket.socket() as free:
    free.bind(('localhost', 0))
    address = f'localhost:{free.getsockname()[1]}'
  processes = [start(i, count, address, folder) for i in range(count)]
  try:
    for process in processes:
      _, errors = process.communicate(timeout=300)
      assert process.returncode == 0, errors
  finally:
    for process in processes:
      process.kill()
  found = []
  for index in range(count):
    said = json.loads((folder / f'{index}.json').read_text())
    with np.load(folder / f'{index}.npz') as saved:
      found.append((said, [saved[name] for name in saved.files]))
  return found


def test_two_processes_give_the_loop_of_one(tmp_path):
  [(said, arrays)] = outcomes(1, tmp_path / 'one')
  (first, ours), (second, theirs) = outcomes(2, tmp_path / 'two')
  assert first == second == said
  assert any('SoftReset' in event for event in said)
  for one, other, expected in zip(ours, theirs, arrays):
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4)
