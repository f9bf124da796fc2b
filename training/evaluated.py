"""The weights that an evaluation sees, handed out before and taken back after.

In main the runner says when, by calling prepare_for_eval. In v0.5.0 evaluations
are predicted (`forecast`), and update_params returns the weights to be
evaluated. All of this happens in calls that are timed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..averaging.choosing import AVERAGED, RAW
from ..control import decide
from ..control.decide import Event
from ..control.state import Evaluation
from . import forecast as forecast_lib
from .averaging import Averaged
from .forecast import Forecast
from .resetting import Model
from .run_state import Run
from .set_up import SavedState
from .workload import EvalResults, evaluation_seconds

COLUMN = 'weights'  # column of cycles.csv: what an evaluation has seen


def adopt(
  saved: SavedState, run: Run, params: Any, global_step: int
) -> tuple[SavedState, Run, Any]:
  """Takes over the state at the first step of a run or resumed run.

  A checkpoint is written after an evaluation, with the weights handed out.

  Returns:
    The state and the trained weights.
  """
  setup = run.setup
  averaging, averaged = setup.averager.adopt(saved.averaging, run.control)
  saved = saved._replace(averaging=averaging)
  run = run._replace(averaged=averaged)
  if setup.has_device_axis:
    known = 0.0 if global_step == 0 else math.nan
    run = run._replace(forecast=Forecast(eval_seconds=known))
  return take_back(saved, run, params, global_step)


def take_back(
  saved: SavedState, run: Run, params: Any, global_step: int
) -> tuple[SavedState, Run, Any]:
  """The trained weights, if others were handed out before this step.

  Args:
    saved, run: the optimizer's state.
    params: as the runner hands them over.
    global_step: the step about to be taken.

  Returns:
    The state and the trained weights.
  """
  averaging, averaged, params = run.setup.averager.take_back(
    saved.averaging, run.averaged, params, global_step
  )
  saved = saved._replace(averaging=averaging)
  return saved, run._replace(averaged=averaged), params


def take_in(
  saved: SavedState,
  run: Run,
  model: Model,
  evaluations: Sequence[Evaluation],
  events: list[Event],
  is_new_cycle: bool,
  eval_results: EvalResults | None,
  global_step: int,
) -> tuple[SavedState, Run, list[Event]]:
  """Tells the averager of evaluations, a new cycle and a snapshot that is due.

  Args:
    saved, run: the optimizer's state.
    model: the model with which the step is about to be taken.
    evaluations: those not seen before.
    events: the events of this step.
    is_new_cycle: whether a cycle starts with this step.
    eval_results: the runner's list.
    global_step: the step about to be taken.

  Returns:
    The state, and the events with a column for what evaluations have seen.
  """
  averager, state, averaged = run.setup.averager, saved.averaging, run.averaged
  events = with_weights(averaged, events)
  for evaluation in evaluations:
    state, averaged = averager.observe(
      state, averaged, evaluation.step, evaluation.metric
    )
  if is_new_cycle:
    state, averaged = averager.begin_cycle(state, averaged)
  state, averaged = averager.snapshot(
    state, averaged, model, run.control, global_step
  )
  # The evaluations that a resumed run finds did not happen just now.
  if evaluations and run.forecast and not math.isnan(run.forecast.returned):
    run = run._replace(
      forecast=forecast_lib.after_evaluation(
        run.forecast,
        evaluations[-1].step,
        evaluation_seconds(eval_results),
        forecast_lib.now(),
      )
    )
  saved = saved._replace(averaging=state)
  return saved, run._replace(averaged=averaged), events


def with_weights(averaged: Averaged | None, events: list[Event]) -> list[Event]:
  """The events; evaluations get the column COLUMN if anything is averaged."""
  if averaged is None:
    return events
  names = {AVERAGED: 'averaged', RAW: 'raw'}
  return [
    {**event, COLUMN: names[averaged.seen_at(event['metric_step'])]}
    if event['event'] == 'evaluation'
    else event
    for event in events
  ]


def next_due(run: Run, global_step: int) -> int:
  """The next step before which there is more to do than train."""
  end = decide.due(run.control)
  if run.averaged is None:
    return end
  return min(end, run.setup.averager.next_step(run.control, global_step))


def hand_out(
  saved: SavedState, run: Run, params: Any
) -> tuple[SavedState, Run, Any]:
  """The state and the weights for the next evaluation.

  Before the first step these are `params` as they are.
  """
  if run.averaged is None:
    return saved, run, params
  averaging, averaged, params = run.setup.averager.hand_out(
    saved.averaging,
    run.averaged,
    params,
    saved.inner.inner,
    run.control.cycle,
  )
  saved = saved._replace(averaging=averaging)
  return saved, run._replace(averaged=averaged), params


def hand_out_if_foreseen(
  saved: SavedState, run: Run, params: Any, period: float, step: int
) -> tuple[SavedState, Run, Any]:
  """`hand_out` if an evaluation may follow; called after every step in v0.5.0.

  The last step of a cycle may be the run's last, which is evaluated.

  Args:
    saved, run: the optimizer's state.
    params: the trained weights.
    period: the workload's evaluation period, seconds.
    step: steps taken.

  Returns:
    The state, and the weights that update_params is to return.
  """
  is_due = forecast_lib.is_due(run.forecast, step, period, forecast_lib.now())
  if is_due or step >= decide.due(run.control):
    saved, run, params = hand_out(saved, run, params)
  forecast = forecast_lib.after_step(run.forecast, forecast_lib.now())
  return saved, run._replace(forecast=forecast), params
