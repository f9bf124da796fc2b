"""1 device and 8, pmap and jit: the same runs."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from helpers import one_device
from helpers.run_files import python_path
from helpers.runs import GENERATIONS


@pytest.fixture(scope='module')
def on_one(tmp_path_factory):
  """(generation, case) -> what a process with one device ends with."""
  folder = tmp_path_factory.mktemp('one')
  flags = {'XLA_FLAGS': '--xla_force_host_platform_device_count=1'}
  env = {**os.environ, **flags, 'PYTHONPATH': python_path()}
  command = [sys.executable, one_device.__file__, str(folder)]
  subprocess.run(command, env=env, check=True)
  found = {}
  for generation in GENERATIONS:
    for case in one_device.CASES:
      with np.load(folder / f'{generation} {case}.npz') as saved:
        found[generation, case] = [saved[name] for name in saved.files]
  return found


@pytest.mark.parametrize('case', one_device.CASES)
def test_one_device_and_eight_jit_and_pmap(case, on_one):
  """Equal up to the order of summation, which Adam can blow up.

  An entry with a tiny gradient moves by about the learning rate whatever the
  gradient's size. 40 steps at most 0.014 apart make 0.5, and 1 % of a step of
  each is allowed.
  """
  assert jax.device_count() == 8
  runs = [on_one[generation, case] for generation in GENERATIONS]
  runs += [one_device.train(case, generation) for generation in GENERATIONS]
  for other in runs[1:]:
    np.testing.assert_array_equal(other[0], runs[0][0])
    for leaf, expected in zip(other[1:], runs[0][1:]):
      np.testing.assert_allclose(leaf, expected, rtol=1e-3, atol=2e-3)
