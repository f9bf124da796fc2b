"""When a cycle ends: evaluations are taken in and judged by the rules.

The functions here are pure: control and evaluations go in; control, an action
and events come out. What follows a cycle is in `following`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..schedules.cycle_clock import CycleClock
from . import following, history
from .events import cycle_start_event, evaluation_event
from .history import OPEN, Standing
from .horizons import Timing
from .policies import NextCycle, Situation
from .rules import (
  FINISH,
  GO_ON,
  RE_ANCHOR,
  RESET,
  WAIT,
  Decision,
  Event,
  Rules,
)
from .state import NEVER, Control, Evaluation
from .switching import Context, Verdict
from .way import linear_share

__all__ = [
  'FINISH',
  'GO_ON',
  'RESET',
  'RE_ANCHOR',
  'WAIT',
  'Decision',
  'Event',
  'Rules',
  'after_preemption',
  'cycle_start_event',
  'decide',
  'due',
  'evaluation_event',
  'first_clock',
  'goal_metric',
  'has_evaluation',
  'observe',
  'start',
]


def start(rules: Rules) -> Control:
  """The control before the first step."""
  first = _first_cycle(rules)
  control = Control(
    cycle=first.cycle,
    number=1,
    scale=first.scale,
    start=0,
    cycle_end=first.end,
    horizon=first.horizon,
    num_early_stops=0,
    num_evaluations=0,
    last_eval_step=-1,
    last_loss=math.nan,
    last_metric=math.nan,
    first_metric=math.nan,
    switching=rules.switching.initial,
    planning=rules.horizon.initial,
    spacing=0,
    give_up=-1,
    began=first.began,
    until=first.until,
    slot=first.slot,
    best=-math.inf,
    history=_empty_history(rules),
  )
  return following.take_up(control, rules)


def first_clock(rules: Rules) -> CycleClock:
  """The clock before the first step."""
  return following.clock_of(0, _first_cycle(rules), rules)


def _empty_history(rules: Rules) -> tuple[Standing, ...]:
  unbegun = Standing(switching=rules.switching.initial)
  return (unbegun,) * rules.policy.num_slots(rules.cycles)


def _first_cycle(rules: Rules) -> NextCycle:
  cycles = rules.cycles
  horizon = sum(cycle.steps for cycle in cycles)
  if not rules.policy.follows_chain:
    before = Situation(
      cycles, -1, 0, horizon, rules.horizon.binds, _empty_history(rules)
    )
    first = rules.policy.next(before)
    assert first is not None  # a chain has a cycle
    return first
  slot = 0 if rules.policy.num_slots(cycles) else -1
  return NextCycle(0, cycles[0].steps, horizon, slot=slot)


def has_evaluation(control: Control) -> bool:
  """Whether the run has been evaluated yet."""
  return control.last_eval_step >= 0


def due(control: Control) -> int:
  """The step before which control must act, even without a new evaluation."""
  return control.cycle_end if control.give_up < 0 else control.give_up


def after_preemption(control: Control) -> Control:
  """A restored control; the models that were kept on the host are lost."""
  kept = history.without_models(control.history)
  return control._replace(best=-math.inf, history=kept)


def goal_metric(control: Control, step: int, rules: Rules) -> float:
  """The metric that the run should have at this step."""
  share = min(step / control.horizon, 1.0)
  return rules.goal.metric(rules.target, control.first_metric, share)


def observe(
  control: Control, evaluation: Evaluation, rules: Rules
) -> tuple[Control, Verdict]:
  """The control after an evaluation of the current cycle, and the verdict."""
  first = control.first_metric if has_evaluation(control) else evaluation.metric
  share = _share_of_cycle(control, evaluation.step)
  context = Context(
    share_of_cycle=share,
    share_of_run=evaluation.step / control.horizon,
    target=rules.target,
    first_metric=first,
  )
  switching, verdict = rules.switching.observe(
    control.switching, evaluation, context
  )
  timing = Timing(
    evaluation.step, evaluation.seconds, control.horizon, rules.budget
  )
  planning, horizon = rules.horizon.observe(control.planning, timing)
  if horizon <= evaluation.step:  # behind us: the policy has postponed it
    horizon = control.horizon
  # Both runners evaluate after the first step, which says nothing about the
  # evaluation period.
  is_early = evaluation.step <= 1
  since = 0 if is_early else evaluation.step - max(control.last_eval_step, 0)
  control = control._replace(
    num_evaluations=control.num_evaluations + 1,
    last_eval_step=evaluation.step,
    last_loss=float(evaluation.loss),
    last_metric=float(evaluation.metric),
    first_metric=float(first),
    switching=switching,
    planning=planning,
    horizon=horizon,
    spacing=max(control.spacing, since),
  )
  return _remember(control, evaluation, share, rules), verdict


def _share_of_cycle(control: Control, step: int) -> float:
  """The share of the cycle's full length that lies before this step."""
  of_stint = (step - control.start) / (control.cycle_end - control.start)
  return control.began + of_stint * (control.until - control.began)


