"""The start of a cycle: which reset it is, and how that is told."""

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

# What a cycle starts from, as a reset mode; the others are models that are kept.
MODES = {'fresh': 'full', 'current': 'cyclic'}
UNTOUCHED = Reset(0.0, 1.0, True)


class ResetPlan(NamedTuple):
  """What happens to the model as a cycle starts."""

  reset: Reset
  mode: str  # of the reset
  note: str = ''  # what is to be said of it


def plan(
  rules: Rules,
  decision: Decision,
  start: str,
  is_model_finite: Callable[[], bool],
  own_tau: Tau | None = None,
) -> ResetPlan:
  """The reset before the cycle that starts.

  tau is that of the last evaluation of the cycle that has ended. Without one,
  nothing is known against the model, and tau is 0. A model that is not finite
  would stay so: 'current' is a fresh one then.

  Args:
    rules: of the run.
    decision: with RESET.
    start: '', 'fresh' or 'current'; see `NextCycle.start_from`.
    is_model_finite: looks at model and optimizer state, if that matters.
    own_tau: in place of the distance to the goal; None for that.

  Raises:
    ValueError: if own_tau gives no share.
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
  """The share of the way to the goal that is left at this boundary."""
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
  """The event of a reset, between the controls before and after it."""
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
