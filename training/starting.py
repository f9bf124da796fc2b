"""What a cycle starts from: a reset of the model, or one that was kept.

The functions take the run before a step and the model, both as of the decision
that a cycle starts.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from .. import soft_reset
from ..control import decide
from ..control.decide import Decision, Event
from ..control.state import Control
from ..optimizers.pool import Untouched
from ..soft_reset import Reset
from . import resetting, snapshots
from .resetting import Model
from .snapshots import Kept

if TYPE_CHECKING:
  from .run import Run

# What a cycle starts from, as a reset mode.
_MODES = {'fresh': 'full', 'current': 'cyclic'}
_NOTHING = Reset(0.0, 1.0, True)


def keep_models(run: Run, model: Model, decision: Decision) -> Run:
  """Copies the model to the host, if a later cycle may start from it.

  It waits for the devices. What was copied is not in any checkpoint.

  Args:
    run: with the control before the decision.
    model: laid out on the devices.
    decision: what follows.
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
    run: with the control of that cycle.
    model: that of the cycle before, which is donated.
    ended: the control of the cycle before.
    decision: says from what.

  Returns:
    The run, the model, and the event that says what was done.
  """
  start, note = decision.start_from, ''
  keys = {'paused': run.control.slot, 'best': snapshots.BEST}
  if start in keys:
    kept = run.kept.get(keys[start])
    if kept is not None:
      model = _put_back(run, model, kept)
      note = _begins(run, kept.cycle)
      event = _reset_event(run, ended, _NOTHING, start, note)
      return _without_paused(run, start), model, event
    start, note = '', f'no {start} model is kept'
  mode = _MODES.get(start, run.setup.rules.reset_mode)
  reset, unknown = plan_reset(run, ended, model, decision.was_evaluated, mode)
  model = _reset(run, ended, model, reset)
  notes = filter(None, (note or unknown, _begins(run, ended.cycle)))
  return run, model, _reset_event(run, ended, reset, mode, '; '.join(notes))


def _without_paused(run: Run, start: str) -> Run:
  """A paused model goes on, and its copy is not needed any more."""
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
  """Says if the optimizer is not that of the cycle before; else ''."""
  setup, cycle = run.setup, run.control.cycle
  if setup.inners[cycle] == setup.inners[cycle_before]:
    return ''
  return f'{setup.rules.cycles[cycle].optimizer} begins'


def _begin(run: Run, model: Model, cycle_before: int) -> Model:
  """An optimizer that is not that of before begins anew, from the parameters."""
  if not _begins(run, cycle_before):
    return model
  setup, cycle = run.setup, run.control.cycle
  pool, params = setup.beginnings[cycle]((model.opt_state, model.params))
  return model._replace(params=params, opt_state=pool)


def plan_reset(
  run: Run, ended: Control, model: Model, was_evaluated: bool, mode: str
) -> tuple[Reset, str]:
  """The reset before the cycle that starts, and what is to be said of it.

  tau is that of the last evaluation of the cycle that has ended. Without one,
  nothing is known against the model, and tau is 0.
  """
  setup, control, rules = run.setup, run.control, run.setup.rules
  if not soft_reset.needs_tau(mode):
    return soft_reset.plan_reset(mode, 0.0, rules.alpha, True), ''
  tau, is_finite = 0.0, True
  if was_evaluated:
    tau = _tau(run)
    is_finite = math.isfinite(control.last_loss + control.last_metric)
  if setup.reset_ops is not None:
    inner_model = model._replace(opt_state=model.opt_state.inner)
    is_finite = is_finite and resetting.is_finite(
      inner_model, setup.inners[ended.cycle], setup.reset_ops
    )
  reset = soft_reset.plan_reset(mode, tau, rules.alpha, is_finite)
  unknown = is_finite and not was_evaluated
  return reset, 'no evaluation in the cycle: tau is 0' if unknown else ''


def _tau(run: Run) -> float:
  """The share of the way to the goal that is left at this boundary."""
  control, rules = run.control, run.setup.rules
  return soft_reset.tau(
    control.last_metric,
    decide.goal_metric(control, control.start, rules),
    control.first_metric,
    rules.target.rising,
    rules.distance,
  )


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


def _reset_event(
  run: Run, ended: Control, reset: Reset, mode: str, note: str
) -> Event:
  control, rules = run.control, run.setup.rules
  early = control.num_early_stops > ended.num_early_stops
  return {
    'event': 'reset',
    'cycle': control.number,
    'reason': 'early' if early else 'scheduled',
    'mode': mode,
    'tau': reset.tau,
    'alpha': rules.alpha,
    'metric': control.last_metric,
    'metric_step': control.last_eval_step,
    'note': note,
  }
