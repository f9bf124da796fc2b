"""A run's output: a progress bar or lines while it runs, a summary afterwards.

On a terminal there is a bar with the metric, the learning rate, the cycle and
the remaining time; elsewhere, one line per evaluation.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import sys
from collections.abc import Iterable, Iterator

import tqdm

from ..control.state import Target
from ..mini_algoperf.runner import Observer
from ..mini_algoperf.trial import Trial
from ..schedules.lr_schedule import lay_out
from ..studies.runs.table import read_run
from ..training.configuration import CONFIGURATION, read_configuration
from ..training.workload import read_target

# The first one that fits the terminal is taken.
_BAR_FORMATS = (
  '{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}, {remaining} left'
  '{postfix}',
  '{desc}: {percentage:3.0f}%, {remaining} left{postfix}',
  '{desc}: {percentage:3.0f}%{postfix}',
)
# If it is not known how many steps there will be.
_OPEN_FORMATS = (
  '{desc}: step {n_fmt}, {elapsed}{postfix}',
  '{desc}: step {n_fmt}{postfix}',
)


def planned_steps(trial: Trial) -> int | None:
  """Steps that the run will take if nothing else ends it; None if unknown.

  This project's submission writes its plan into the trial's folder.
  """
  limits = [trial.settings.max_global_steps]
  configuration = trial.log_dir / CONFIGURATION
  if configuration.exists():
    step_hint, params = read_configuration(trial.log_dir)
    if params.policy == 'finish':
      cycles = lay_out(step_hint, params)
      limits.append(sum(cycle.steps for cycle in cycles))
  return min((limit for limit in limits if limit is not None), default=None)


def describe(trial: Trial, shorter_by: int = 0) -> str:
  """The target metric and, if the submission logs them, rate and cycle.

  The rate is that of the step after the last evaluation. At the end of a run
  there is no such step, and no rate is shown.

  Args:
    trial: a trial with a logger.
    shorter_by: by how many characters to shorten the metric's name.
  """
  latest = trial.metrics_logger.latest
  name = trial.workload.target_metric_name
  metric, rate = latest.get(f'validation/{name}'), latest.get('learning_rate')
  parts = []
  if metric:
    parts.append(f'{_shortened(name, shorter_by)} {float(metric.value):.4g}')
  if rate and (not metric or rate.global_step >= metric.global_step):
    parts.append(f'lr {float(rate.value):.3g}')
  if 'cycle' in latest:
    parts.append(f'cycle {float(latest["cycle"].value):.0f}')
  return ', '.join(parts)


def _shortened(name: str, by: int) -> str:
  return name if by <= 0 else f'{name[: max(len(name) - by - 1, 1)]}…'


class _Bar(Observer):
  """A tqdm bar on a terminal.

  A submission logs its reaction to an evaluation at its next step; the text
  changes then.
  """

  def __init__(self, bar: tqdm.tqdm) -> None:
    self._bar = bar
    self._formats = _BAR_FORMATS if bar.total else _OPEN_FORMATS
    self._shown_rows: dict[str, int] = {}
    self._evaluated_at: int | None = None

  def on_evaluation(self, trial: Trial) -> None:
    """Notes the step."""
    self._evaluated_at = trial.global_step

  def on_step(self, trial: Trial) -> None:
    """Moves the bar; its text changes only when something was logged."""
    if (
      trial.metrics_logger.num_rows != self._shown_rows
      and trial.global_step != self._evaluated_at
    ):
      self.show(trial)
    self._bar.update(1)

  def show(self, trial: Trial) -> None:
    """Writes what was logged last, in the longest form that fits."""
    self._shown_rows = trial.metrics_logger.num_rows
    text = describe(trial)
    for form in self._formats:
      excess = self._excess(form, text)
      if excess <= 0:
        break
    self._bar.bar_format = form
    self._bar.set_postfix_str(describe(trial, excess), refresh=False)

  def _excess(self, form: str, text: str) -> int:
    """By how many characters a line is too long for the terminal."""
    now = self._bar.format_dict
    if now['ncols'] is None:
      return 0
    lines = [
      self._bar.format_meter(
        **{**now, 'n': n, 'bar_format': form, 'postfix': text, 'ncols': None}
      )
      for n in (now['n'], now['total'] or now['n'])
    ]
    return max(map(len, lines)) - now['ncols']


class _Lines(Observer):
  """One line per evaluation, if there is no terminal.

  It is printed one step later, when the submission has logged its reaction to
  the evaluation.
  """

  def __init__(self) -> None:
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
  """An observer that shows a run's progress on stderr.

  Args:
    trial: a trial with a log_dir, before its first step in this process.
    title: text in front of the bar.
  """
  if not sys.stderr.isatty():
    lines = _Lines()
    try:
      yield lines
    finally:
      lines.flush(trial)
    return
  with tqdm.tqdm(
    total=planned_steps(trial),
    initial=trial.global_step,
    desc=title,
    unit='step',
    dynamic_ncols=True,
  ) as bar:
    observer = _Bar(bar)
    observer.show(trial)
    try:
      yield observer
    finally:
      observer.show(trial)


def summarise(trial: Trial) -> str:
  """The closing summary of a run.

  Args:
    trial: a trial with a log_dir, after `train`.

  Returns:
    Lines of text: target, best and last metric, cycles, resets, switches,
      files.
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
  if state['training_complete']:
    return 'the submission has finished'
  if trial.settings.is_limit(trial.global_step):
    return f'--max_global_steps={limit} is reached'
  return 'both targets are reached'


def _describe_target(trial: Trial) -> str:
  """Whether and when the target was reached, as the benchmark's scorer counts.

  To the scorer, a target met exactly is reached; to the workload, and so for
  the end of a run, it is not.
  """
  target = read_target(trial.workload)
  text = f'{target.key} {target.value:.4g}'
  for step, result in trial.eval_results:
    if _is_reached(target, result[target.key]):
      return (
        f'target:   {text} reached at step {step} after {result["score"]:.1f} s'
      )
  return f'target:   {text} not reached'


def _is_reached(target: Target, metric: float) -> bool:
  return metric >= target.value if target.rising else metric <= target.value


def _describe_metric(trial: Trial) -> list[str]:
  target = read_target(trial.workload)
  values = [(step, float(r[target.key])) for step, r in trial.eval_results]
  if not values:
    return ['metric:   not evaluated']
  last = f'last {values[-1][1]:.4g}'
  finite = [pair for pair in values if math.isfinite(pair[1])]
  if not finite:
    return [f'metric:   {last}']
  sign = -1 if target.rising else 1
  step, best = min(finite, key=lambda pair: sign * pair[1])
  return [f'metric:   best {best:.4g} at step {step}, {last}']


def _listed(items: Iterable[str]) -> str:
  return ', '.join(items) or 'none'


def _shortest(path: pathlib.Path) -> pathlib.Path:
  """The path relative to the current folder, if it lies below it."""
  here = pathlib.Path.cwd()
  full = path.resolve()
  return full.relative_to(here) if here in full.parents else path
