"""main's submission_runner.py on WMT made smaller, as `real_runner` does it."""

import math
import pathlib
import shutil

import pytest

import real_benchmark
from reset_cycles.research.real_runner import cases, run

pytestmark = real_benchmark.MARKS


@pytest.mark.parametrize('settings', ['soft_reset', 'thesis', 'muon'])
def test_a_step_and_its_evaluation(tmp_path, settings, monkeypatch):
  """At the start a model says of its sentences nearly nothing."""
  package, root = real_benchmark.package_and_root()
  if package != 'algoperf':
    pytest.skip("real_runner is for main's runner")
  exported = real_benchmark.export(tmp_path / 'exported', settings)
  entries = tmp_path / 'entries'
  shutil.copytree(tmp_path / 'exported' / exported.parent, entries / settings)
  study = run.Study(
    benchmark=root,
    entries=entries,
    out=tmp_path,
    data=['sentences'],
    folders={'sentences': pathlib.Path()},
    seeds=[1],
    clock='counted',
    target=100.0,
    set_up=True,
  )
  # One CPU, as the study has it.
  monkeypatch.delenv('XLA_FLAGS', raising=False)
  monkeypatch.delenv('JAX_NUM_CPU_DEVICES', raising=False)
  (which,) = run.runs_of(study, settings)
  run.run_entry(study, [which])
  trial = tmp_path / '_'.join(map(str, which)) / 'wmt_jax' / 'trial_1'
  (point,) = run.points_of(trial, 'bleu')
  assert point.step == 1
  # The loss of a guess among all tokens, and a bit for the weights' size.
  size = cases.CASES['sentences'].model['vocab_size']
  assert math.log(size) - 1 < point.loss < math.log(size) + 2
  assert 0 <= point.metric < 5
