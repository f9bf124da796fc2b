"""The script that times steps in the benchmark's own loop, for a few steps."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import real_benchmark
import reset_cycles

pytestmark = [
  pytest.mark.algoperf,
  pytest.mark.filterwarnings('default'),
]
ROOT = pathlib.Path(reset_cycles.__file__).parent


def test_a_step_of_ours_and_one_of_the_baselines(tmp_path):
  package, _ = real_benchmark.package_and_root()
  if real_benchmark.is_current():
    pytest.skip(
      'its baseline cannot take a step: it asks a dict for attributes'
    )
  if not (ROOT / 'benchmarks').is_dir():
    pytest.skip('installed without benchmarks/')
  out = tmp_path / 'cost.json'
  script = ROOT / 'benchmarks' / 'runner_cost.py'
  subprocess.run(
    [sys.executable, script, '--pairs=3', '--blocks=1', f'--out={out}'],
    env={k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'},
    check=True,
  )
  found = json.loads(out.read_text())
  assert found['versions']['package'] == package
  assert found['figures']['ratio, median of blocks'] > 0
