"""From an evaluation to a decision: when a cycle ends, and what follows it.

Pure functions: control and evaluations go in; control, clock, an action and
events come out. `observe` takes in one evaluation, `decide` tells the story of
a step before which there is something to decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import soft_reset
from ..early_switching import Context, Verdict
from ..soft_reset import FULL, ResetPlan, SoftReset
from . import horizon, schedules
from .checks import check
from .race import current
from .schedules import CycleClock
from .state import NO_EVALUATION, Control, RunConfig
from .workload import Evaluation

# What to do before the next train step.
GO_ON, RE_ANCHOR, RESET, FINISH = 'go_on', 're_anchor', 'reset', 'finish'

Event = dict[str, Any]


class Decision(NamedTuple):
  """The outcome of `decide`."""

  control: Control
  clock: CycleClock  # a new one with RE_ANCHOR and RESET
  action: str  # GO_ON, RE_ANCHOR, RESET or FINISH
  events: list[Event]  # in the order in which they happened
  due: int  # the step before which to decide again, even without an evaluation
  ended: Control  # that of the cycle that has ended, for RESET


def start(config: RunConfig) -> tuple[Control, CycleClock]:
  """The control and the clock before the first step."""
  control = Control(
    cycle=0,
    number=1,
    scale=1.0,
    start=0,
    chain_start=0,
    end=config.cycles[0].steps,
    horizon=sum(cycle.steps for cycle in config.cycles),
    num_early_stops=0,
    num_evaluations=0,
    last=NO_EVALUATION,
    first=NO_EVALUATION,
    switching=config.settings.switching.initial,
    pace=horizon.Pace(),
    scores=(),
  )
  control = config.settings.policy.begin(control)
  return control, _clock_of(control, config)


def _clock_of(control: Control, config: RunConfig) -> CycleClock:
  """The clock at the first step of the control's cycle."""
  steps = config.cycles[control.cycle].steps
  return schedules.anchored_clock(
    control.start, control.cycle, 0.0, steps, control.end, control.scale
  )


def observe(
  control: Control, evaluation: Evaluation, config: RunConfig
) -> tuple[Control, Verdict]:
  """The control after an evaluation of the current cycle, and the verdict."""
  first = control.first if control.first.step >= 0 else evaluation
  begin, end = control.start, control.end
  if config.settings.switching.judges_chain:
    begin, end = control.chain_start, max(control.horizon, end)
  context = Context(
    share=(evaluation.step - begin) / (end - begin),
    target=config.target,
    first_metric=first.metric,
  )
  switching, verdict = config.settings.switching.observe(
    control.switching, evaluation, context
  )
  pace = horizon.observe(control.pace, control.last, evaluation)
  left = config.budget - evaluation.seconds
  to_come = config.settings.horizon.steps_to_come(pace, left)
  planned = evaluation.step + to_come if to_come else control.horizon
  if config.settings.horizon.is_hard_limit and config.most_steps < planned:
    planned = int(config.most_steps)
  scores = list(control.scores)
  if scores:
    way = soft_reset.progress(evaluation.metric, config.target, first.metric)
    i = current(scores)
    # Python's max keeps its first argument where the other is NaN.
    scores[i] = scores[i]._replace(progress=max(scores[i].progress, way))
  return control._replace(
    num_evaluations=control.num_evaluations + 1,
    last=evaluation,
    first=first,
    switching=switching,
    pace=pace,
    horizon=planned,
    scores=tuple(scores),
  ), verdict


