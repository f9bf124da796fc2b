"""A study's runs: clock, logs, and what becomes of those that break."""

import dataclasses

import pytest

from helpers.fakes import write_package
from helpers.run_files import read_csv
from reset_cycles.console.errors import RunFailed, SetupError
from reset_cycles.mini_algoperf import files
from reset_cycles.research.board import entries, stand_in, study
from reset_cycles.research.board.conditions import CONDITIONS
from reset_cycles.research.board.entries import Contender
from reset_cycles.research.board.study import StudyRun
from reset_cycles.schedule_params import MUON

# Ten steps, and what a submission writes down of what it is told.
SUBMISSION = """\
def init_optimizer_state(*unused):
  return (), None

def update_params(*, global_step, **given):
  {body}
  names = 'optimizer_state', 'current_param_container', 'model_state'
  return tuple(given[name] for name in names)

def data_selection(workload, input_queue, *unused):
  return next(input_queue)

def get_batch_size(workload_name):
  raise ValueError(workload_name)
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch):
  study._workload.cache_clear()
  monkeypatch.setitem(stand_in.SHORT, 'digits', stand_in.Length(10, 5, 16, 64))
  yield
  study._workload.cache_clear()


def contender(folder, body):
  path = write_package(folder, SUBMISSION.format(body=body), 'mine.py')
  return Contender('mine', path, 1.0)


def rows(root, job):
  return read_csv('eval_measurements.csv', study.kept_path(root, job))


@pytest.mark.parametrize(
  ('condition', 'steps'),
  [
    # A budget of 15 s; no evaluation when it has been used up.
    ('tuned', [1, 5, 10]),
    # The step that ends it takes place: 3.75 s each.
    ('slow', [1]),
  ],
)
def test_time_is_counted_in_steps(tmp_path, condition, steps):
  job = StudyRun(contender(tmp_path / 'own', 'pass'), 'digits', condition, 3)
  study.train(job, tmp_path / 'out')
  found = rows(tmp_path / 'out', job)
  assert [int(float(row['global_step'])) for row in found] == steps
  seconds = CONDITIONS[condition].seconds_per_step
  assert [float(row['accumulated_submission_time']) for row in found] == [
    seconds * step for step in steps
  ]
  path = study.kept_path(tmp_path / 'out', job)
  assert path == (tmp_path / f'out/{condition}/mine/study_3/digits_jax/trial_1')
  meta = files.read_json(path / 'meta_data_0.json')
  assert meta['workload.max_allowed_runtime_sec'] == 10
  assert meta['workload.metric_rises'] is False
  # It writes no cycles.csv.
  names = ['eval_measurements.csv', 'meta_data_0.json']
  assert sorted(p.name for p in path.iterdir()) == names


def test_a_run_that_breaks_is_recorded_and_not_trained_again(tmp_path):
  own = contender(tmp_path / 'own', 'assert global_step < 7, "too far"')
  job = StudyRun(own, 'digits', 'tuned', 1)
  study.train(job, tmp_path)
  assert [int(float(r['global_step'])) for r in rows(tmp_path, job)] == [1, 5]
  [failure] = tmp_path.glob('[!.]*/*/*/*/*/failure.txt')
  assert 'too far' in failure.read_text()
  assert study.missing([job], tmp_path) == []
  (failure.parent / 'meta_data_0.json').unlink()
  assert study.missing([job], tmp_path) == [job]


def test_a_submission_that_cannot_be_imported_is_recorded(tmp_path):
  own = contender(tmp_path / 'own', '1 +')
  job = StudyRun(own, 'digits', 'tuned', 1)
  study.train(job, tmp_path)
  [failure] = tmp_path.glob('[!.]*/*/*/*/*/failure.txt')
  assert 'cannot be imported' in failure.read_text()
  meta = files.read_json(failure.with_name('meta_data_0.json'))
  assert 'workload.validation_target_value' in meta


def test_a_run_that_ends_its_process_is_given_up_and_the_rest_goes_on(
  tmp_path, monkeypatch
):
  """With workers of this process' own, which 'end' as a broken pool says."""
  own = contender(tmp_path / 'own', 'pass')
  jobs = [StudyRun(own, 'digits', 'tuned', seed) for seed in (1, 2, 3)]
  calls = []

  def train_all(left, root, num_workers, unused):
    """As a pool does: a process that is killed ends the runs beside it."""
    calls.append(([job.seed for job in left], num_workers))
    for job in left:
      if job.seed == 2 or (num_workers > 1 and job.seed == 1):
        raise RunFailed('a worker was ended from outside')
      study.train(job, root)

  monkeypatch.setattr(study.workers, 'train_all', train_all)
  with pytest.raises(RunFailed, match='1 of 3 runs broke'):
    study.train_all(jobs, tmp_path, 2)
  assert calls == [
    # Only a run alone is to blame.
    *(([1, 2, 3], 2), ([1], 1), ([2, 3], 2), ([2], 1), ([2], 1), ([3], 2))
  ]
  [failure] = tmp_path.glob('[!.]*/*/*/*/*/failure.txt')
  assert 'study_2' in failure.parts and 'killed' in failure.read_text()
  assert study.missing(jobs, tmp_path) == []


def test_settings_of_ones_own_are_a_submission(tmp_path):
  """The fields of a file take the place of those in force."""
  path = tmp_path / 'short.json'
  path.write_text('{"budget_factor": 0.5}')
  entry = entries.get_entry(f'short={path}')
  assert entry == Contender('short', str(path), 1.0)
  settings = entries.load(entry).init_optimizer_state.settings
  assert settings == dataclasses.replace(MUON, budget_factor=0.5)
  path.write_text('{"budget_factor": -1}')
  with pytest.raises(SetupError, match=r'short\.json: budget_factor=-1'):
    entries.get_entry(f'short={path}')


def test_all_runs_in_order_one_seed_after_the_other():
  jobs = study.runs_of(['sgdr', 'nadamw'], ['digits'], ['tuned', 'hot'], [1, 2])
  assert [(t.seed, t.condition, t.entry.name) for t in jobs] == [
    (seed, condition, name)
    for seed in (1, 2)
    for condition in ('tuned', 'hot')
    for name in ('sgdr', 'nadamw')
  ]
