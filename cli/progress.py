"""What a run shows of itself: a progress bar while it goes, a summary after.

On a terminal there is a bar with the metric, the learning rate, the cycle and
the remaining time. Elsewhere there is one line per evaluation.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import tqdm

from ..mini_algoperf.runner import Observer
from ..mini_algoperf.trial import Trial
from ..schedules.lr_schedule import lay_out
from ..studies.runs.table import read_run
from ..training import workload as benchmark
from ..training.configuration import CONFIGURATION, read_configuration

# Room for the text on 80 columns; without a total, tqdm's own form is used.
_BAR_FORMAT = (
  '{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}, {remaining} left'
  '{postfix}'
)


def planned_steps(trial: Trial) -> int | None:
  """Steps that the run will take if nothing else ends it; None: unknown.

  This project's submission has written its plan into the trial's folder.
  """
  limits = [trial.settings.max_global_steps]
  configuration = trial.log_dir / CONFIGURATION
  if configuration.exists():
    step_hint, params = read_configuration(trial.log_dir)
    if params.policy == 'finish':
      cycles = lay_out(step_hint, params)
      limits.append(sum(cycle.steps for cycle in cycles))
  return min((limit for limit in limits if limit is not None), default=None)


def describe(trial: Trial) -> str:
  """The target metric and, where the submission logs them, rate and cycle."""
  latest = trial.metrics_logger.latest
  name = trial.workload.target_metric_name
  parts = []
  for key, form in (
    (f'validation/{name}', f'{name} {{:.4g}}'),
    ('learning_rate', 'lr {:.3g}'),
    ('cycle', 'cycle {:.0f}'),
  ):
    if key in latest:
      parts.append(form.format(float(latest[key])))
  return ', '.join(parts)


class _Bar(Observer):
  """A tqdm bar on a terminal."""

  def __init__(self, bar: tqdm.tqdm):
    self._bar = bar
    self._shown_rows = None

  def on_step(self, trial: Trial) -> None:
    """Moves the bar; its text changes only when something was logged."""
    if trial.metrics_logger.num_rows != self._shown_rows:
      self._shown_rows = trial.metrics_logger.num_rows
      self._bar.set_postfix_str(describe(trial), refresh=False)
    self._bar.update(1)


class _Lines(Observer):
  """A line per evaluation where there is no terminal.

  It is printed a step later: what a submission makes of an evaluation it logs
  at its next step.
  """

  def __init__(self):
    self._pending: tuple[int, float] | None = None

  def on_evaluation(self, trial: Trial) -> None:
    """Notes the step and the seconds of training."""
    seconds = trial.train_state['accumulated_submission_time']
    self._pending = (trial.global_step, seconds)

  def on_step(self, trial: Trial) -> None:
    """Prints the evaluation before this step."""
    if self._pending and self._pending[0] < trial.global_step:
      self.flush(trial)

  def flush(self, trial: Trial) -> None:
    """Prints step, metric, learning rate, cycle and seconds of training."""
    if self._pending:
      step, seconds = self._pending
      line = f'step {step}: {describe(trial)}, {seconds:.1f} s'
      print(line, file=sys.stderr)
      self._pending = None


@contextlib.contextmanager
def progress(trial: Trial, title: str) -> Iterator[Observer]:
  """An observer that shows how a run goes on stderr.

  Args:
    trial: before its first step in this process, with a log_dir.
    title: stands before the bar.
  """
  if not sys.stderr.isatty():
    lines = _Lines()
    yield lines
    lines.flush(trial)
    return
  total = planned_steps(trial)
  bar = tqdm.tqdm(
    total=total,
    bar_format=_BAR_FORMAT if total else None,
    initial=trial.global_step,
    desc=title,
    unit='step',
    dynamic_ncols=True,
  )
  with bar:
    yield _Bar(bar)


def summarise(trial: Trial) -> str:
  """The closing summary of a run.

  Args:
    trial: after `train`, with a log_dir.

  Returns:
    Lines: target, best and last metric, cycles, resets, switches, files.
  """
  table = read_run(trial.log_dir)
  seconds = trial.train_state['accumulated_submission_time']
  lines = [
    f'{table.workload}: {trial.global_step} steps in {seconds:.1f} s, '
    f'{len(trial.eval_results)} evaluations',
    f'ended:    {_describe_end(trial)}',
    _describe_target(trial),
    *_describe_metric(trial),
  ]
  if table.num_cycles:
    lines += [
      f'cycles:   {table.num_cycles}',
      'resets:   '
      + _listed(f'step {s} (tau {tau:.3g})' for s, tau in table.resets),
      'switches: '
      + _listed(f'step {s} ({reason})' for s, reason in table.switches),
    ]
  lines.append(f'files:    {_shortest(trial.log_dir)}')
  return '\n'.join(lines)


def _describe_end(trial: Trial) -> str:
  state, limit = trial.train_state, trial.settings.max_global_steps
  if not state['is_time_remaining']:
    return f'the time budget of {trial.budget_sec:.0f} s is used up'
  if limit is not None and trial.global_step >= limit:
    return f'--max_global_steps={limit} are taken'
  if state['training_complete']:
    return 'the submission has finished'
  return 'both targets are reached'


def _describe_target(trial: Trial) -> str:
  workload = trial.workload
  name = f'validation/{workload.target_metric_name}'
  target = f'{name} {workload.validation_target_value:.4g}'
  for step, result in trial.eval_results:
    if workload.has_reached_validation_target(result):
      return (
        f'target:   {target} reached at step {step} after '
        f'{result["score"]:.1f} s'
      )
  return f'target:   {target} not reached'


def _describe_metric(trial: Trial) -> list[str]:
  key = f'validation/{trial.workload.target_metric_name}'
  values = [(step, float(r[key])) for step, r in trial.eval_results]
  if not values:
    return ['metric:   not evaluated']
  last = f'last {values[-1][1]:.4g}'
  finite = [pair for pair in values if math.isfinite(pair[1])]
  if not finite:
    return [f'metric:   {last}']
  sign = -1 if benchmark.read_target(trial.workload).rising else 1
  step, best = min(finite, key=lambda pair: sign * pair[1])
  return [f'metric:   best {best:.4g} at step {step}, {last}']


def _listed(items: Any) -> str:
  return ', '.join(items) or 'none'


def _shortest(path: pathlib.Path) -> pathlib.Path:
  """The path relative to the current folder, if it lies below it."""
  here = pathlib.Path.cwd()
  full = path.resolve()
  return full.relative_to(here) if here in full.parents else path
