"""A workload asks for the packages that it uses, and for no other's."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np

from reset_cycles.mini_algoperf import targets, workloads
from run_files import python_path

OWN = {
  'digits': ['sklearn'],
  'molecules': ['sklearn', 'scipy'],
  'translation': ['sacrebleu'],
  'text': [],
}
# As where they are not installed; scipy comes with jax.
CODE = """
import sys
sys.modules['sacrebleu'] = sys.modules['sklearn'] = None
from reset_cycles.mini_algoperf import experiment, targets, workloads
for name in workloads.WORKLOADS:
  try:
    workloads.get_workload(name)
  except ModuleNotFoundError as e:
    print(name, e.name)
"""


def test_each_is_there_for_its_own_workload_alone():
  assert list(OWN) == list(workloads.WORKLOADS)
  for name, packages in OWN.items():
    assert list(workloads.WORKLOADS[name].packages) == packages


def test_importing_the_workloads_needs_none_and_making_one_its_own():
  done = subprocess.run(
    [sys.executable, '-c', CODE],
    env={**os.environ, 'PYTHONPATH': python_path()},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.stdout.splitlines() == [
    'digits sklearn',
    'molecules sklearn',
    'translation sacrebleu',
  ], done.stderr


def test_digits_do_without_sacrebleu(monkeypatch):
  for module in [m for m in sys.modules if m.split('.')[0] == 'sacrebleu']:
    monkeypatch.setitem(sys.modules, module, None)
  monkeypatch.setitem(sys.modules, 'sacrebleu', None)
  workload = workloads.get_workload('digits')
  key = jax.random.PRNGKey(0)
  batch = next(workload._build_input_queue(key, 'train', None, 8))
  assert batch['inputs'].shape == (8, 8, 8, 1)
  outputs = {name: np.ones(4) for name in ('loss', 'error_rate', 'weights')}
  assert workload._metrics(outputs) == {'loss': 1.0, 'error_rate': 1.0}
  assert list(targets._versions(workload)) == [
    'flax',
    'jax',
    'jaxlib',
    'numpy',
    'optax',
    'scikit-learn',
  ]
