"""The thesis' runs as they are kept for its figures."""

import json
import zipfile

import numpy as np
import pytest

from helpers import log_files
from reset_cycles.console.errors import RunFailed
from reset_cycles.mini_algoperf import files
from reset_cycles.research.real_runner import cases, kept, logs
from reset_cycles.research.thesis import folders, registry
from reset_cycles.views.run_files import read_run


def test_a_kept_run_is_one_of_the_thesis_and_says_nothing_of_a_machine(
  tmp_path,
):
  """A run with its logs cut down is read as it was before."""
  trial = tmp_path / 'trial_1'
  log_files.write_log(
    trial, folders.Job('ogbg', 'peaks_soft', 12), step_hint=1000
  )
  for name, extra in (
    ('flags_0.json', {'workload': 'ogbg', 'data_dir': '/somewhere'}),
    ('meta_data_0.json', {'cpu_model_name': '/somewhere', 'rng_seed': 12}),
  ):
    values = {**files.read_json(trial / name), **extra}
    (trial / name).write_text(json.dumps(values))
  key = logs.RunKey('thesis_tox21', 'counted', 'thesis_peaks_soft', 12, 0.335)
  root = tmp_path / 'kept'
  kept.keep(trial, key, root)
  archive = kept.keep(trial, key._replace(seed=13), root)
  assert archive == root / 'ogbg_tox21_peaks_soft.zip'
  with zipfile.ZipFile(archive) as packed:
    for name in packed.namelist():
      assert b'/somewhere' not in packed.read(name)
  with folders.unpacked([root]) as roots:
    found = folders.find_logs(roots)
    assert [log.job for log in found] == [
      folders.Job('ogbg_tox21', 'peaks_soft', seed) for seed in (12, 13)
    ]
    shown, original = read_run(found[0].log_dir), read_run(trial)
    assert shown.resets == original.resets
    np.testing.assert_array_equal(shown.rates, original.rates)
    np.testing.assert_array_equal(shown.metric, original.metric)
    assert shown.target == original.target
  workloads = {kept.job_of(key._replace(data=n)).workload for n in cases.THESIS}
  assert workloads == set(registry.REAL_DATA)
  with pytest.raises(RunFailed, match='not the settings of peaks_full'):
    kept.keep(trial, key._replace(entry='thesis_peaks_full'), root)


def test_runs_of_the_thesis_to_its_target_by_the_counted_clock_are_kept():
  key = logs.RunKey('thesis_tox21', 'counted', 'thesis_peaks_soft', 12, 0.335)
  assert kept.is_kept(key)
  assert not kept.is_kept(key._replace(clock='real'))
  assert not kept.is_kept(key._replace(target=0.9))
  assert not kept.is_kept(key._replace(data='tox21'))


def test_the_log_and_the_archives_have_the_same_runs_of_the_thesis():
  wanted = {kept.job_of(key) for key in filter(kept.is_kept, logs.read())}
  with folders.unpacked([registry.LOGS]) as roots:
    jobs = {log.job for log in folders.find_logs(roots)}
  assert {job for job in jobs if job.workload in registry.REAL_DATA} == wanted
