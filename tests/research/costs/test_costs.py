"""The script that measures costs, on a small model; nobody looks at the times."""

import json
import os
import subprocess
import sys

import jax
import pytest

from helpers.run_files import xla_flags
from reset_cycles.research.costs.__main__ import costs
from reset_cycles.research.costs.models import MODELS

newer = pytest.mark.skipif(
  jax.__version_info__ < (0, 10), reason='the script is for newer versions'
)
# Nearly all of the time is for compiling.
ENV = {
  **os.environ,
  'JAX_DISABLE_MOST_OPTIMIZATIONS': '1',
  'XLA_FLAGS': xla_flags(num_devices=1),
}


@newer
def test_every_figure_of_every_run(tmp_path):
  out = tmp_path / 'costs.json'
  command = [sys.executable, '-m', 'reset_cycles.research.costs']
  command += ['--models=1e5_in_8', f'--out={out}', '--pairs=3', '--rounds=1']
  subprocess.run(command, check=True, cwd=tmp_path, env=ENV)
  found = json.loads(out.read_text())['figures']['1e5_in_8']
  assert list(found) == ['optax', 'THESIS', 'SOFT_RESET']
  for run in found.values():
    assert run['compilations after the first step'] == [0]
    assert run['step, ms'][0] > 0
  assert found['optax']['step, ratio to optax'] == [1]
  # Two moments, or z and one moment.
  for run in found.values():
    assert run['state, in models'][0] == pytest.approx(2, abs=0.01)
  assert len(found['THESIS']['reset, ms']) == 1


@newer
def test_the_plan_of_memory(monkeypatch, capsys):
  """400 kB of parameters; 1.2 MB with two moments, or z and one.

  A reset is given a fresh model as well.
  """
  # The command sets eight devices, which this session has.
  monkeypatch.setenv('XLA_FLAGS', os.environ['XLA_FLAGS'])
  costs(['--memory=1e5_in_8'], standalone_mode=False)
  rows = capsys.readouterr().out.splitlines()[2:]
  assert len(rows) == 6
  for row in rows:
    held, step, most, reset, most_of_reset = map(float, row.split('|')[2:-1])
    assert held == 4e-4
    assert step == pytest.approx(12e-4, rel=0.01) and most > step
    assert reset == pytest.approx(16e-4, rel=0.01)
    assert most_of_reset >= reset


@pytest.mark.parametrize(
  ('name', 'shape'),
  [('clicks', (262_144, 2)), ('sentences', (128, 256, 32_000))],
)
def test_the_logits_of_models_for_a_gpu(key, name, shape):
  workload = MODELS[name]()
  params = jax.eval_shape(lambda key: workload.init_model_fn(key)[0], key)
  logits, _ = jax.eval_shape(
    lambda params: workload.model_fn(
      params, workload.batch, None, 0, None, update_batch_norm=True
    ),
    params,
  )
  assert logits.shape == shape
