"""What follows: the end of a cycle, and the start of the next one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..schedules import cycle_clock
from ..schedules.cycle_clock import CycleClock
from ..schedules.lr_schedule import cycle_ends
from . import events as what
from . import history
from .history import LOST, OPEN, OVER, PAUSED, Standing
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
from .state import NEVER, Control


class Moment(NamedTuple):
  """A run before a step, and the events at this step so far."""

  control: Control
  clock: CycleClock  # a host copy
  step: int  # the step about to be taken
  rules: Rules
  events: list[Event]


def _next_cycle(now: Moment) -> NextCycle | None:
  c, rules = now.control, now.rules
  situation = Situation(
    rules.cycles,
    c.cycle,
    now.step,
    c.horizon,
    rules.horizon.binds,
    c.history,
  )
  return rules.policy.next(situation)


def switch(now: Moment, reason: str) -> Decision | None:
  """Leaves the cycle; None if it is kept, since nothing would follow it."""
  left = now._replace(control=_put_down(now, OVER))
  following = _next_cycle(left)
  is_held = now.control.cycle_end == NEVER
  if is_held or (following is None and now.rules.policy.holds):
    return None
  control = left.control
  control = control._replace(num_early_stops=control.num_early_stops + 1)
  now.events.append(
    {'event': 'switch', 'cycle': control.number, 'reason': reason}
  )
  return _follow(left._replace(control=control), following)


def end_cycle(now: Moment) -> Decision:
  """Ends the cycle, or pauses it if it is a probe with steps left.

  A probe whose evaluation came only after its full length has none left.
  """
  c = now.control
  is_paused = c.until < 1 and _share_had(now) < 1
  ended = now._replace(control=_put_down(now, PAUSED if is_paused else OVER))
  if is_paused:
    now.events.append(what.pause_event(c))
  return _follow(ended, _next_cycle(ended), c.slot if is_paused else -1)


def wait(now: Moment) -> Decision | None:
  """Waits for the evaluation after a cycle's last step; None if it need not.

  It waits if `wait` is on, for a probe, and at a binding horizon after which a
  cycle would follow: the next evaluation may be the run's last.

  It waits for at most one evaluation period, the longest so far. Before the
  horizon it waits no longer than up to it, so that waiting does not use up the
  run; at the horizon it waits as long as elsewhere. Before the first evaluation
  no period is known, and only a probe waits, up to the end of its full length.
  """
  c = now.control
  is_probe = c.until < 1
  is_seen = c.last_eval_step >= c.cycle_end
  if is_seen or c.cycle_end == NEVER:
    return None
  if not (now.rules.wait or is_probe or _is_followed_beyond(now)):
    return None
  if c.give_up >= 0:
    still = Decision(c, now.clock, WAIT, now.events)
    return still if now.step < c.give_up else None
  steps = c.spacing
  if is_probe and not steps:
    of_stint = (c.cycle_end - c.start) / (c.until - c.began)
    steps = math.ceil((1 - c.until) * of_stint)
  if c.cycle_end < c.horizon:
    steps = min(steps, c.horizon - c.cycle_end)
  if steps < 1:
    return None
  control = c._replace(give_up=now.step + steps)
  return Decision(
    control, now.clock, WAIT, [*now.events, what.wait_event(control)]
  )


def _is_followed_beyond(now: Moment) -> bool:
  """Whether a binding horizon is reached and the policy has more cycles."""
  if not now.rules.horizon.binds or now.step < now.control.horizon:
    return False
  ended = now._replace(control=_put_down(now, OVER))
  return _next_cycle(ended) is not None


def _put_down(now: Moment, state: int) -> Control:
  """The control with the current cycle's stint recorded in its history."""
  c = now.control
  if c.slot < 0:
    return c
  standing = history.end_stint(c.history[c.slot], state)
  standing = standing._replace(
    share=_share_had(now),
    steps=standing.steps + now.step - c.start,
    switching=c.switching,
  )
  return c._replace(history=with_standing(c.history, c.slot, standing))


def _share_had(now: Moment) -> float:
  """The share of its full length that the current cycle has had."""
  local = cycle_clock.local_step_on_host(now.clock, now.step)
  return min(local / now.rules.cycles[now.control.cycle].steps, 1.0)


