"""What a run asks of the benchmark's process, and what it reads of it."""

import dataclasses
import math
import pathlib
import sys

import pytest

from reset_cycles.research.real_runner import cases, kept, logs, patched, run
from reset_cycles.research.thesis import registry

STUDY = run.Study(
  benchmark=pathlib.Path('there'),
  entries=pathlib.Path('here'),
  out=pathlib.Path('out'),
  data=('fashion', 'digits'),
  folders={'digits': pathlib.Path('images')},
  seeds=(1, 2),
  clock='real',
  target=None,
  set_up=False,
)


def test_a_job_says_what_is_changed_of_the_benchmark():
  job = run.job_of(
    STUDY, logs.RunKey('digits', 'counted', 'published_muon', 3, 0.89)
  )
  assert job['properties'] == {
    'validation_target_value': 0.89,
    'test_target_value': 0.0,
    'eval_period_time_sec': 1.5,
  }
  assert job['seconds_per_step'] == 60 / 7813
  assert '--rng_seed=3' in job['flags']
  assert job['data_dir'] == 'out/data/digits'
  assert patched.Job(**job).data == ['digits', 'images']
  assert patched.Job(**job).model == {}
  job = run.job_of(
    STUDY, logs.RunKey('digits', 'real', 'published_muon', 3, 0.89)
  )
  assert job['seconds_per_step'] is None
  assert 'eval_period_time_sec' not in job['properties']


def test_a_run_that_stands_still_ends_an_evaluation_later():
  """Rates of 0 from step_hint, 1,000 or 500, on; then at most 25 steps."""
  there = dict.fromkeys(cases.REAL, pathlib.Path('there'))
  study = dataclasses.replace(STUDY, folders=there)
  for entry, flags in (
    ('published_muon', ['--max_global_steps=1026']),
    ('nadamw_baselinev05', ['--max_global_steps=1026']),
    ('MUON', []),
  ):
    for name in cases.LARGER:
      target = cases.CASES[name].target
      larger = logs.RunKey(name, 'counted', entry, 3, target)
      job = run.job_of(study, larger)
      expected = ['--max_global_steps=526'] if flags else []
      assert [f for f in job['flags'] if 'global' in f] == expected
    run_of = logs.RunKey('multi30k', 'counted', entry, 3, 10.9)
    job = run.job_of(study, run_of)
    assert [f for f in job['flags'] if 'global' in f] == flags
    timed = run.job_of(study, run_of._replace(clock='real'))
    assert timed['properties']['max_allowed_runtime_sec'] == 200
    assert not [f for f in timed['flags'] if 'global' in f]
  job = run.job_of(dataclasses.replace(study, set_up=True), run_of)
  assert [f for f in job['flags'] if 'global' in f] == ['--max_global_steps=1']


@pytest.mark.parametrize('name', cases.THESIS)
def test_a_run_of_the_thesis_takes_twice_the_step_hint(name):
  """1.5 times the runtime is the self-tuning budget; no target ends a run."""
  of_data = cases.data_of(name)
  study = dataclasses.replace(STUDY, folders={of_data: pathlib.Path('there')})
  case = cases.CASES[name]
  run_of = logs.RunKey(name, 'counted', 'thesis_peaks_soft', 3, case.target)
  job = patched.Job(**run.job_of(study, run_of))
  runtime = 1.5 * job.properties['max_allowed_runtime_sec']
  assert runtime / job.seconds_per_step == pytest.approx(2 * case.step_hint)
  every = job.properties['eval_period_time_sec'] / job.seconds_per_step
  assert every == pytest.approx(40)
  assert job.properties['test_target_value'] == math.inf
  assert job.properties['step_hint'] == case.step_hint
  # All else is that of the same data.
  real = cases.CASES[cases.THESIS[name]]
  assert case.model == real.model
  assert case.target == real.target
  assert job.data == [of_data, 'there']
  assert job.data_dir == f'out/data/{of_data}'


