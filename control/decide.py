"""When a cycle ends: the run's small state and the decisions on it.

`Control` is everything that decisions depend on, as values that fit into int32
and float32 arrays, so that it survives preemption in the optimizer state. The
functions here are pure: control and evaluations in, control and events out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import early_switching
from ..early_switching import NO_LOSS_YET, SmoothedLoss
from ..schedule_params import ScheduleParams
from ..schedules import cycle_clock, lr_schedule

# What to do before the next train step.
GO_ON, RESET, FINISH = 'go_on', 'reset', 'finish'

_NEVER = np.iinfo(np.int32).max
_NO_METRIC = math.nan


class Control(NamedTuple):
  """Where the run stands. Host values; arrays of the same fields when saved."""

  cycle: Any  # shape=(), dtype=int32; index of the current cycle, from 0
  cycle_end: Any  # shape=(), dtype=int32; first step after the current cycle
  num_early_stops: Any  # shape=(), dtype=int32
  smoothed: SmoothedLoss  # of the current cycle
  last_eval_step: Any  # shape=(), dtype=int32; -1 before the first evaluation
  last_loss: Any  # shape=(), dtype=float32; NaN before the first evaluation
  last_metric: Any  # shape=(), dtype=float32; likewise
  first_metric: Any  # shape=(), dtype=float32; of the run's first evaluation


class Evaluation(NamedTuple):
  """What decisions need of one evaluation."""

  step: int  # steps taken when the model was evaluated
  loss: float  # validation loss
  metric: float  # validation target metric


class Plan(NamedTuple):
  """What stays the same through a run."""

  params: ScheduleParams
  horizon: int  # first step after the whole chain, as planned
  nominal_lengths: tuple[int, ...]  # steps of each cycle, as planned


Event = dict[str, Any]


class Decision(NamedTuple):
  """The outcome of `decide`."""

  control: Control
  action: str  # GO_ON, RESET or FINISH
  events: list[Event]  # in the order in which they happened


def make_plan(step_hint: int, params: ScheduleParams) -> Plan:
  """The plan for a workload of step_hint steps.

  Raises:
    ValueError: if a cycle would get no step.
  """
  return Plan(
    params=params,
    horizon=lr_schedule.horizon_steps(step_hint, params),
    nominal_lengths=lr_schedule.cycle_lengths(step_hint, params),
  )


_INT, _FLOAT = np.int32, np.float32
_DTYPES = Control(
  cycle=_INT,
  cycle_end=_INT,
  num_early_stops=_INT,
  smoothed=SmoothedLoss(_INT, _FLOAT, _FLOAT, _FLOAT, _INT),
  last_eval_step=_INT,
  last_loss=_FLOAT,
  last_metric=_FLOAT,
  first_metric=_FLOAT,
)


def as_saved(control: Control) -> Control:
  """The control in the precision in which it is saved.

  Decisions use these values and no better ones, so that a resumed run decides
  as the uninterrupted one does.
  """
  with np.errstate(over='ignore'):  # a loss above 3.4e38 is infinite
    return jax.tree_util.tree_map(lambda t, x: t(x), _DTYPES, control)


def start(plan: Plan) -> Control:
  """The control before the first step."""
  return as_saved(
    Control(
      cycle=0,
      cycle_end=plan.nominal_lengths[0],
      num_early_stops=0,
      smoothed=NO_LOSS_YET,
      last_eval_step=-1,
      last_loss=_NO_METRIC,
      last_metric=_NO_METRIC,
      first_metric=_NO_METRIC,
    )
  )


def has_evaluation(control: Control) -> bool:
  """Whether the run has been evaluated yet."""
  return control.last_eval_step >= 0


def observe(control: Control, evaluation: Evaluation, lam: float) -> Control:
  """Takes in one evaluation."""
  first = control.first_metric if has_evaluation(control) else evaluation.metric
  return as_saved(
    control._replace(
      smoothed=early_switching.smooth_loss(
        control.smoothed, evaluation.loss, lam
      ),
      last_eval_step=evaluation.step,
      last_loss=evaluation.loss,
      last_metric=evaluation.metric,
      first_metric=first,
    )
  )


def clock(control: Control, step: int, plan: Plan) -> cycle_clock.CycleClock:
  """The clock with which the control's cycle starts at this step."""
  i = int(control.cycle)
  return cycle_clock.anchored_clock(
    step, i, 0.0, plan.nominal_lengths[i], int(control.cycle_end)
  )


