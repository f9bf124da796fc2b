"""The progress bar on a terminal, and the closing summary."""

from __future__ import annotations

import io
import sys

import pytest

from fakes import BATCH_SIZE, FakeSubmission, FakeWorkload
from reset_cycles.cli import progress
from reset_cycles.mini_algoperf import files, runner, trial
from reset_cycles.mini_algoperf.submission_loader import as_submission
from reset_cycles.schedule_params import SCHEDULE_PARAMS, ScheduleParams
from reset_cycles.training.configuration import write_configuration
from reset_cycles.training.events import COLUMNS, CYCLES


class Terminal(io.StringIO):
  """Text that says that it is a terminal."""

  def isatty(self):
    return True


def make_trial(log_dir, steps=12):
  run = trial.set_up_trial(
    FakeWorkload(),
    as_submission(FakeSubmission(), 'fake'),
    trial.Settings(
      BATCH_SIZE, BATCH_SIZE, max_global_steps=steps, eval_every=5
    ),
    None,
    0,
    log_dir,
  )
  trial.open_log(run, {})
  return run


def test_bar_on_a_terminal(tmp_path, monkeypatch):
  terminal = Terminal()
  monkeypatch.setattr(sys, 'stderr', terminal)
  run = make_trial(tmp_path)
  run.metrics_logger.append_scalar_metrics(
    {'learning_rate': 0.5, 'cycle': 2.0}, 0
  )
  with progress.progress(run, 'fake') as observer:
    runner.train(run, observer)
  last = terminal.getvalue().strip('\r\n').split('\r')[-1]
  assert last.startswith('fake: 100%')
  assert '12/12, 00:00 left' in last
  assert 'accuracy 0.012, lr 0.5, cycle 2' in last


@pytest.mark.parametrize(
  'params, steps, expected',
  [
    (None, 12, 12),
    (None, None, None),
    (SCHEDULE_PARAMS, None, 60),  # twice the step_hint of 30
    (SCHEDULE_PARAMS, 12, 12),
    (ScheduleParams(when_cycles_run_out='hold'), None, None),
  ],
)
def test_planned_steps(params, steps, expected, tmp_path):
  run = make_trial(tmp_path, steps)
  if params is not None:
    write_configuration(tmp_path, 30, params)
  assert progress.planned_steps(run) == expected


EVENTS = [
  {'global_step': 0, 'event': 'cycle_start', 'cycle': 1, 'pace': 1.0},
  {'global_step': 5, 'event': 'switch', 'cycle': 1, 'reason': 'loss rises'},
  {'global_step': 5, 'event': 'reset', 'cycle': 2, 'tau': 0.25},
  {'global_step': 5, 'event': 'cycle_start', 'cycle': 2, 'pace': 1.0},
]


def test_summary_lists_cycles_resets_and_switches(tmp_path):
  run = make_trial(tmp_path)
  runner.train(run)
  write_configuration(tmp_path, 30, SCHEDULE_PARAMS)
  files.write_rows(tmp_path / CYCLES, COLUMNS, EVENTS)
  lines = progress.summarise(run).splitlines()
  assert lines[1:-1] == [
    'ended:    --max_global_steps=12 are taken',
    'target:   validation/accuracy 0.8 not reached',
    'metric:   best 0.012 at step 12, last 0.012',
    'cycles:   2',
    'resets:   step 5 (tau 0.25)',
    'switches: step 5 (loss rises)',
  ]


@pytest.mark.parametrize(
  ('changes', 'said'),
  [
    ({'is_time_remaining': False}, 'the time budget of 15 s is used up'),
    ({'training_complete': True}, 'the submission has finished'),
    ({}, 'both targets are reached'),
  ],
)
def test_why_a_run_ended(tmp_path, changes, said):
  run = make_trial(tmp_path, steps=None)
  run.train_state.update(changes)
  assert f'ended:    {said}' in progress.summarise(run).splitlines()


def test_the_best_of_a_metric_that_falls(tmp_path):
  class Falling(FakeWorkload):
    def has_reached_validation_target(self, eval_result):
      return eval_result['validation/accuracy'] < 0.1

  run = make_trial(tmp_path)
  run.workload = Falling()
  run.eval_results = [
    (step, {'validation/accuracy': value})
    for step, value in ((1, 0.9), (5, 0.2), (10, float('nan')), (12, 0.3))
  ]
  assert progress._describe_metric(run) == [
    'metric:   best 0.2 at step 5, last 0.3'
  ]


def test_summary_of_another_submission_has_no_cycles(tmp_path):
  run = make_trial(tmp_path)
  runner.train(run)
  names = [line.split(':')[0] for line in progress.summarise(run).splitlines()]
  assert names == ['fake', 'ended', 'target', 'metric', 'files']
