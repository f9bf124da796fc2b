"""The script for a GPU, tried out with tiny models."""

from __future__ import annotations

import json
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
  command = [sys.executable, SCRIPT, '--small', '--seconds=2', f'--out={out}']
  subprocess.run(command, check=True, cwd=tmp_path)
  figures = json.loads(out.read_text())
  assert figures['versions']['jax'] == jax.__version__
  for name in ('graphs', 'sentences'):
    assert figures[name]['ratio of step times']['count'] == 10
    assert len(figures[name]['reset and the step after it, ms']) == 2
