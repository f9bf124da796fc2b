"""A run of `reset-cycles run`: set up, watched and summarised.

On stderr there is a line for each evaluation and for each cycle, reset and
switch; on a terminal a bar takes the place of the evaluations' lines.
"""

from __future__ import annotations

import collections
import contextlib
import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import tqdm

from ..console import errors
from ..console.errors import RunFailed
from ..engine import records
from ..engine.records import CYCLES, SETTINGS, read_events
from ..engine.tuned import tuned
from ..mini_algoperf import (
  checkpoints,
  experiment,
  files,
  runner,
  tuning,
  user_code,
)
from ..mini_algoperf.interrupts import Interrupts
from ..mini_algoperf.trial import Trial, goes_on
from ..schedule_params import ScheduleParams
from ..views import run_plot
from ..views.run_files import MetricTarget
from ..views.story import sentences, value_text


def run_trials(checked: experiment.Experiment, interrupted: Interrupts) -> int:
  """Sets up the trials of an entered experiment and trains one after the other.

  Returns the exit status.
  """
  log_dirs, options = checked.log_dirs, checked.options
  # Before the set-up, which begins the file.
  have_lost = [
    (d / SETTINGS).exists() and not (d / CYCLES).exists() for d in log_dirs
  ]
  with (
    errors.setup_phase(options.submission_path, options.workload),
    np.errstate(over='ignore', invalid='ignore'),  # the checks report these
  ):
    trials = experiment.set_up(checked, interrupted)
  if len(trials) < options.num_tuning_trials:
    _warn(f'the list has {len(trials)} points, and so many trials are trained')
  for i, (log_dir, has_lost) in enumerate(zip(log_dirs, have_lost)):
    trial, trials[i] = trials[i], None  # its arrays are freed at its end
    if trial is None:
      _draw(log_dir)  # it may have been killed before
      print(f'{log_dir}: this run is complete, there is nothing to resume.')
      continue
    step = trial.global_step
    is_next = i > 0  # of several, whose first one was resumed or is complete
    if options.resume_last_run and not step and not is_next:
      _warn(f'{log_dir} has no checkpoint: the run begins anew')
    if has_lost and step:
      _warn(f'{CYCLES} was lost: cycles before step {step} are unknown')
    if trial.hyperparameters:
      point = trial.hyperparameters._asdict()
      values = ', '.join(
        f'{name} {value_text(str(x))}' for name, x in point.items()
      )
      print(f'trial {i + 1} of {len(trials)}: {values}', file=sys.stderr)
    if status := _train(trial, log_dir, interrupted):
      return status
  return 0


def check_settings(
  checked: experiment.Experiment, settings: ScheduleParams
) -> None:
  """ValueError if a trial with a checkpoint was begun with other settings.

  A resumed trial keeps the point of the search space that its folder has.
  """
  for log_dir, point in zip(checked.log_dirs, checked.points):
    if checkpoints.checkpoint_paths(log_dir):
      path = log_dir / tuning.HYPERPARAMETERS
      kept = files.read_json(path) if path.exists() else point
      records.check_settings(log_dir, schedule_params=tuned(settings, kept))


def _train(trial: Trial, log_dir: pathlib.Path, interrupted: Interrupts) -> int:
  """Trains a trial that is set up, and draws and tells how it went."""
  user_files = trial.options.submission_path, trial.options.workload
  try:
    with (
      user_code.reported(*user_files, before_first_step=False),
      contextlib.closing(_Watch(trial, log_dir)) as watch,
    ):
      runner.train(trial, watch, interrupted)
  except user_code.DataEndedError as e:
    raise RunFailed(str(e)) from e
  except files.WriteError as e:
    if goes_on(trial.train_state, trial.global_step, trial.options):
      raise
    _warn(str(e))  # the last step is done: this costs a file, not the run
  except KeyboardInterrupt:
    _draw(log_dir)
    how = 'there is no checkpoint to resume from.'
    if checkpoints.checkpoint_paths(log_dir):
      how = '--resume_last_run resumes from the last checkpoint.'
    message = f'reset-cycles: interrupted at step {trial.global_step}; {how}'
    print(message, file=sys.stderr)
    return errors.INTERRUPTED
  _draw(log_dir)
  print(_summary(trial, log_dir))
  return 0


def _warn(text: str) -> None:
  print(f'reset-cycles: warning: {text.rstrip(".")}.', file=sys.stderr)


def _draw(log_dir: pathlib.Path) -> None:
  """Draws metric.png; a damaged file or a full disk costs the picture only."""
  try:
    run_plot.save_metric_plot(log_dir)
  except (ValueError, OSError, MemoryError) as e:
    message = errors.describe(e)
    _warn(f'{run_plot.PICTURE} was not drawn: {message}')