def decide(
  control: Control,
  clock: CycleClock,
  evaluations: Sequence[Evaluation],
  step: int,
  config: RunConfig,
) -> Decision:
  """Takes in new evaluations, and ends the cycle if it is time.

  A cycle ends when its steps are over or, with early switching, after an
  evaluation at which the switching rule gives a reason. The evaluation that
  follows a cycle's last step counts for that cycle: it sees the annealed model.
  A rule that judges the chain is heard there, too. With `wait`, and at a hard
  horizon after which a cycle follows, the cycle's end waits for it, for at most
  the longest interval between evaluations so far, and no longer than up to a
  horizon that is not hard. Where no interval is known or the loss is not
  finite, nothing is waited for. If the horizon moves, the rest of the cycle is
  stretched or compressed with it.

  Args:
    control: the current control.
    clock: a host copy of the current clock.
    evaluations: those not seen yet, in order.
    step: the step about to be taken.
    config: the run's.
  """
  events: list[Event] = []
  reason, planned = '', control.horizon
  for evaluation in evaluations:
    control, verdict = observe(control, evaluation, config)
    events.append(evaluation_event(control, verdict))
    reason = reason or verdict.reason
  is_over = step >= control.end
  may_leave = not _is_finite(control) or config.settings.policy.may_leave(
    control, step
  )
  rule = config.settings.switching
  is_heard = config.settings.early_switching and may_leave
  if reason and is_heard and (rule.judges_chain or not is_over):
    events.append(
      {'event': 'switch', 'cycle': control.number, 'reason': reason}
    )
    control = control._replace(num_early_stops=control.num_early_stops + 1)
    return _follow(control, clock, step, config, events, is_left=True)
  if evaluations:
    control, goes_on = config.settings.policy.judge(control, config.target)
    if goes_on is not None:
      why = 'goes on' if goes_on else 'the model hardly learns'
      events.append({'event': 'race', 'cycle': control.number, 'reason': why})
    if goes_on is False:
      return _follow(control, clock, step, config, events)
  if is_over:
    give_up = _waits_until(control, config)
    if step >= give_up:
      return _follow(control, clock, step, config, events)
    if step == control.end:
      events.append(
        {
          'event': 'wait',
          'cycle': control.number,
          'reason': 'the annealed model has not been evaluated',
          'cycle_end': give_up,
        }
      )
    return Decision(control, clock, GO_ON, events, give_up, control)
  has_moved = control.horizon != planned and control.horizon > step
  if has_moved and config.settings.horizon.is_hard_limit:
    return _re_anchor(control, clock, step, planned, config, events)
  return Decision(control, clock, GO_ON, events, control.end, control)


def _is_finite(control: Control) -> bool:
  """Whether the last evaluation of the current cycle, if any, had a loss."""
  return control.num_evaluations == 0 or math.isfinite(control.last.loss)


def _waits_until(control: Control, config: RunConfig) -> int:
  """The step before which a cycle that is over ends, evaluated or not."""
  end = control.end
  is_beyond = config.settings.horizon.is_hard_limit and end >= control.horizon
  if is_beyond and not config.settings.wait:
    following = config.settings.policy.next(control, end, config, is_left=False)
    is_beyond = following is not None
  is_seen = control.last.step >= end or control.last.step < 0
  is_seen |= not _is_finite(control)  # nothing is to be annealed
  if is_seen or not (config.settings.wait or is_beyond):
    return end
  steps = control.pace.longest
  # A binding horizon lies before the run's last evaluation: a reset there would
  # be all that it sees.
  if end >= control.horizon or config.settings.horizon.is_hard_limit:
    return end + steps
  return min(end + steps, control.horizon)


def _follow(
  ended: Control,
  clock: CycleClock,
  step: int,
  config: RunConfig,
  events: list[Event],
  is_left: bool = False,
) -> Decision:
  """Goes on to the next cycle, or ends the run if none follows."""
  is_left |= not _is_finite(ended)
  following = config.settings.policy.next(ended, step, config, is_left)
  if following is None:
    why = 'cycles have run out'
    events.append({'event': 'finish', 'cycle': ended.number, 'reason': why})
    return Decision(ended, clock, FINISH, events, step, ended)
  rule = config.settings.switching
  is_new = following.chain_start == step or not rule.judges_chain
  control = following._replace(
    number=ended.number + 1,
    start=step,
    end=_aligned(ended, following.end, step, config, fewest=1),
    num_evaluations=0,
    switching=rule.initial if is_new else ended.switching,
  )
  clock = _clock_of(control, config)
  return Decision(control, clock, RESET, events, control.end, ended)


def _aligned(
  control: Control, end: int, step: int, config: RunConfig, fewest: int
) -> int:
  """The end of a cycle, moved to where an evaluation is expected.

  A cycle that waits for an evaluation stands still meanwhile, at its last rate.
  So it ends a whole number of the intervals between evaluations after the last
  one, at least `fewest`: 1, but 0 where the last one came less than half an
  interval before the planned end. An interval more at each evaluation that
  comes a little too soon would put the end off again and again. A cycle that
  ends with the run does not move: the horizon lies before an evaluation.
  """
  interval = control.pace.usual
  if not config.settings.wait or not interval or end >= control.horizon:
    return end
  ahead = max(round((end - control.last.step) / interval), fewest)
  moved = control.last.step + math.ceil(ahead * interval)
  return moved if step < moved < control.horizon else end