def decide(
  control: Control,
  evaluations: Sequence[Evaluation],
  global_step: int,
  plan: Plan,
) -> Decision:
  """Takes in new evaluations, and ends the cycle if it is time.

  A cycle ends when its steps are over or, with early switching on, after an
  evaluation for which S(t) = 1. The evaluation that follows a cycle's last step
  counts for that cycle: it sees the annealed model.

  Args:
    control: the current control.
    evaluations: those not seen yet, in order.
    global_step: the step about to be taken.
    plan: the run's plan.

  Returns:
    The decision; with RESET, control is that of the cycle that starts now.
  """
  events, reason = [], ''
  for evaluation in evaluations:
    control = observe(control, evaluation, plan.params.switch_lam)
    verdict = early_switching.is_stopping_early(control.smoothed, plan.params)
    events.append(_evaluation_event(control, evaluation, verdict))
    reason = reason or verdict.reason
  if global_step >= control.cycle_end:
    return _end_cycle(control, global_step, plan, events)
  if reason and _may_switch(control, plan):
    switch = {'event': 'switch', 'cycle': int(control.cycle) + 1}
    events.append({**switch, 'reason': reason})
    return _end_cycle(control, global_step, plan, events)
  return Decision(control, GO_ON, events)


def _may_switch(control: Control, plan: Plan) -> bool:
  """Under 'hold' nothing follows the last cycle: leaving it gains nothing.

  It need not be the last of the list: those after it may have got no step.
  """
  is_last = (
    control.cycle == plan.params.num_cycles - 1 or control.cycle_end == _NEVER
  )
  holding = plan.params.when_cycles_run_out == 'hold'
  return plan.params.early_switching and not (is_last and holding)


def _evaluation_event(control, evaluation, verdict) -> Event:
  return {
    'event': 'evaluation',
    'cycle': int(control.cycle) + 1,
    'evaluation': int(control.smoothed.t),
    'loss': evaluation.loss,
    'smoothed_loss': float(control.smoothed.value),
    'derivative': float(control.smoothed.derivative),
    'case1': int(verdict.case1),
    'case2': int(verdict.case2),
    'stopping': int(verdict.stopping),
    'metric': evaluation.metric,
    'metric_step': evaluation.step,
  }


def _end_cycle(control, global_step, plan, events) -> Decision:
  """Goes on to the next cycle, or to whatever follows the last one."""
  to_do = plan.params.lengths[int(control.cycle) + 1 :]
  if global_step >= control.cycle_end:
    starts = early_switching.starts_to_come(global_step, plan.horizon, to_do)
  else:
    num_early_stops, starts, _ = early_switching.early_stopping(
      control.num_early_stops, global_step, plan.horizon, to_do
    )
    control = control._replace(num_early_stops=num_early_stops)
  if not starts:
    return _run_out(control, plan, events)
  ends = starts[1:] + (plan.horizon,)
  control = control._replace(
    cycle=control.cycle + 1, cycle_end=ends[0], smoothed=NO_LOSS_YET
  )
  return Decision(as_saved(control), RESET, events)


def _run_out(control, plan, events) -> Decision:
  cycle = int(control.cycle) + 1
  if plan.params.when_cycles_run_out == 'finish':
    events.append(
      {'event': 'finish', 'cycle': cycle, 'reason': 'cycles have run out'}
    )
    return Decision(control, FINISH, events)
  events.append({'event': 'hold', 'cycle': cycle})
  control = as_saved(control._replace(cycle_end=_NEVER))
  return Decision(control, GO_ON, events)


def cycle_start_event(control: Control, step: int, plan: Plan) -> Event:
  """The event of a cycle that starts at this step."""
  i = int(control.cycle)
  return {
    'event': 'cycle_start',
    'cycle': i + 1,
    'cycle_end': int(control.cycle_end),
    'pace': float(clock(control, step, plan).pace),
    'peak_value': plan.params.hparams.learning_rate + plan.params.alter_lr[i],
  }
