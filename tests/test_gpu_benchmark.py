"""The script for a GPU, tried out with tiny models."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import jax
import pytest

SCRIPT = pathlib.Path(__file__).parents[1] / 'benchmarks' / 'gpu.py'


@pytest.mark.skipif(
  jax.__version_info__ < (0, 10), reason='the script is for newer versions'
)
def test_it_measures_both_models(tmp_path):
  out = tmp_path / 'gpu.json'
  command = [sys.executable, SCRIPT, '--small', '--seconds=0', f'--out={out}']
  # Nearly all of the time is for compiling; nobody looks at the figures.
  quick = {'JAX_DISABLE_MOST_OPTIMIZATIONS': '1', 'XLA_FLAGS': ''}
  env = {**os.environ, **quick}
  subprocess.run(command, check=True, cwd=tmp_path, env=env)
  figures = json.loads(out.read_text())
  assert figures['versions']['jax'] == jax.__version__
  for name in ('graphs', 'sentences'):
    assert figures[name]['ratio of step times']['count'] == 10
    assert len(figures[name]['reset and the step after it, ms']) == 2