def test_where_less_is_better_a_test_target_is_reached_above_all():
  folders = {'spoken_conformer': pathlib.Path('recordings')}
  job = run.job_of(
    dataclasses.replace(STUDY, folders=folders),
    logs.RunKey('spoken_conformer', 'counted', 'MUON', 3, 0.0),
  )
  assert job['properties']['test_target_value'] == math.inf
  assert job['properties']['eval_period_time_sec'] == 6


def test_runs_have_the_target_of_their_data_or_the_one_given():
  assert run.runs_of(STUDY, 'published_muon') == [
    logs.RunKey('fashion', 'real', 'published_muon', 1, 0.873),
    logs.RunKey('digits', 'real', 'published_muon', 1, 0.89),
    logs.RunKey('fashion', 'real', 'published_muon', 2, 0.873),
    logs.RunKey('digits', 'real', 'published_muon', 2, 0.89),
  ]
  other = dataclasses.replace(STUDY, target=0.0)
  assert {r.target for r in run.runs_of(other, 'published_muon')} == {0.0}


def test_what_the_benchmark_wrote_is_read(tmp_path):
  (tmp_path / 'eval_measurements.csv').write_text(
    'global_step,score,validation/loss,validation/accuracy,test/accuracy\n'
    '1,0.5,2.25,0.25,0.125\n9,4.5,1.0,0.75,0.5\n'
  )
  found = run.points_of(tmp_path, 'accuracy')
  assert found == [
    logs.Point(1, 0.5, 2.25, 0.25, 0.125),
    logs.Point(9, 4.5, 1.0, 0.75, 0.5),
  ]
  (tmp_path / 'eval_measurements.csv').write_text(
    'global_step,score,validation/ctc_loss,validation/wer\n1,0.5,2.25,0.25\n'
  )
  (point,) = run.points_of(tmp_path, 'wer')
  assert point[:4] == found[0][:4]
  assert math.isnan(point.test)


def test_a_finished_run_of_the_thesis_is_logged_and_kept(tmp_path, monkeypatch):
  """The process that trains is a program that says that run 0 is done."""
  key = logs.RunKey('thesis_tox21', 'counted', 'thesis_peaks_soft', 12, 0.335)
  study = dataclasses.replace(
    STUDY,
    out=tmp_path,
    clock='counted',
    folders={'tox21': pathlib.Path('there')},
  )
  trial = tmp_path / '_'.join(map(str, key)) / 'ogbg_jax' / 'trial_1'
  points = [logs.Point(1, 0.5, 2.25, 0.25, 0.125)]
  done = []
  monkeypatch.setattr(
    run, 'points_of', lambda *place: done.append(place) or points
  )
  monkeypatch.setattr(kept, 'keep', lambda *args: done.append(args))
  monkeypatch.setattr(logs, 'append', lambda *args: done.append(args))
  popen = run.subprocess.Popen
  monkeypatch.setattr(
    run.subprocess,
    'Popen',
    lambda command, **kwargs: popen(
      [sys.executable, '-c', 'print("0")'], **kwargs
    ),
  )
  run.run_entry(study, [key])
  assert done == [
    (trial, 'mean_average_precision'),
    (trial, key, registry.LOGS),
    (logs.FILE, key, points),
  ]
  # A run that ends at a target is logged alone.
  done.clear()
  run.run_entry(study, [key._replace(data='tox21', entry='MUON')])
  assert len(done) == 2


def test_set_up_is_read_from_the_profilers_report():
  report = """\
|  Action                \t|  Mean Duration (s)\t|  Std Duration (s)\t|
|  Update parameters     \t|  80.968         \t|  0.0            \t|
|  Initializing model    \t|  29.749         \t|  0.0            \t|
|  Initializing optimizer\t|  1.2786         \t|  0.0            \t|
"""
  assert run.set_up_of(f'I1123 started | running\n{report}') == (
    'Initializing model 29.749 s, Initializing optimizer 1.2786 s, '
    'Update parameters 80.968 s'
  )