class _Watch(runner.Observer):
  """Prints lines, or moves a bar.

  A submission reacts to an evaluation at its next step. The evaluation and the
  reaction are printed then.
  """

  def __init__(self, trial: Trial, log_dir: pathlib.Path) -> None:
    assert trial.metrics_logger is not None  # it has a folder
    self._trial, self._logger = trial, trial.metrics_logger
    self._path = log_dir / CYCLES
    self._num_told = len(read_events(self._path))
    self._num_rows: Mapping[str, int] = {}
    self._evaluated: tuple[int, float] | None = None
    self._bar = tqdm.tqdm(
      total=trial.options.max_global_steps,
      initial=trial.global_step,
      desc=trial.workload.name,
      unit='step',
      dynamic_ncols=True,
      disable=None,  # there is one on a terminal only
    )

  def on_evaluation(self, trial: Trial) -> None:
    """Notes the step and the seconds of training."""
    seconds = trial.train_state['accumulated_submission_time']
    self._evaluated = (trial.global_step, seconds)

  def on_step(self, trial: Trial) -> None:
    """Prints what was logged since the last step."""
    is_new = self._num_rows != self._logger.num_rows
    evaluated_now = self._evaluated and self._evaluated[0] == trial.global_step
    if is_new and not evaluated_now:
      self._tell()
    self._bar.update(1)

  def close(self) -> None:
    """Prints what has not been printed."""
    self._tell()
    self._bar.close()

  def _tell(self) -> None:
    self._num_rows = self._logger.num_rows
    events = read_events(self._path)
    new, self._num_told = events[self._num_told :], len(events)
    lines = list(sentences(new))
    if not self._bar.disable:
      self._bar.set_postfix_str(self._state(), refresh=False)
    elif self._evaluated:
      step, seconds = self._evaluated
      # What is about the step after an evaluation has its number, too.
      at = sum(event_step < step for event_step, _ in lines)
      lines.insert(at, (step, f'{self._state()}, {seconds:.1f} s'))
    self._evaluated = None
    for step, sentence in lines:
      tqdm.tqdm.write(f'step {step}: {sentence}', file=sys.stderr)

  def _state(self) -> str:
    """The target metric and, if the submission logs them, rate and cycle.

    The rate belongs to the step after the last evaluation, if there is one.
    """
    latest, name = self._logger.latest, self._trial.workload.target_metric_name
    metric, rate = latest.get(f'validation/{name}'), latest.get('learning_rate')
    parts = []
    if metric:
      parts.append(f'{name} {float(metric.value):.4g}')
    if rate and (not metric or rate.global_step >= metric.global_step):
      parts.append(f'lr {float(rate.value):.3g}')
    if 'cycle' in latest:
      parts.append(f'cycle {float(latest["cycle"].value):.0f}')
    return ', '.join(parts)


def _summary(trial: Trial, log_dir: pathlib.Path) -> str:
  """The closing summary; the one file that it reads is cycles.csv."""
  workload, state = trial.workload, trial.train_state
  ended = 'both targets are reached'
  if 'test' not in workload.eval_splits:
    ended = 'the validation target is reached'
  if not state['is_time_remaining']:
    ended = f'the time budget of {trial.budget_sec:.0f} s is used up'
  elif state['training_complete']:
    ended = 'the submission has finished'
  elif trial.options.is_limit(trial.global_step):
    ended = f'--max_global_steps={trial.options.max_global_steps} is reached'
  name, value = workload.target_metric_name, workload.validation_target_value
  steps = [step for step, _ in trial.eval_results]
  metric = np.array([r[f'validation/{name}'] for _, r in trial.eval_results])
  # As the benchmark's scorer counts: to it, a target met exactly is reached; to
  # the workload, and so for the end of a run, it is not.
  target = MetricTarget(name, value, workload.metric_rises)
  at, reached = target.reached(metric), 'not reached'
  if at is not None:
    seconds = trial.eval_results[at][1]['score']
    reached = f'reached at step {steps[at]} after {seconds:.1f} s'
  metric_text = 'not evaluated'
  if metric.size:
    best, last = target.best(metric), f'last {metric[-1]:.4g}'
    metric_text = last
    if best is not None:
      metric_text = f'best {metric[best]:.4g} at step {steps[best]}, {last}'
  lines = [
    f'{workload.name}: {trial.global_step} steps in '
    f'{state["accumulated_submission_time"]:.1f} s, {len(steps)} evaluations',
    f'ended:     {ended}',
    f'target:    validation/{name} {value:.4g} {reached}',
    f'metric:    {metric_text}',
  ]
  events = read_events(log_dir / CYCLES)
  counts = collections.Counter(event.get('event') for event in events)
  if counts['cycle_start']:
    lines += [
      f'cycles:    {counts["cycle_start"]}, {counts["abandon"]} abandoned',
      f'resets:    {_listed(events, "reset", "tau")}',
      f'abandoned: {_listed(events, "abandon", "reason")}',
    ]
  return '\n'.join([*lines, f'files:     {errors.shortest(str(log_dir))}'])


def _listed(events: Sequence[Mapping[str, str]], kind: str, column: str) -> str:
  rows = [event for event in events if event.get('event') == kind]
  entries = [
    f'step {e["global_step"]} ({value_text(e.get(column))})' for e in rows
  ]
  return ', '.join(entries) or 'none'
