"""The start of a cycle: which reset it is, and how that is told. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import soft_reset
from ..control import decide
from ..control.decide import Decision, Event, Rules
from ..control.state import Control
from ..settings.checks import check
from ..soft_reset import Reset

# (metric, the run's first metric, step) -> share of fresh values in [0, 1].
Tau = Callable[[float, float, int], float]


# What a cycle starts from, as a reset mode; others need models that are kept.
STARTS = {'fresh': 'full', 'current': 'cyclic'}


def plan(
  rules: Rules,
  ended: Control,
  decision: Decision,
  own_tau: Tau | None,
  is_model_finite: Callable[[], bool],
) -> tuple[Reset, Event]:
  """The reset before the cycle that starts, and its event.

  tau is that of the last evaluation of the cycle that has ended. Without one,
  nothing is known against the model, and tau is 0.

  Args:
    rules: of the run.
    ended: the control before the decision.
    decision: with RESET.
    own_tau: in place of the distance to the goal; None for that.
    is_model_finite: looks at parameters and moments, if that matters.

  Raises:
    ValueError: if own_tau gives no share.
  """
  mode = STARTS.get(decision.start_from, rules.reset_mode)
  reset, note = soft_reset.plan_reset(mode, 0.0, rules.alpha, True), ''
  if soft_reset.needs_tau(mode):
    reset, note = _soft(rules, decision, own_tau, is_model_finite)
  return reset, _event(rules, ended, decision.control, reset, mode, note)


def _soft(
  rules: Rules,
  decision: Decision,
  own_tau: Tau | None,
  is_model_finite: Callable[[], bool],
) -> tuple[Reset, str]:
  control, is_known = decision.control, decision.was_evaluated
  last = control.last_loss + control.last_metric
  is_finite = (not is_known or math.isfinite(last)) and is_model_finite()
  tau = _tau(rules, control, own_tau) if is_known and is_finite else 0.0
  reset = soft_reset.plan_reset('soft', tau, rules.alpha, is_finite)
  is_unknown = is_finite and not is_known
  return reset, 'no evaluation in the cycle: tau is 0' if is_unknown else ''


def _tau(rules: Rules, control: Control, own_tau: Tau | None) -> float:
  metric, first = control.last_metric, control.first_metric
  if own_tau is None:
    goal = decide.goal_metric(control, control.start, rules)
    return soft_reset.tau(
      metric, goal, first, rules.target.rising, rules.distance
    )
  value = own_tau(metric, first, control.start)
  name = f'tau({metric}, {first}, {control.start})'
  check(0 <= value <= 1, name, value, 'in [0, 1]')
  return float(value)


def _event(
  rules: Rules,
  ended: Control,
  started: Control,
  reset: Reset,
  mode: str,
  note: str,
) -> Event:
  """The event of a reset, between the controls before and after it."""
  is_early = started.num_early_stops > ended.num_early_stops
  return {
    'event': 'reset',
    'cycle': started.number,
    'reason': 'early' if is_early else 'scheduled',
    'mode': mode,
    'tau': reset.tau,
    'alpha': rules.alpha,
    'metric': started.last_metric,
    'metric_step': started.last_eval_step,
    'note': note,
  }
