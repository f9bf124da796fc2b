"""What a cycle starts from: a reset of the model, or a model that was kept.

The functions take the run and the model before the step at which a cycle
starts.
"""

from __future__ import annotations

import functools
from types import MappingProxyType

from ..control import reset_plan
from ..control.decide import Decision, Event
from ..control.reset_plan import ResetPlan
from ..control.state import Control
from ..optimizers.pool import Untouched
from ..soft_reset import Reset
from . import resetting, snapshots
from .resetting import Model
from .run_state import Run
from .snapshots import Kept


def keep_models(run: Run, model: Model, decision: Decision) -> Run:
  """Copies the model to the host, if a later cycle may start from it.

  This waits for the devices. The copy is not in any checkpoint.

  Args:
    run: the run; its control is that before the decision.
    model: laid out on the devices.
    decision: the decision.

  Returns:
    The run with the copy.
  """
  keys = [decision.paused] if decision.paused >= 0 else []
  if decision.control.best > run.control.best:
    keys.append(snapshots.BEST)
  if not keys:
    return run
  inner = model._replace(opt_state=model.opt_state.inner)
  copy = snapshots.take(inner, run.setup.devices)
  kept = Kept(run.control.cycle, copy)
  new = {**run.kept, **dict.fromkeys(keys, kept)}
  return run._replace(kept=MappingProxyType(new))


def start_from(
  run: Run, model: Model, ended: Control, decision: Decision
) -> tuple[Run, Model, Event]:
  """Makes the model with which the cycle starts.

  Args:
    run: the run; its control is that of the starting cycle.
    model: that of the cycle before, which is donated.
    ended: the control of the cycle before.
    decision: says what the cycle starts from.

  Returns:
    The run, the model, and the event that reports what was done.
  """
  rules, start = run.setup.rules, decision.start_from
  keys = {'paused': run.control.slot, 'best': snapshots.BEST}
  kept, before = run.kept.get(keys.get(start)), ended.cycle
  if kept is not None:
    planned, before = ResetPlan(reset_plan.UNTOUCHED, start), kept.cycle
    model = _put_back(run, model, kept)
    run = _without_paused(run, start)
  else:
    missing = f'no {start} model is kept' if start in keys else ''
    look = functools.partial(_is_finite, run, model, ended)
    planned = reset_plan.plan(rules, decision, '' if missing else start, look)
    planned = planned._replace(note=missing or planned.note)
    model = _reset(run, ended, model, planned.reset)
  notes = filter(None, (planned.note, _begins(run, before)))
  planned = planned._replace(note='; '.join(notes))
  return run, model, reset_plan.event(planned, rules, ended, run.control)


def _is_finite(run: Run, model: Model, ended: Control) -> bool:
  """Whether the model of the cycle that has ended is finite."""
  setup = run.setup
  inner_model = model._replace(opt_state=model.opt_state.inner)
  inner = setup.inners[ended.cycle]
  return resetting.is_finite(inner_model, inner, setup.reset_ops)


def _without_paused(run: Run, start: str) -> Run:
  """The run without the copy of a paused model that has been resumed."""
  if start != 'paused':
    return run
  rest = {key: v for key, v in run.kept.items() if key != run.control.slot}
  return run._replace(kept=MappingProxyType(rest))


def _put_back(run: Run, model: Model, kept: Kept) -> Model:
  """The model that was kept, in place of this one; the clock stays."""
  setup, state = run.setup, model.opt_state
  inner = model._replace(opt_state=state.inner)
  inner = snapshots.restore(inner, kept.model, setup.reset_ops)
  inner = _begin(run, inner, kept.cycle)
  return inner._replace(opt_state=state._replace(inner=inner.opt_state))


def _begins(run: Run, cycle_before: int) -> str:
  """A note that the optimizer changes from the cycle before's; else ''."""
  setup, cycle = run.setup, run.control.cycle
  if setup.inners[cycle] == setup.inners[cycle_before]:
    return ''
  return f'{setup.rules.cycles[cycle].optimizer} begins'


def _begin(run: Run, model: Model, cycle_before: int) -> Model:
  """The model with a new optimizer state, if the optimizer has changed."""
  if not _begins(run, cycle_before):
    return model
  setup, cycle = run.setup, run.control.cycle
  pool, params = setup.beginnings[cycle]((model.opt_state, model.params))
  return model._replace(params=params, opt_state=pool)


def _reset(run: Run, ended: Control, model: Model, reset: Reset) -> Model:
  """Resets the model; the clock stays as it is."""
  setup, state = run.setup, model.opt_state
  inner = setup.inners[run.control.cycle]
  begins = bool(_begins(run, ended.cycle))
  model = model._replace(opt_state=state.inner)
  if not reset.touches_nothing:
    fresh = setup.fresh_models.take(run.control.number - 2)
    model = resetting.model_reinit_schedule(
      model, fresh, reset, Untouched() if begins else inner, setup.reset_ops
    )
  model = _begin(run, model, ended.cycle)
  return model._replace(opt_state=state._replace(inner=model.opt_state))