def _re_anchor(
  control: Control,
  clock: CycleClock,
  step: int,
  planned: int,
  config: RunConfig,
  events: list[Event],
) -> Decision:
  """Spreads the rest of the run over the steps up to the new horizon.

  The current cycle keeps its place on the clock. Its nominal rest and the
  chain's cycles to come share the remaining steps by their nominal lengths. If
  none is to come, others may be added; all that is known of them is that they
  fill the steps from the current cycle's end to the horizon. They keep their
  share of what was left up to `planned`, the previous horizon.
  """
  i = control.cycle
  local = schedules.local_step_on_host(clock, step)
  steps = config.cycles[i].steps
  to_come = config.cycles[i + 1 :]
  if to_come:
    rest = [steps - local, *(cycle.steps for cycle in to_come)]
    end = schedules.cycle_ends(step, control.horizon, rest)[0]
  else:
    left, had = control.horizon - step, max(planned, control.end) - step
    end = step - (step - control.end) * left // had
  is_due = control.end - control.last.step < control.pace.usual / 2
  end = _aligned(control, max(end, step + 1), step, config, fewest=not is_due)
  control = control._replace(end=end)
  clock = schedules.anchored_clock(
    step, i, local, steps, control.end, control.scale
  )
  events.append(clock_event(control, clock))
  return Decision(control, clock, RE_ANCHOR, events, control.end, control)


def plan_reset(
  decision: Decision, config: RunConfig, is_model_finite: Callable[[], bool]
) -> tuple[ResetPlan, Event]:
  """The reset before the cycle that starts, and the event that reports it.

  tau is taken at the last evaluation of the cycle that has ended. Without one
  nothing speaks against the model, and tau is 0; with `wait`, which looks for
  an annealed model, the evaluation after the first step is none. A model that
  is not finite would stay so: whatever the mode, a fresh one takes its place.

  Args:
    decision: one whose action is RESET.
    config: the run's.
    is_model_finite: whether model and optimizer state are finite.

  Raises:
    ValueError: if the run's own tau is outside [0, 1].
  """
  ended, control, mode = decision.ended, decision.control, config.settings.reset
  last, first, is_seen = ended.last, ended.first, ended.num_evaluations > 0
  is_known = is_seen and (last.step > 1 or not config.settings.wait)
  is_finite = math.isfinite(last.loss + last.metric) or not is_seen
  is_new = control.chain_start == control.start
  note, tau = '', 0.0
  if is_new:
    plan, note = FULL, 'the chain begins anew'
  elif not (is_finite and is_model_finite()):
    plan, note = FULL, 'the model is not finite'
  else:
    if isinstance(mode, SoftReset):
      asked = (last.metric, first.metric, control.start)
      if not is_known:
        note = 'no evaluation in the cycle: tau is 0'
      elif config.own_tau:
        tau = float(config.own_tau(*asked))
        check(0 <= tau <= 1, f'tau{asked}', tau, 'in [0, 1]')
      else:
        tau = soft_reset.tau(
          last.metric, config.target, first.metric, mode.scale
        )
    plan = mode.plan(tau)
  is_early = is_new or control.start < ended.end
  event = {
    'event': 'reset',
    'cycle': control.number,
    'reason': 'early' if is_early else 'scheduled',
    'mode': 'FullReset' if plan is FULL else type(mode).__name__,
    'tau': plan.tau,
    'alpha': getattr(mode, 'alpha', ''),
    'metric': last.metric,
    'metric_step': last.step,
    'note': note,
  }
  return plan, event


def after_reset(
  control: Control, plan: ResetPlan, config: RunConfig
) -> Control:
  """The control of the cycle that starts; a full reset begins a new chain."""
  if plan != FULL:
    return control
  return control._replace(
    chain_start=control.start, switching=config.settings.switching.initial
  )


def evaluation_event(control: Control, verdict: Verdict) -> Event:
  """The event of an evaluation; `control` is as of after it."""
  return {
    'event': 'evaluation',
    'cycle': control.number,
    'evaluation': control.num_evaluations,
    'loss': control.last.loss,
    **verdict.terms,
    'metric': control.last.metric,
    'metric_step': control.last.step,
  }


def clock_event(control: Control, clock: CycleClock) -> Event:
  """The event of a clock that was re-anchored in the middle of a cycle."""
  return {
    'event': 'clock',
    'cycle': control.number,
    'setting': control.cycle + 1,
    'cycle_end': control.end,
    'anchor_local': float(clock.anchor_local),
    'pace': float(clock.pace),
    'scale': float(clock.scale),
  }


def cycle_start_event(
  control: Control, clock: CycleClock, config: RunConfig
) -> Event:
  """The event of a cycle that starts at this step."""
  setting = config.cycles[control.cycle].setting
  return {
    **clock_event(control, clock),
    'event': 'cycle_start',
    'peak_value': setting.hparams.learning_rate * control.scale,
  }
