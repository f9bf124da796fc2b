"""The progress bar on a terminal, and the closing summary."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import struct
import sys
import termios

import pytest

from fakes import BATCH_SIZE, FakeSubmission, FakeWorkload
from reset_cycles.cli import progress
from reset_cycles.mini_algoperf import files, runner, trial
from reset_cycles.mini_algoperf.submission_loader import as_submission
from reset_cycles.schedule_params import SCHEDULE_PARAMS, THESIS
from reset_cycles.training.configuration import write_configuration
from reset_cycles.training.events import COLUMNS, CYCLES


class Terminal(io.StringIO):
  """Text that says that it is a terminal, as wide as a real one."""

  def __init__(self, columns):
    super().__init__()
    self._ends = os.openpty()
    size = struct.pack('HHHH', 24, columns, 0, 0)
    fcntl.ioctl(self._ends[1], termios.TIOCSWINSZ, size)

  def isatty(self):
    return True

  def fileno(self):
    return self._ends[1]

  def close(self):
    for end in self._ends:
      os.close(end)
    super().close()


def make_trial(log_dir, steps=12, submission=None):
  run = trial.set_up_trial(
    FakeWorkload(),
    as_submission(submission or FakeSubmission(), 'fake'),
    trial.Settings(
      BATCH_SIZE, BATCH_SIZE, max_global_steps=steps, eval_every=5
    ),
    None,
    0,
    log_dir,
  )
  trial.open_log(run, {})
  return run


class Logging(FakeSubmission):
  """Logs rate and cycle at the step after an evaluation, as ours does."""

  def data_selection(self, workload, *args):
    step = args[-2]
    if step in (0, 1, 5, 10):
      workload.metrics_logger.append_scalar_metrics(
        {'learning_rate': 0.001 * step, 'cycle': 2.0}, step
      )
    return super().data_selection(workload, *args)


def last_line_of_bar(monkeypatch, run, columns, title='fake'):
  """What the bar shows at the end, on a terminal so wide."""
  with contextlib.closing(Terminal(columns)) as terminal:
    monkeypatch.setattr(sys, 'stderr', terminal)
    with progress.progress(run, title) as observer:
      runner.train(run, observer)
    shown = terminal.getvalue()
  return shown.strip('\r\n').split('\r')[-1].rstrip()


def test_bar_on_a_terminal(tmp_path, monkeypatch):
  run = make_trial(tmp_path, submission=Logging())
  last = last_line_of_bar(monkeypatch, run, 100)
  assert last.startswith('fake: 100%|')
  assert '| 12/12, 00:00 left, accuracy 0.012, cycle 2' in last


def make_named_trial(log_dir, name):
  """One whose metric has a name, after an evaluation at a step and its rate."""
  run = make_trial(log_dir, 1500)
  run.workload.target_metric_name = name
  log = run.metrics_logger.append_scalar_metrics
  log({f'validation/{name}': 0.123456}, 50)
  log({'learning_rate': 0.00174864, 'cycle': 2.0}, 50)
  return run


NUMBERS = ['0.1235', 'lr 0.00175', 'cycle 2']
WORKLOADS = [
  ('digits', 'error_rate'),
  ('molecules', 'mean_average_precision'),
  ('translation', 'bleu'),
]


@pytest.mark.parametrize('columns', [50, 60, 80, 100, 120])
@pytest.mark.parametrize(('title', 'metric'), WORKLOADS)
def test_the_bar_keeps_all_numbers(
  title, metric, columns, tmp_path, monkeypatch
):
  run = make_named_trial(tmp_path, metric)
  monkeypatch.setattr(runner, 'train', lambda run, bar: bar.on_step(run))
  last = last_line_of_bar(monkeypatch, run, columns, title)
  assert len(last) <= columns
  assert last.startswith(f'{title}: ')
  assert all(number in last for number in NUMBERS)


def test_the_bar_at_60_columns(tmp_path, monkeypatch):
  monkeypatch.setattr(runner, 'train', lambda run, bar: bar.on_step(run))
  shown = []
  for title, metric in WORKLOADS:
    folder = tmp_path / title
    folder.mkdir()
    run = make_named_trial(folder, metric)
    shown.append(last_line_of_bar(monkeypatch, run, 60, title))
  assert shown == [
    'digits:   0%, error_rate 0.1235, lr 0.00175, cycle 2',
    'molecules:   0%, mean_average_… 0.1235, lr 0.00175, cycle 2',
    'translation:   0%, bleu 0.1235, lr 0.00175, cycle 2',
  ]


def test_lines_have_the_rate_of_the_step_after_and_the_last_has_none(
  tmp_path, capsys
):
  run = make_trial(tmp_path, submission=Logging())
  with progress.progress(run, 'fake') as observer:
    runner.train(run, observer)
  lines = [
    line.rsplit(', ', 1)[0] for line in capsys.readouterr().err.split('\n')
  ]
  assert lines == [
    'step 1: accuracy 0.001, lr 0.001, cycle 2',
    'step 5: accuracy 0.005, lr 0.005, cycle 2',
    'step 10: accuracy 0.01, lr 0.01, cycle 2',
    'step 12: accuracy 0.012, cycle 2',  # no step was taken after it
    '',
  ]


def test_the_last_line_of_a_run_that_fails_is_shown(tmp_path, capsys):
  run = make_trial(tmp_path, submission=FakeSubmission(fail_at=5))
  with pytest.raises(ValueError, match='a bug'):
    with progress.progress(run, 'fake') as observer:
      runner.train(run, observer)
  lines = capsys.readouterr().err.splitlines()
  assert [line.split(':')[0] for line in lines] == ['step 1', 'step 5']


@pytest.mark.parametrize(
  'params, steps, expected',
  [
    (None, 12, 12),
    (None, None, None),
    (THESIS, None, 60),  # twice the step_hint of 30
    (THESIS, 12, 12),
    (SCHEDULE_PARAMS, None, None),  # goes on until the budget is over
    (SCHEDULE_PARAMS, 12, 12),
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
    'ended:    --max_global_steps=12 is reached',
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


class Falling(FakeWorkload):
  """A metric whose target is to get below 0.2."""

  validation_target_value = 0.2

  def has_reached_validation_target(self, eval_result):
    return eval_result['validation/accuracy'] < 0.2


def with_metric(run, values):
  run.eval_results = [
    (step, {'validation/accuracy': value, 'score': 3.0})
    for step, value in values
  ]
  return run


@pytest.mark.parametrize(
  ('workload', 'value', 'reached'),
  [
    (FakeWorkload, 0.8, True),  # exactly, as the benchmark's scorer counts
    (FakeWorkload, 0.7999999, False),
    (FakeWorkload, float('nan'), False),
    (Falling, 0.2, True),
    (Falling, 0.2000001, False),
    (Falling, float('nan'), False),
  ],
)
def test_a_target_that_is_met_exactly_is_reached(
  workload, value, reached, tmp_path
):
  run = make_trial(tmp_path)
  run.workload = workload()
  with_metric(run, [(5, value)])
  target = f'validation/accuracy {run.workload.validation_target_value}'
  said = 'reached at step 5 after 3.0 s' if reached else 'not reached'
  assert progress._describe_target(run) == f'target:   {target} {said}'


def test_the_best_of_a_metric_that_falls(tmp_path):
  run = make_trial(tmp_path)
  run.workload = Falling()
  with_metric(run, ((1, 0.9), (5, 0.2), (10, float('nan')), (12, 0.3)))
  assert progress._describe_metric(run) == [
    'metric:   best 0.2 at step 5, last 0.3'
  ]


def test_summary_of_another_submission_has_no_cycles(tmp_path):
  run = make_trial(tmp_path)
  runner.train(run)
  names = [line.split(':')[0] for line in progress.summarise(run).splitlines()]
  assert names == ['fake', 'ended', 'target', 'metric', 'files']