def take_up(control: Control, rules: Rules) -> Control:
  """The control with the cycle that starts or resumes marked OPEN."""
  c = control
  if c.slot < 0:
    return c
  standing = c.history[c.slot]
  if c.began == 0:
    new = Standing(
      c.cycle,
      c.scale,
      before=history.best_share(c.history),
      switching=rules.switching.initial,
    )
    if standing.state == LOST:  # it has been compared, and is not again
      new = new._replace(stints=standing.stints, marks=standing.marks)
    standing = new
  standing = standing._replace(state=OPEN)
  return c._replace(
    history=with_standing(c.history, c.slot, standing),
    switching=standing.switching,
  )


def with_standing(
  kept: Sequence[Standing], slot: int, standing: Standing
) -> tuple[Standing, ...]:
  """A copy of the history with one slot replaced."""
  return (*kept[:slot], standing, *kept[slot + 1 :])


def _follow(
  now: Moment, following: NextCycle | None, paused: int = -1
) -> Decision:
  """Goes on to the next cycle, or to whatever follows the last one."""
  if following is None:
    return _run_out(now)
  control, rules = now.control, now.rules
  was_evaluated = control.num_evaluations > 0
  control = control._replace(
    cycle=following.cycle,
    number=control.number + 1,
    scale=following.scale,
    start=now.step,
    cycle_end=following.end,
    horizon=following.horizon,
    num_evaluations=0,
    switching=rules.switching.initial,
    give_up=-1,
    began=following.began,
    until=following.until,
    slot=following.slot,
  )
  return Decision(
    take_up(control, rules),
    clock_of(now.step, following, rules),
    RESET,
    now.events,
    was_evaluated,
    following.start_from or rules.cycles[following.cycle].start_from,
    paused,
  )


def clock_of(step: int, following: NextCycle, rules: Rules) -> CycleClock:
  """The clock of a cycle that starts or resumes at a step."""
  steps = rules.cycles[following.cycle].steps
  return cycle_clock.anchored_clock(
    step,
    following.cycle,
    following.began * steps,
    following.until * steps,
    following.end,
    following.scale,
  )


def _run_out(now: Moment) -> Decision:
  control, events = now.control, now.events
  if now.rules.policy.holds:
    events.append({'event': 'hold', 'cycle': control.number})
    control = control._replace(cycle_end=NEVER, give_up=-1)
    return Decision(control, now.clock, GO_ON, events)
  reason = 'cycles have run out'
  events.append({'event': 'finish', 'cycle': control.number, 'reason': reason})
  return Decision(control, now.clock, FINISH, events)


def re_anchor(now: Moment, planned: int) -> Decision:
  """Spreads the rest of the run over the steps up to the new horizon.

  The current cycle keeps its place on the clock. Its nominal rest and the
  cycles to come share the remaining steps by their nominal lengths. If the
  chain has none to come, the policy may add others; all that is known of them
  is that they fill the steps from the current cycle's end to the horizon. They
  keep their share of what was left up to `planned`, the previous horizon; so
  does a probe.
  """
  control, step, i = now.control, now.step, now.control.cycle
  local = cycle_clock.local_step_on_host(now.clock, step)
  until = control.until * now.rules.cycles[i].steps
  rest = [until - local, *_steps_to_come(control, now.rules)]
  end = cycle_ends(step, control.horizon, rest)[0]
  if len(rest) == 1:
    end = _in_proportion(control.cycle_end, step, planned, control)
  control = control._replace(cycle_end=end)
  clock = cycle_clock.anchored_clock(step, i, local, until, end, control.scale)
  now.events.append(what.clock_event(control, clock))
  return Decision(control, clock, RE_ANCHOR, now.events)


def _steps_to_come(control: Control, rules: Rules) -> list[int]:
  """Nominal steps of the chain's cycles that are still planned."""
  is_in_chain = control.number == control.cycle + 1
  if not (is_in_chain and rules.policy.follows_chain):
    return []
  return [cycle.steps for cycle in rules.cycles[control.cycle + 1 :]]


def _in_proportion(
  end: int, global_step: int, planned: int, control: Control
) -> int:
  """The end that takes the same share of the steps left as before."""
  left = control.horizon - global_step
  had = max(planned, end) - global_step
  return global_step - (global_step - end) * left // had