def _remember(
  control: Control, evaluation: Evaluation, share: float, rules: Rules
) -> Control:
  """Adds an evaluation to the history, if one is kept."""
  target, first = rules.target, control.first_metric
  if rules.keeps_best:
    way = linear_share(evaluation.metric, target, first)
    if way > control.best and math.isfinite(evaluation.loss):
      control = control._replace(best=way)
  if control.slot < 0:
    return control
  standing = control.history[control.slot]
  standing = history.observe(standing, evaluation, share, target, first)
  kept = following.with_standing(control.history, control.slot, standing)
  return control._replace(history=kept)


def decide(
  control: Control,
  clock: CycleClock,
  evaluations: Sequence[Evaluation],
  global_step: int,
  rules: Rules,
) -> Decision:
  """Takes in new evaluations, and ends the cycle if it is time.

  A cycle ends when its steps are over or, with early switching on, after an
  evaluation at which the switching rule gives a reason. The evaluation that
  follows a cycle's last step counts for that cycle: it sees the annealed model.
  With `wait` on, the cycle's end waits for it. A cycle that is to be paused ends
  at the evaluation that is expected to be nearest to its share. If the horizon
  moves, the rest of the cycle is stretched or compressed with it.

  Args:
    control: the current control.
    clock: a host copy of the current clock.
    evaluations: those not seen yet, in order.
    global_step: the step about to be taken.
    rules: the run's rules.

  Returns:
    The decision; if its action is RESET, control and clock are those of the
    cycle that starts now.
  """
  events, reason, planned = [], '', control.horizon
  for evaluation in evaluations:
    best = control.best
    control, verdict = observe(control, evaluation, rules)
    if evaluation.step != global_step:  # what was evaluated is gone
      control = control._replace(best=best)
    events.append(evaluation_event(control, evaluation, verdict))
    reason = reason or verdict.reason
  now = following.Moment(control, clock, global_step, rules, events)
  is_over = global_step >= control.cycle_end
  is_left = bool(reason) and _may_leave(control, rules)
  if is_left and (not is_over or control.until < 1):
    switched = following.switch(now, reason)
    if switched is not None:
      return switched
  if is_over:
    return following.wait(now) or following.end_cycle(now)
  if evaluations and _is_probed(control):
    return following.end_cycle(now)
  has_moved = control.horizon != planned and control.horizon > global_step
  moves = control.until == 1 or rules.horizon.binds
  if has_moved and moves and control.cycle_end != NEVER:
    return following.re_anchor(now, planned)
  return Decision(control, clock, GO_ON, events)


def _may_leave(control: Control, rules: Rules) -> bool:
  """Whether a reason given by the switching rule may end the cycle."""
  if not rules.early_switching:
    return False
  has_diverged = not math.isfinite(control.last_loss)
  return has_diverged or rules.policy.may_leave(control.history, control.slot)


def _is_probed(control: Control) -> bool:
  """Whether a cycle that is to be paused has had its last evaluation."""
  if control.until == 1 or control.slot < 0:
    return False
  standing = control.history[control.slot]
  is_seen = standing.state == OPEN and control.num_evaluations > 0
  return is_seen and history.is_nearest(standing, control.until)
