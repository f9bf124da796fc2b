"""A trial of `soft-reset run`: set up, watched and summarised.

On stderr there is a line for each evaluation and for each cycle, reset and
switch; on a terminal a bar takes the place of the evaluations' lines.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import sys
from collections.abc import Mapping

import numpy as np
import tqdm

from ..core.records import CYCLES, read_events
from ..core.schedules import check_rates
from ..mini_algoperf import (
  checkpoints,
  experiment,
  runner,
  user_code,
  workloads,
)
from ..mini_algoperf.interrupts import Interrupts
from ..mini_algoperf.trial import Trial
from ..schedule_params import ScheduleParams
from ..studies import run_files, run_plot
from ..studies.errors import RunFailed
from . import errors


@np.errstate(over='ignore', invalid='ignore')  # the checks report these
def check_points(checked: experiment.Experiment) -> None:
  """Makes sure that this project's submission accepts every point.

  Other people's submissions see a point only when its trial begins.

  Raises:
    ValueError: for the first point that it would not accept.
  """
  made = checked.submission.init_optimizer_state
  given = made.args if isinstance(made, functools.partial) else ()
  if not given or not isinstance(given[0], ScheduleParams):
    return
  options = checked.options
  steps = workloads.get_workload(options.workload, options.generation).step_hint
  for number, point in zip(checked.trial_numbers, checked.points):
    try:
      check_rates(given[0].override(point).chain(steps).cycles)
    except ValueError as e:
      if (space := options.tuning_search_space) is None:
        raise
      where = f'--tuning_search_space={space}: trial {number}'
      raise ValueError(f'{where}: {e}') from e


def run_trial(
  checked: experiment.Experiment, number: int, interrupted: Interrupts
) -> int:
  """Sets up a trial of an entered experiment, trains it, says how it went.

  Returns:
    The exit status.
  """
  log_dir = checked.log_dir(number)
  own = checked.options.submission_path, checked.options.workload
  with (
    errors.setup_phase(*own),
    np.errstate(over='ignore', invalid='ignore'),  # the checks report these
  ):
    trial = experiment.set_up(checked, number, interrupted)
  if trial is None:
    run_plot.save_metric_plot(log_dir)  # it may have been killed before
    print(f'{log_dir}: this run is complete, there is nothing to resume.')
    return 0
  try:
    with (
      user_code.reported(*own, before_first_step=False),
      contextlib.closing(_Watch(trial, log_dir)) as watch,
    ):
      runner.train(trial, watch, interrupted)
  except user_code.DataEndedError as e:
    raise RunFailed(str(e)) from e
  except KeyboardInterrupt:
    run_plot.save_metric_plot(log_dir)
    how = 'there is no checkpoint to resume from.'
    if checkpoints.checkpoint_paths(log_dir):
      how = '--resume_last_run resumes from the last checkpoint.'
    said = f'soft-reset: interrupted at step {trial.global_step}; {how}'
    print(said, file=sys.stderr)
    return errors.INTERRUPTED
  run_plot.save_metric_plot(log_dir)
  print(_summary(trial, log_dir))
  return 0


class _Watch(runner.Observer):
  """Prints lines, or moves a bar.

  A submission logs its reaction to an evaluation at its next step; both are
  told then, the evaluation first.
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
      desc=getattr(trial.workload, 'name', ''),
      unit='step',
      dynamic_ncols=True,
      disable=None,  # there is one on a terminal only
    )

  def on_evaluation(self, trial: Trial) -> None:
    """Notes the step and the seconds of training."""
    seconds = trial.train_state['accumulated_submission_time']
    self._evaluated = (trial.global_step, seconds)

  def on_step(self, trial: Trial) -> None:
    """Tells what was logged since the last step."""
    is_new = self._num_rows != self._logger.num_rows
    evaluated_now = self._evaluated and self._evaluated[0] == trial.global_step
    if is_new and not evaluated_now:
      self._tell()
    self._bar.update(1)

  def close(self) -> None:
    """Tells what has not been told."""
    self._tell()
    self._bar.close()

  def _tell(self) -> None:
    self._num_rows = self._logger.num_rows
    events = read_events(self._path)
    new, self._num_told = events[self._num_told :], len(events)
    if not self._bar.disable:
      self._bar.set_postfix_str(self._state(), refresh=False)
    elif self._evaluated:
      step, seconds = self._evaluated
      print(f'step {step}: {self._state()}, {seconds:.1f} s', file=sys.stderr)
    self._evaluated = None
    for line in filter(None, map(_told, new)):
      tqdm.tqdm.write(line, file=sys.stderr)

  def _state(self) -> str:
    """The target metric and, if the submission logs them, rate and cycle.

    The rate is that of the step after the last evaluation. At the end of a run
    there is no such step, and no rate is shown.
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


def _told(event: Mapping[str, str]) -> str:
  """An event of cycles.csv in words; '' for one that is not told."""
  cycle, kind, reason = event['cycle'], event['event'], event['reason']
  if kind == 'cycle_start':
    what = f'cycle {cycle} starts, peak {float(event["peak_value"]):.3g}, '
    what += f'planned up to step {event["cycle_end"]}'
  elif kind == 'reset':
    what = f'{reason} reset, {event["mode"]} with tau {float(event["tau"]):.3g}'
    what += f' ({event["note"]})' if event['note'] else ''
  elif kind == 'switch':
    what = f'cycle {cycle} is left: {reason}'
  elif kind == 'range_test':
    what = f'range test, estimate {float(event["estimate"]):.3g}: {reason}'
  elif kind == 'finish':
    what = reason
  else:
    return ''
  return f'step {event["global_step"]}: {what}'


def _summary(trial: Trial, log_dir: pathlib.Path) -> str:
  """The closing summary of a run that was trained."""
  table, state = run_files.read_run(log_dir), trial.train_state
  ended = 'both targets are reached'
  if not state['is_time_remaining']:
    ended = f'the time budget of {trial.budget_sec:.0f} s is used up'
  elif state['training_complete']:
    ended = 'the submission has finished'
  elif trial.options.is_limit(trial.global_step):
    ended = f'--max_global_steps={trial.options.max_global_steps} is reached'
  # As the benchmark's scorer counts: to it, a target met exactly is reached; to
  # the workload, and so for the end of a run, it is not.
  at, reached = table.target.reached(table.metric), 'not reached'
  if at is not None:
    step, seconds = table.eval_steps[at], table.eval_times[at]
    reached = f'reached at step {step} after {seconds:.1f} s'
  target = f'validation/{table.target.metric} {table.target.value:.4g}'
  lines = [
    f'{table.workload}: {trial.global_step} steps in '
    f'{state["accumulated_submission_time"]:.1f} s, '
    f'{len(trial.eval_results)} evaluations',
    f'ended:    {ended}',
    f'target:   {target} {reached}',
    f'metric:   {_best_and_last(table)}',
  ]
  if table.num_cycles:
    resets = [f'step {s} (tau {tau:.3g})' for s, tau in table.resets]
    switches = [f'step {s} ({reason})' for s, reason in table.switches]
    lines += [
      f'cycles:   {table.num_cycles}',
      f'resets:   {", ".join(resets) or "none"}',
      f'switches: {", ".join(switches) or "none"}',
    ]
  return '\n'.join([*lines, f'files:    {errors.shortest(str(log_dir))}'])


def _best_and_last(table: run_files.RunTable) -> str:
  if not table.metric.size:
    return 'not evaluated'
  last, best = f'last {table.metric[-1]:.4g}', table.best()
  if best is None:
    return last
  at = table.eval_steps[best]
  return f'best {table.metric[best]:.4g} at step {at}, {last}'
