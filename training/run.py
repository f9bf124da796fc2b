"""One run: what happens between its train steps."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..control import decide
from ..control import events as what
from ..control.decide import Decision, Event
from ..control.state import Evaluation, from_words, to_words
from . import evaluated, starting
from . import workload as workload_facts
from .devices import PmapDevices
from .resetting import Model
from .run_state import Run
from .set_up import SavedState
from .workload import EvalResults, MetricsLogger, WorkloadApi


def is_due(
  run: Run, eval_results: EvalResults | None, global_step: int
) -> bool:
  """Whether there is anything to do before this step except training.

  This is all that control costs an ordinary step: comparisons of whole numbers.
  """
  return (
    global_step >= run.due or len(eval_results or ()) != run.evaluations_seen
  )


def act(
  saved: SavedState,
  run: Run,
  model: Model,
  workload: WorkloadApi,
  eval_results: EvalResults | None,
  global_step: int,
) -> tuple[SavedState, Run, Model]:
  """Takes in evaluations, decides, and does what was decided.

  Returns:
    The state and the model with which the step is to be taken.

  Raises:
    TrainingCompleteError: (the benchmark's) if the cycles have run out and the
      policy is to finish.
    ValueError: if an evaluation lacks the workload's target metric.
  """
  if run.control is None:
    saved, run, model = _adopt(saved, run, model, workload, global_step)
    evaluations = _unseen_by_resumed(run, eval_results, global_step)
  else:
    evaluations = _unseen(run, eval_results)
  before, logger = run.control, workload.metrics_logger
  decision = decide.decide(
    before, run.clock, evaluations, global_step, run.setup.rules
  )
  if decision.events or decision.action == decide.RESET:
    run = _draw_rates(run, logger, global_step)
  run, model, events = _carry_out(run, model, decision, global_step)
  if run.averaged is not None:
    is_new = decision.action == decide.RESET
    saved, run, events = evaluated.take_in(
      saved, run, model, evaluations, events, is_new, eval_results, global_step
    )
  _record(run, events, logger, global_step)
  if decision.action == decide.FINISH:
    raise run.setup.training_complete_error
  run = run._replace(
    due=evaluated.next_due(run, global_step),
    evaluations_seen=len(eval_results or ()),
  )
  if run.control is not before:
    words = run.setup.devices.put(to_words(run.control))
    saved = saved._replace(control=words)
  return saved, run, model


def record_last_evaluations(
  run: Run, eval_results: EvalResults, global_step: int
) -> None:
  """Records the evaluations after a run's last step.

  No runner shows these to update_params, and nothing follows from them.

  Args:
    run: the run after its last step.
    eval_results: all of the run's evaluations.
    global_step: steps taken.
  """
  control, events = run.control, []
  if control is None:
    return
  for evaluation in _unseen(run, eval_results):
    control, verdict = decide.observe(control, evaluation, run.setup.rules)
    events.append(what.evaluation_event(control, evaluation, verdict))
  averaged = run.averaged and run.averaged.taken_back(global_step)
  events = evaluated.with_weights(averaged, events)
  _record(run, events, None, global_step)


def after_first_step(run: Run, params: Any, model_state: Any) -> None:
  """Checks the shapes after the first step, which may change them.

  Raises:
    ValueError: if init_model_fn's parameters do not fit the trained ones.
  """
  if run.setup.fresh_models is not None:
    run.setup.fresh_models.check_shapes(params, model_state)


def _adopt(
  saved: SavedState,
  run: Run,
  model: Model,
  workload: WorkloadApi,
  global_step: int,
) -> tuple[SavedState, Run, Model]:
  """Takes over the state that the runner hands to the first step.

  It is that of set_up or, in a resumed run, a restored one. The current
  benchmark's restore leaves a device axis on everything; it is removed.
  """
  setup = run.setup
  has_axis = workload_facts.has_device_axis(workload, model.params)
  if has_axis > setup.has_device_axis:
    saved, model = PmapDevices().get((saved, model))
  model = setup.devices.place(model)
  words = setup.devices.get(saved.control)
  control = from_words(words, decide.start(setup.rules))
  if global_step > 0:
    control = decide.after_preemption(control)
  clock = setup.devices.get(model.opt_state.clock)
  run = run._replace(control=control, clock=clock)
  run = run._replace(drawn=global_step)
  columns = setup.rules.switching.columns
  if setup.averager is not None:
    columns = (*columns, evaluated.COLUMN)
    saved, run, params = evaluated.adopt(saved, run, model.params, global_step)
    model = model._replace(params=params)
  setup.records.start(global_step, columns)
  if global_step == 0:
    first = what.cycle_start_event(control, clock, setup.rules)
    _record(run, [first], workload.metrics_logger, 0)
  return saved, run, model


def _unseen(run: Run, eval_results: EvalResults | None) -> list[Evaluation]:
  if len(eval_results or ()) == run.evaluations_seen:
    return []
  return workload_facts.new_evaluations(
    eval_results, run.control.last_eval_step, run.setup.rules.target
  )


def _unseen_by_resumed(
  run: Run, eval_results: EvalResults | None, global_step: int
) -> list[Evaluation]:
  """The evaluations that the saved state has not taken in yet.

  A checkpoint is written right after an evaluation, before update_params has
  seen it. If eval_results were lost, the benchmark's log has the evaluation.
  """
  last_step, target = run.control.last_eval_step, run.setup.rules.target
  found = workload_facts.new_evaluations(eval_results, last_step, target)
  # A run that is just starting may find the log of another one.
  if found or run.setup.records.folder is None or global_step == 0:
    return found
  return workload_facts.logged_evaluations(
    run.setup.records.folder, last_step, global_step, target
  )


def _carry_out(
  run: Run, model: Model, decision: Decision, global_step: int
) -> tuple[Run, Model, list[Event]]:
  """Does what was decided; returns the run, the model and all events."""
  ended, events = run.control, decision.events
  run = starting.keep_models(run, model, decision)
  run = run._replace(control=decision.control, clock=decision.clock)
  if decision.action == decide.RESET:
    run, model, event = starting.start_from(run, model, ended, decision)
    start = what.cycle_start_event(run.control, run.clock, run.setup.rules)
    events = [*events, event, start]
  if decision.action in (decide.RESET, decide.RE_ANCHOR):
    clock = run.setup.devices.put(run.clock)
    model = model._replace(opt_state=model.opt_state._replace(clock=clock))
  return run, model, events


def _draw_rates(
  run: Run, metrics_logger: MetricsLogger | None, global_step: int
) -> Run:
  """Logs the learning rates since the last events, by the clock until now."""
  if metrics_logger is not None:
    run.setup.records.draw_rates(
      metrics_logger,
      functools.partial(_learning_rate, run),
      run.drawn,
      global_step,
      run.control.horizon,
    )
  return run._replace(drawn=global_step)


def _learning_rate(run: Run, step: int) -> float:
  """The learning rate of a step, as the clock stands now."""
  clock = run.clock._replace(count=np.int32(step))
  return float(run.setup.learning_rate(clock))


def _record(
  run: Run,
  events: list[Event],
  metrics_logger: MetricsLogger | None,
  global_step: int,
) -> None:
  """Writes events to cycles.csv and to the benchmark's metrics logger.

  After an evaluation the devices have been waited for, so the last step's
  metrics can be read without delaying anything.
  """
  if not events:
    return
  setup, rate = run.setup, _learning_rate(run, global_step)
  events = [{**event, 'learning_rate': rate} for event in events]
  metrics = {}
  if metrics_logger is not None and run.step_metrics is not None:
    metrics = setup.devices.get(run.step_metrics)
  setup.records.add_events(events, global_step, metrics_logger, metrics)
