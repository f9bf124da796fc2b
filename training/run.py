"""One run: what happens between its train steps.

`Run` is the half of the optimizer state that is not saved. It has host copies of
the small state, so that a step needs no read from a device.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from .. import soft_reset
from ..control import decide as cycle_control
from ..control.decide import Control, Evaluation
from ..optimizers import adamw as optimizer
from ..schedules import cycle_clock
from . import devices as parallel
from . import resetting
from . import workload as benchmark
from .resetting import Model
from .set_up import SavedState, Setup


class Run(NamedTuple):
  """The other half: the set-up, and host copies of the small state."""

  setup: Setup
  control: Control | None = None  # None until the first train step
  clock: cycle_clock.CycleClock | None = None  # as of the cycle's start
  evaluations_seen: int = 0
  step_metrics: Any = None  # of the last step, on the devices
  undrawn_since: int = 0  # first step whose rate is not in TensorBoard yet


def is_due(run: Run, eval_results: Any, global_step: int) -> bool:
  """Whether there is anything to do before this step but training.

  All that control costs an ordinary step: comparisons of whole numbers.
  """
  return (
    run.control is None
    or global_step >= run.control.cycle_end
    or len(eval_results or ()) != run.evaluations_seen
  )


def act(
  saved: SavedState,
  run: Run,
  model: Model,
  workload: Any,
  eval_results: Any,
  global_step: int,
) -> tuple[SavedState, Run, Model]:
  """Takes in evaluations, decides, and does what was decided.

  Raises:
    TrainingCompleteError: (the benchmark's) if the cycles have run out and the
      configuration says to finish.
    ValueError: if an evaluation lacks the workload's target metric.
  """
  if run.control is None:
    saved, run, model = _adopt(saved, run, model, workload, global_step)
    evaluations = _unseen_by_resumed(run, eval_results, global_step)
  else:
    evaluations = benchmark.new_evaluations(
      eval_results, run.control.last_eval_step, run.setup.target
    )
  run.setup.records.draw_rates(
    workload.metrics_logger,
    functools.partial(cycle_clock.table_rate, run.setup.rate_tables, run.clock),
    run.undrawn_since,
    global_step,
    run.setup.plan.horizon,
  )
  decision = cycle_control.decide(
    run.control, evaluations, global_step, run.setup.plan
  )
  rows = _with_rate(decision.events, run, global_step - 1)
  if decision.action == cycle_control.RESET:
    run, model, new_rows = _start_cycle(
      run, model, decision.control, global_step
    )
    rows = rows + new_rows
  _record(run, rows, workload.metrics_logger, global_step)
  if decision.action == cycle_control.FINISH:
    raise run.setup.training_complete_error
  run = run._replace(
    control=decision.control,
    evaluations_seen=len(eval_results or ()),
    undrawn_since=global_step,
  )
  control = run.setup.devices.put(decision.control)
  return saved._replace(control=control), run, model


def _adopt(saved, run, model, workload, global_step):
  """Takes over the state that the runner hands to the first step.

  It is that of set_up or, in a resumed run, a restored one. The restore of the
  current benchmark leaves a device axis on everything; it is taken off.
  """
  setup = run.setup
  if benchmark.has_device_axis(workload, model.params) > setup.has_device_axis:
    saved, model = parallel.PmapDevices().get((saved, model))
  model = setup.devices.place(model)
  control = cycle_control.as_saved(setup.devices.get(saved.control))
  clock = setup.devices.get(
    optimizer.find_state(model.opt_state, cycle_clock.CycleClock)
  )
  run = run._replace(control=control, clock=clock, undrawn_since=global_step)
  setup.records.start(global_step)
  if global_step == 0:
    first = cycle_control.cycle_start_event(control, 0, setup.plan)
    _record(run, _with_rate([first], run, 0), workload.metrics_logger, 0)
  return saved, run, model


def _unseen_by_resumed(run, eval_results, global_step) -> list[Evaluation]:
  """The evaluations that the saved state does not know yet.

  A checkpoint is written right after an evaluation, before update_params has
  seen it. If eval_results were lost, the benchmark's log has it.
  """
  last_step, target = run.control.last_eval_step, run.setup.target
  found = benchmark.new_evaluations(eval_results, last_step, target)
  # A run that starts may find the log of another one.
  folder = run.setup.records.folder
  if found or folder is None or global_step == 0:
    return found
  return benchmark.logged_evaluations(folder, last_step, global_step, target)


def _start_cycle(run, model, control, global_step):
  """Resets the model and starts the cycle that control is in."""
  setup = run.setup
  early = control.num_early_stops > run.control.num_early_stops
  reset = _plan_reset(run, model, control)
  if setup.fresh_models is not None:
    model = resetting.model_reinit_schedule(
      model,
      setup.fresh_models.take(int(control.cycle) - 1),
      reset,
      setup.inner,
      setup.reset_ops,
    )
  clock = cycle_control.clock(control, global_step, setup.plan)
  laid_out = setup.devices.put(clock)
  model = model._replace(
    opt_state=optimizer.map_states(
      lambda _: laid_out, model.opt_state, cycle_clock.CycleClock
    )
  )
  rows = [
    _reset_event(run, control, reset, 'early' if early else 'scheduled'),
    cycle_control.cycle_start_event(control, global_step, setup.plan),
  ]
  run = run._replace(clock=clock)
  return run, model, _with_rate(rows, run, global_step)


def _plan_reset(run, model, control) -> soft_reset.Reset:
  """The reset before control's cycle. Without an evaluation, tau is 0."""
  setup, params = run.setup, run.setup.plan.params
  tau, is_finite = 0.0, True
  if cycle_control.has_evaluation(control):
    target = setup.target
    if soft_reset.needs_tau(params.reset_mode):
      tau = soft_reset.tau(
        float(control.last_metric),
        target.value,
        float(control.first_metric),
        target.rising,
      )
    is_finite = math.isfinite(control.last_loss) and math.isfinite(
      control.last_metric
    )
  if setup.reset_ops is not None:
    is_finite = is_finite and resetting.is_finite(
      model, setup.inner, setup.reset_ops
    )
  return soft_reset.plan_reset(params.reset_mode, tau, params.alpha, is_finite)


def _reset_event(run, control, reset, reason) -> dict[str, Any]:
  params = run.setup.plan.params
  return {
    'event': 'reset',
    'cycle': int(control.cycle) + 1,
    'reason': reason,
    'mode': params.reset_mode,
    'tau': reset.tau,
    'alpha': params.alpha,
    'metric': float(control.last_metric),
    'metric_step': int(control.last_eval_step),
  }


def _with_rate(events, run, step) -> list[dict[str, Any]]:
  """The events with the learning rate of a step."""
  rate = cycle_clock.table_rate(run.setup.rate_tables, run.clock, step)
  return [{**event, 'learning_rate': rate} for event in events]


def _record(run, rows, metrics_logger, global_step) -> None:
  """Writes events to cycles.csv and to the benchmark's metrics logger.

  After an evaluation the devices have been waited for, so that the loss and the
  gradient norm of the last step can be read without holding anything up.
  """
  if rows:
    metrics = run.step_metrics
    last_step = {} if metrics is None else run.setup.devices.get(metrics)
    run.setup.records.add_events(rows, global_step, metrics_logger, last_step)
