"""A run's output: what happens while it runs, and a summary afterwards.

On stderr there is a line for each evaluation and for each cycle, reset and
switch; on a terminal a bar takes the place of the evaluations' lines.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping

import tqdm

from ..core.records import CYCLES, read_events
from ..mini_algoperf.logger import MetricLogger
from ..mini_algoperf.runner import Observer
from ..mini_algoperf.trial import Trial
from ..studies import plans, run_files
from ..studies.run_files import RunTable

_BAR = '{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}, {remaining} left'
_OPEN = '{desc}: step {n_fmt}, {elapsed}'  # the number of steps is not known


def folder_of(trial: Trial) -> pathlib.Path:
  """The folder of a trial, which has one here."""
  assert trial.log_dir is not None
  return trial.log_dir


def logger_of(trial: Trial) -> MetricLogger:
  """The logger of a trial, which has one here."""
  assert trial.metrics_logger is not None
  return trial.metrics_logger


def planned_steps(trial: Trial) -> int | None:
  """Steps that the run will take if nothing else ends it; None if unknown."""
  limits = [trial.options.max_global_steps]
  plan = plans.read_plan(folder_of(trial))
  if plan is not None and plans.ends_with_chain(plan.params):
    limits.append(sum(cycle.steps for cycle in plan.chain.cycles))
  return min((limit for limit in limits if limit is not None), default=None)


def describe(trial: Trial) -> str:
  """The target metric and, if the submission logs them, rate and cycle.

  The rate is that of the step after the last evaluation. At the end of a run
  there is no such step, and no rate is shown.

  Args:
    trial: a trial with a logger.
  """
  latest = logger_of(trial).latest
  name = trial.workload.target_metric_name
  metric, rate = latest.get(f'validation/{name}'), latest.get('learning_rate')
  parts = []
  if metric:
    parts.append(f'{name} {float(metric.value):.4g}')
  if rate and (not metric or rate.global_step >= metric.global_step):
    parts.append(f'lr {float(rate.value):.3g}')
  if 'cycle' in latest:
    parts.append(f'cycle {float(latest["cycle"].value):.0f}')
  return ', '.join(parts)


def told(event: Mapping[str, str]) -> str:
  """An event of cycles.csv in words; '' for one that is not told."""
  step, cycle = event['global_step'], event['cycle']
  kind, reason = event['event'], event['reason']
  if kind == 'cycle_start':
    peak = float(event['peak_value'])
    what = f'cycle {cycle} starts, peak {peak:.3g}'
    return f'step {step}: {what}, planned up to step {event["cycle_end"]}'
  if kind == 'reset':
    note = f' ({event["note"]})' if event['note'] else ''
    what = f'{event["mode"]} with tau {float(event["tau"]):.3g}{note}'
    return f'step {step}: {reason} reset, {what}'
  if kind == 'switch':
    return f'step {step}: cycle {cycle} is left: {reason}'
  if kind == 'race':
    return f'step {step}: race: {reason}'
  return f'step {step}: {reason}' if kind == 'finish' else ''


class _Watch(Observer):
  """Prints lines, or moves a bar.

  A submission logs its reaction to an evaluation at its next step; both are
  told then, the evaluation first.
  """

  def __init__(self, trial: Trial, bar: tqdm.tqdm[None] | None) -> None:
    self._bar = bar
    self._path = folder_of(trial) / CYCLES
    self._num_told = len(read_events(self._path))
    self._num_rows: Mapping[str, int] = {}
    self._evaluated: tuple[int, float] | None = None

  def on_evaluation(self, trial: Trial) -> None:
    """Notes the step and the seconds of training."""
    seconds = trial.train_state['accumulated_submission_time']
    self._evaluated = (trial.global_step, seconds)

  def on_step(self, trial: Trial) -> None:
    """Tells what was logged since the last step."""
    is_new = self._num_rows != logger_of(trial).num_rows
    evaluated_now = self._evaluated and self._evaluated[0] == trial.global_step
    if is_new and not evaluated_now:
      self.tell(trial)
    if self._bar is not None:
      self._bar.update(1)

  def tell(self, trial: Trial) -> None:
    """Tells the last evaluation and the events since then."""
    self._num_rows = logger_of(trial).num_rows
    events = read_events(self._path)
    new, self._num_told = events[self._num_told :], len(events)
    if self._bar is not None:
      self._bar.set_postfix_str(describe(trial), refresh=False)
    elif self._evaluated:
      step, seconds = self._evaluated
      print(f'step {step}: {describe(trial)}, {seconds:.1f} s', file=sys.stderr)
    self._evaluated = None
    for line in filter(None, map(told, new)):
      tqdm.tqdm.write(line, file=sys.stderr)


@contextlib.contextmanager
def watching(trial: Trial) -> Iterator[Observer]:
  """An observer that shows how a run goes, on stderr.

  Args:
    trial: a trial with a log_dir, before its first step in this process.
  """
  with contextlib.ExitStack() as stack:
    bar = None
    if sys.stderr.isatty():
      total = planned_steps(trial)
      bar = stack.enter_context(
        tqdm.tqdm(
          total=total,
          initial=trial.global_step,
          desc=getattr(trial.workload, 'name', ''),
          bar_format=(_BAR if total else _OPEN) + '{postfix}',
          dynamic_ncols=True,
        )
      )
    watch = _Watch(trial, bar)
    try:
      yield watch
    finally:
      watch.tell(trial)


def summarise(trial: Trial) -> str:
  """The closing summary of a run.

  Args:
    trial: a trial with a log_dir, after `train`.

  Returns:
    Lines of text: target, best and last metric, cycles, resets, switches,
      files.
  """
  table = run_files.read_run(folder_of(trial))
  seconds = trial.train_state['accumulated_submission_time']
  lines = [
    f'{table.workload}: {trial.global_step} steps in {seconds:.1f} s, '
    f'{len(trial.eval_results)} evaluations',
    f'ended:    {_describe_end(trial)}',
    f'target:   {_describe_target(table)}',
    f'metric:   {_describe_metric(table)}',
  ]
  if table.num_cycles:
    lines += [
      f'cycles:   {table.num_cycles}',
      'resets:   '
      + _listed(f'step {s} (tau {tau:.3g})' for s, tau in table.resets),
      'switches: '
      + _listed(f'step {s} ({reason})' for s, reason in table.switches),
    ]
  lines.append(f'files:    {_shortest(folder_of(trial))}')
  return '\n'.join(lines)


def _describe_end(trial: Trial) -> str:
  state, limit = trial.train_state, trial.options.max_global_steps
  if not state['is_time_remaining']:
    return f'the time budget of {trial.budget_sec:.0f} s is used up'
  if state['training_complete']:
    return 'the submission has finished'
  if trial.options.is_limit(trial.global_step):
    return f'--max_global_steps={limit} is reached'
  return 'both targets are reached'


def _describe_target(table: RunTable) -> str:
  """Whether and when the target was reached, as the benchmark's scorer counts.

  To the scorer, a target met exactly is reached; to the workload, and so for
  the end of a run, it is not.
  """
  text = f'validation/{table.target.metric} {table.target.value:.4g}'
  at = table.target.reached(table.metric)
  if at is None:
    return f'{text} not reached'
  step, seconds = table.eval_steps[at], table.eval_times[at]
  return f'{text} reached at step {step} after {seconds:.1f} s'


def _describe_metric(table: RunTable) -> str:
  values = list(zip(table.eval_steps.tolist(), table.metric.tolist()))
  if not values:
    return 'not evaluated'
  last = f'last {values[-1][1]:.4g}'
  finite = [pair for pair in values if math.isfinite(pair[1])]
  if not finite:
    return last
  choose = max if table.target.rises else min
  step, best = choose(finite, key=lambda pair: pair[1])
  return f'best {best:.4g} at step {step}, {last}'


def _listed(items: Iterable[str]) -> str:
  return ', '.join(items) or 'none'


def _shortest(path: pathlib.Path) -> pathlib.Path:
  """The path relative to the current folder, if it lies below it."""
  here = pathlib.Path.cwd()
  full = path.resolve()
  return full.relative_to(here) if here in full.parents else path
