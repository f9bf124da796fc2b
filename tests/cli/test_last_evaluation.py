"""The evaluation after a run's last step, which no submission is shown."""

from __future__ import annotations

import pathlib

import pytest

from fakes import write_submission
from fitting import FittingWorkload, write_fitting_submission
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import workloads
from reset_cycles.training.events import read_events

TRIAL = pathlib.Path('runs', 'one', 'fitting_jax', 'trial_1')


@pytest.fixture
def train(fake_workload, monkeypatch):
  """train(path of a submission, *flags): the events of the run so far."""
  monkeypatch.setitem(workloads.WORKLOADS, 'fitting', FittingWorkload)

  def run(path, *flags):
    words = [
      'run',
      '--workload=fitting',
      f'--submission_path={path}',
      '--experiment_dir=runs',
      '--experiment_name=one',
      '--rng_seed=3',
      '--nostop_at_targets',
      *flags,
    ]
    assert cli.main(words) == 0
    return read_events(TRIAL)

  return run


def evaluated(events):
  return [e['metric_step'] for e in events if e['event'] == 'evaluation']


def test_it_is_in_cycles_csv_once(train):
  path = write_fitting_submission(pathlib.Path('ours'))
  events = train(path, '--max_global_steps=6')
  assert evaluated(events) == ['1', '3', '6']
  assert events[-1]['event'] == 'evaluation'
  events = train(path, '--max_global_steps=9', '--resume_last_run')
  assert evaluated(events) == ['1', '3', '6', '9']


def test_a_run_that_ends_itself_has_seen_it(train):
  path = write_fitting_submission(pathlib.Path('ours'))
  source = pathlib.Path(path)
  text = source.read_text().replace('factor=0.4', "factor=0.4, policy='finish'")
  source.write_text(text)
  events = train(path, '--max_global_steps=40')
  assert events[-1]['event'] == 'finish'
  steps = evaluated(events)
  assert steps[:2] == ['1', '3'] and len(set(steps)) == len(steps)


def test_another_submission_has_no_events(train):
  assert (
    train(write_submission(pathlib.Path('other')), '--max_global_steps=3') == []
  )
