"""Which reset a cycle starts with, and the event that reports it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from .. import soft_reset
from ..settings.checks import check
from ..soft_reset import Reset
from .decide import goal_metric
from .rules import Decision, Event, Rules
from .state import Control

# (metric, the run's first metric, step) -> share of fresh values in [0, 1].
Tau = Callable[[float, float, int], float]

# The reset mode of each start_from that needs no kept model.
MODES = {'fresh': 'full', 'current': 'cyclic'}
UNTOUCHED = Reset(0.0, 1.0, True)


class ResetPlan(NamedTuple):
  """What happens to the model as a cycle starts."""

  reset: Reset
  mode: str  # of the reset
  note: str = ''  # for the event


def plan(
  rules: Rules,
  decision: Decision,
  start: str,
  is_model_finite: Callable[[], bool],
  own_tau: Tau | None = None,
) -> ResetPlan:
  """The reset before the cycle that starts.

  tau is taken at the last evaluation of the cycle that has ended. Without one,
  nothing speaks against the model, and tau is 0. A model that is not finite
  would stay so: with 'current' a fresh one takes its place.

  Args:
    rules: the run's rules.
    decision: a decision whose action is RESET.
    start: '', 'fresh' or 'current'; see `NextCycle.start_from`.
    is_model_finite: whether model and optimizer state are finite; called only
      if that matters.
    own_tau: replaces the distance to the goal; None for that distance.

  Raises:
    ValueError: if own_tau returns a value outside [0, 1].
  """
  mode, tau, note = MODES.get(start, rules.reset_mode), 0.0, ''
  is_soft = soft_reset.needs_tau(mode)
  if not is_soft and start != 'current':
    return ResetPlan(soft_reset.plan_reset(mode, tau, rules.alpha, True), mode)
  control, is_known = decision.control, decision.was_evaluated
  last = control.last_loss + control.last_metric
  is_finite = (not is_known or math.isfinite(last)) and is_model_finite()
  if is_soft and is_finite and is_known:
    tau = _tau(rules, control, own_tau)
  elif is_soft and is_finite:
    note = 'no evaluation in the cycle: tau is 0'
  elif not is_soft and not is_finite:
    mode, note = 'full', 'the current model is not finite'
  reset = soft_reset.plan_reset(mode, tau, rules.alpha, is_finite)
  return ResetPlan(reset, mode, note)


def _tau(rules: Rules, control: Control, own_tau: Tau | None) -> float:
  """The share of the way to the goal that is left where the cycle ends."""
  metric, first = control.last_metric, control.first_metric
  if own_tau is None:
    goal = goal_metric(control, control.start, rules)
    return soft_reset.tau(
      metric, goal, first, rules.target.rising, rules.distance
    )
  value = own_tau(metric, first, control.start)
  name = f'tau({metric}, {first}, {control.start})'
  check(0 <= value <= 1, name, value, 'in [0, 1]')
  return float(value)


def event(
  planned: ResetPlan, rules: Rules, ended: Control, started: Control
) -> Event:
  """The event of a reset; `ended` and `started` are the controls around it."""
  is_early = started.num_early_stops > ended.num_early_stops
  return {
    'event': 'reset',
    'cycle': started.number,
    'reason': 'early' if is_early else 'scheduled',
    'mode': planned.mode,
    'tau': planned.reset.tau,
    'alpha': rules.alpha,
    'metric': started.last_metric,
    'metric_step': started.last_eval_step,
    'note': planned.note,
  }
