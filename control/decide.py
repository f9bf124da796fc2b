"""When a cycle ends and what follows it.

The functions here are pure: control and evaluations in, control, an action and
events out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..schedules import cycle_clock
from ..schedules.cycle import Cycle
from ..schedules.cycle_clock import CycleClock
from ..schedules.lr_schedule import cycle_ends
from .goals import Goal
from .horizons import Horizon, Timing
from .policies import NextCycle, Policy, Situation
from .state import NEVER, Control, Evaluation, Target
from .switching import Context, SwitchingRule, Verdict

# What to do before the next train step.
GO_ON, RE_ANCHOR, RESET, FINISH = 'go_on', 're_anchor', 'reset', 'finish'

Event = dict[str, Any]


class Rules(NamedTuple):
  """What decides; the same through a run."""

  cycles: tuple[Cycle, ...]
  target: Target
  switching: SwitchingRule
  early_switching: bool  # whether a verdict ends a cycle, or is logged only
  goal: Goal
  horizon: Horizon
  policy: Policy
  reset_mode: str  # what the start of a cycle does to the model
  alpha: float  # share of tau that the moments get
  distance: str = 'log'  # scale of tau where the metric falls
  budget: float = math.nan  # seconds that the run may take; NaN if unknown


class Decision(NamedTuple):
  """The outcome of `decide`."""

  control: Control
  clock: CycleClock  # a new one with RE_ANCHOR and RESET
  action: str  # GO_ON, RE_ANCHOR, RESET or FINISH
  events: list[Event]  # in the order in which they happened
  # With RESET, whether the cycle that has ended was ever evaluated.
  was_evaluated: bool = True


def start(rules: Rules) -> Control:
  """The control before the first step."""
  return Control(
    cycle=0,
    number=1,
    scale=1.0,
    start=0,
    cycle_end=rules.cycles[0].steps,
    horizon=sum(cycle.steps for cycle in rules.cycles),
    num_early_stops=0,
    num_evaluations=0,
    last_eval_step=-1,
    last_loss=math.nan,
    last_metric=math.nan,
    first_metric=math.nan,
    switching=rules.switching.initial,
    planning=rules.horizon.initial,
  )


def first_clock(rules: Rules) -> CycleClock:
  """The clock before the first step."""
  steps = rules.cycles[0].steps
  return cycle_clock.anchored_clock(0, 0, 0.0, steps, steps)


def has_evaluation(control: Control) -> bool:
  """Whether the run has been evaluated yet."""
  return control.last_eval_step >= 0


def goal_metric(control: Control, step: int, rules: Rules) -> float:
  """The metric that the run should have at this step."""
  share = min(step / control.horizon, 1.0)
  return rules.goal.metric(rules.target, control.first_metric, share)


def observe(
  control: Control, evaluation: Evaluation, rules: Rules
) -> tuple[Control, Verdict]:
  """Takes in one evaluation of the current cycle."""
  first = control.first_metric if has_evaluation(control) else evaluation.metric
  context = Context(
    share_of_cycle=(evaluation.step - control.start)
    / (control.cycle_end - control.start),
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
  if horizon <= evaluation.step:  # behind us: the policy has put it off
    horizon = control.horizon
  control = control._replace(
    num_evaluations=control.num_evaluations + 1,
    last_eval_step=evaluation.step,
    last_loss=float(evaluation.loss),
    last_metric=float(evaluation.metric),
    first_metric=float(first),
    switching=switching,
    planning=planning,
    horizon=horizon,
  )
  return control, verdict


def decide(
  control: Control,
  clock: CycleClock,
  evaluations: Sequence[Evaluation],
  global_step: int,
  rules: Rules,
) -> Decision:
  """Takes in new evaluations, and ends the cycle if it is time.

  A cycle ends when its steps are over or, with early switching on, after an
  evaluation for which the switching rule has a reason. The evaluation that
  follows a cycle's last step counts for that cycle: it sees the annealed model.
  Where the horizon moves, the cycle's rest is stretched or pressed with it.

  Args:
    control: the current control.
    clock: a host copy of the current clock.
    evaluations: those not seen yet, in order.
    global_step: the step about to be taken.
    rules: what decides.

  Returns:
    The decision; with RESET, control and clock are those of the cycle that
    starts now.
  """
  events, reason, planned = [], '', control.horizon
  for evaluation in evaluations:
    control, verdict = observe(control, evaluation, rules)
    events.append(evaluation_event(control, evaluation, verdict))
    reason = reason or verdict.reason
  if global_step >= control.cycle_end:
    return _end_cycle(control, clock, global_step, rules, events)
  if reason and rules.early_switching:
    switched = _switch(control, clock, global_step, rules, events, reason)
    if switched is not None:
      return switched
  has_moved = control.horizon != planned and control.horizon > global_step
  if has_moved and control.cycle_end != NEVER:
    return _re_anchor(control, clock, global_step, rules, events, planned)
  return Decision(control, clock, GO_ON, events)


def evaluation_event(
  control: Control, evaluation: Evaluation, verdict: Verdict
) -> Event:
  """The event of an evaluation, with the control after it."""
  return {
    'event': 'evaluation',
    'cycle': control.number,
    'evaluation': control.num_evaluations,
    'loss': evaluation.loss,
    **verdict.terms,
    'metric': evaluation.metric,
    'metric_step': evaluation.step,
  }


def _next_cycle(
  control: Control, global_step: int, rules: Rules
) -> NextCycle | None:
  situation = Situation(
    rules.cycles,
    control.cycle,
    global_step,
    control.horizon,
    rules.horizon.binds,
  )
  return rules.policy.next(situation)


def _switch(
  control: Control,
  clock: CycleClock,
  global_step: int,
  rules: Rules,
  events: list[Event],
  reason: str,
) -> Decision | None:
  """Leaves the cycle; None if it is held, since nothing would follow it."""
  following = _next_cycle(control, global_step, rules)
  is_held = control.cycle_end == NEVER
  if is_held or (following is None and rules.policy.holds):
    return None
  control = control._replace(num_early_stops=control.num_early_stops + 1)
  events.append({'event': 'switch', 'cycle': control.number, 'reason': reason})
  return _follow(control, clock, global_step, rules, events, following)


def _end_cycle(
  control: Control,
  clock: CycleClock,
  global_step: int,
  rules: Rules,
  events: list[Event],
) -> Decision:
  following = _next_cycle(control, global_step, rules)
  return _follow(control, clock, global_step, rules, events, following)


def _follow(
  control: Control,
  clock: CycleClock,
  global_step: int,
  rules: Rules,
  events: list[Event],
  following: NextCycle | None,
) -> Decision:
  """Goes on to the next cycle, or to whatever follows the last one."""
  if following is None:
    return _run_out(control, clock, rules, events)
  was_evaluated = control.num_evaluations > 0
  control = control._replace(
    cycle=following.cycle,
    number=control.number + 1,
    scale=following.scale,
    start=global_step,
    cycle_end=following.end,
    horizon=following.horizon,
    num_evaluations=0,
    switching=rules.switching.initial,
  )
  clock = cycle_clock.anchored_clock(
    global_step,
    following.cycle,
    0.0,
    rules.cycles[following.cycle].steps,
    following.end,
    following.scale,
  )
  return Decision(control, clock, RESET, events, was_evaluated)


def _run_out(
  control: Control, clock: CycleClock, rules: Rules, events: list[Event]
) -> Decision:
  if rules.policy.holds:
    events.append({'event': 'hold', 'cycle': control.number})
    control = control._replace(cycle_end=NEVER)
    return Decision(control, clock, GO_ON, events)
  reason = 'cycles have run out'
  events.append({'event': 'finish', 'cycle': control.number, 'reason': reason})
  return Decision(control, clock, FINISH, events)


def _re_anchor(
  control: Control,
  clock: CycleClock,
  global_step: int,
  rules: Rules,
  events: list[Event],
  planned: int,
) -> Decision:
  """Lays the rest of the run over the steps that the new horizon leaves.

  The current cycle keeps its place on the clock. Its nominal rest and the
  cycles to come share the remaining steps by their nominal lengths. After the
  chain's last cycle the policy may add others, of which nothing is planned but
  that they fill the steps from the current one's end to the horizon: they keep
  their share of what was left up to `planned`, the horizon until now.
  """
  cycles, i = rules.cycles, control.cycle
  local = cycle_clock.local_step_on_host(clock, global_step)
  rest = [cycles[i].steps - local]
  rest += [cycle.steps for cycle in cycles[i + 1 :]]
  end = cycle_ends(global_step, control.horizon, rest)[0]
  if i + 1 == len(cycles):
    end = _in_proportion(control.cycle_end, global_step, planned, control)
  control = control._replace(cycle_end=end)
  clock = cycle_clock.anchored_clock(
    global_step, i, local, cycles[i].steps, end, control.scale
  )
  events.append(clock_event(control, clock))
  return Decision(control, clock, RE_ANCHOR, events)


def _in_proportion(
  end: int, global_step: int, planned: int, control: Control
) -> int:
  """The end that has the share of the steps left that it had as planned."""
  left = control.horizon - global_step
  had = max(planned, end) - global_step
  return global_step - (global_step - end) * left // had


def clock_event(control: Control, clock: CycleClock) -> Event:
  """The event of a clock that was anchored anew in the middle of a cycle."""
  return {
    'event': 'clock',
    'cycle': control.number,
    'setting': control.cycle + 1,
    'cycle_end': control.cycle_end,
    'anchor_local': float(clock.anchor_local),
    'pace': float(clock.pace),
    'scale': float(clock.scale),
  }


def cycle_start_event(
  control: Control, clock: CycleClock, rules: Rules
) -> Event:
  """The event of a cycle that starts at this step."""
  return {
    **clock_event(control, clock),
    'event': 'cycle_start',
    'peak_value': rules.cycles[control.cycle].peak * control.scale,
  }
