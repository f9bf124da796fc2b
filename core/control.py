"""From evaluations to a transition: when a cycle ends, and what follows it.

Pure functions of Python numbers. `transition` tells the story of a step before
which there is something to decide:

  1. The evaluations that have come in are taken note of.
  2. A cycle that fails is abandoned, if the settings switch early.
  3. A probe of a race is judged.
  4. A cycle whose steps are over ends, once its annealed model was evaluated.
  5. If the horizon has moved, the remaining cycles are stretched with it.

When a cycle ends, `_follow` begins the next one and says what is reset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..early_switching import Context, Verdict
from ..schedule_params import ScheduleParams
from ..soft_reset import FULL, ResetPlan, SoftReset, progress
from . import horizon, schedules
from .evaluation import Evaluation, Target
from .schedules import CycleClock, PlannedCycle, cycle_ends
from .state import NO_EVALUATION, Control, RaceState

# Share of the run after which an evaluation may judge a probe: one right after
# a compilation says nothing.
_JUDGED_FROM = 0.02
# Share of the run that the probes of the other peaks may take, each an interval
# between evaluations; where evaluations are too rare, there is no race.
_MOST_OF_RUN = 0.25
# Smaller rates are 0 to a device.
_SMALLEST = float(np.finfo(np.float32).tiny)

Event = dict[str, Any]


class RunConfig(NamedTuple):
  """What decides; it stays the same throughout a run."""

  settings: ScheduleParams
  cycles: tuple[PlannedCycle, ...]  # of the chain, over the steps of the run
  target: Target
  budget: float = math.nan  # seconds that the run may take; NaN if unknown
  most_steps: float = math.inf  # that the runner allows; infinite if unknown


class Transition(NamedTuple):
  """What holds for the step about to be taken."""

  control: Control
  clock: CycleClock
  reset: ResetPlan | None  # of the model, as a cycle starts; None: none starts
  events: list[Event]  # in the order in which they happened
  due: int  # the step before which to decide again, even without an evaluation
  is_over: bool = False  # whether the run ends: cycles have run out


def start(config: RunConfig) -> tuple[Control, CycleClock]:
  """The control and the clock before the first step."""
  race = config.settings.race
  control = Control(
    cycle=0,
    number=1,
    scale=race.peaks[0] if race else 1.0,
    start=0,
    chain_start=0,
    end=config.cycles[0].steps,
    horizon=sum(cycle.steps for cycle in config.cycles),
    num_evaluations=0,
    last=NO_EVALUATION,
    first=NO_EVALUATION,
    switching=config.settings.switching.initial,
    pace=horizon.Pace(),
    race=RaceState(0, 1, True, (-math.inf,) * len(race.peaks))
    if race
    else None,
  )
  return control, _clock(control, 0.0, 0, config)


def transition(
  control: Control,
  clock: CycleClock,
  evaluations: Sequence[Evaluation],
  step: int,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
) -> Transition:
  """Takes in new evaluations, and ends the cycle if it is time.

  Args:
    control: the current control.
    clock: a host copy of the current clock.
    evaluations: those not seen yet, in order.
    step: the step about to be taken.
    config: the run's.
    is_model_finite: whether model and optimizer state are finite; asked only
      where a reset depends on it.
  """
  settings, events = config.settings, list[Event]()
  reason, planned = '', control.horizon
  for evaluation in evaluations:
    control, verdict = observe(control, evaluation, config)
    events.append(_evaluation_event(control, verdict))
    reason = reason or verdict.reason

  given = clock, step, config, is_model_finite, events
  # A rule that judges the chain may also speak when a cycle's steps are over.
  is_over = step >= control.end
  is_heard = settings.switching.judges_chain or not is_over
  if reason and is_heard and _may_abandon(control, step, config):
    events.append(_said('switch', control, reason))
    return _follow(control, *given, is_abandoned=True)
  if evaluations and _is_judged(control):
    goes_on = _probe_goes_on(control, config)
    why = 'goes on' if goes_on else 'the model hardly learns'
    events.append(_said('race', control, why))
    if not goes_on:
      return _follow(control, *given, is_lost_probe=True)
    state = control.race._replace(is_probe=False)  # type: ignore[union-attr]
    control = control._replace(race=state)
  if is_over:
    # The evaluation after a cycle's last step sees the annealed model.
    is_awaited = settings.horizon is not None and -1 < control.last.step
    is_awaited &= control.last.step < control.end and _is_finite(control)
    give_up = control.end + is_awaited * control.pace.longest
    if step >= give_up:
      return _follow(control, *given)
    if step == control.end:
      why = 'the annealed model has not been evaluated'
      events.append({**_said('wait', control, why), 'cycle_end': give_up})
    return Transition(control, clock, None, events, give_up)
  if settings.horizon is not None and planned != control.horizon > step:
    local = schedules.local_step(clock, step)
    control = control._replace(
      end=_stretched_end(control, local, planned, step, config)
    )
    clock = _clock(control, local, step, config)
    events.append(_clock_event('clock', control, clock))
  return Transition(control, clock, None, events, control.end)


def observe(
  control: Control, evaluation: Evaluation, config: RunConfig
) -> tuple[Control, Verdict]:
  """The control after an evaluation of the current cycle, and the verdict."""
  settings = config.settings
  first = control.first if control.first.step >= 0 else evaluation
  begin, end = control.start, control.end
  if settings.switching.judges_chain:
    begin, end = control.chain_start, max(control.horizon, end)
  context = Context(
    share=(evaluation.step - begin) / (end - begin),
    target=config.target,
    first_metric=first.metric,
  )
  switching, verdict = settings.switching.observe(
    control.switching, evaluation, context
  )
  pace = horizon.observe(control.pace, control.last, evaluation)
  planned, race = control.horizon, control.race
  if settings.horizon is not None:
    seconds_left = config.budget - evaluation.seconds
    to_come = settings.horizon.steps_to_come(pace, seconds_left)
    planned = evaluation.step + to_come if to_come else planned
    planned = int(min(planned, config.most_steps))
  if race is not None:
    way = progress(evaluation.metric, config.target, first.metric)
    best = list(race.progress)
    # Python's max keeps its first argument where the other is NaN.
    best[race.at] = max(best[race.at], way)
    race = race._replace(progress=tuple(best))
  return control._replace(
    num_evaluations=control.num_evaluations + 1,
    last=evaluation,
    first=first,
    switching=switching,
    pace=pace,
    horizon=planned,
    race=race,
  ), verdict


def _is_finite(control: Control) -> bool:
  """Whether the last evaluation of the current cycle, if any, had a loss."""
  return control.num_evaluations == 0 or math.isfinite(control.last.loss)


def _may_abandon(control: Control, step: int, config: RunConfig) -> bool:
  """Whether the switching rule may end the cycle.

  With a race, a cycle with a finite loss is abandoned only while a new chain
  would get at least as many steps as the one at hand has had: with fewer it
  could hardly come farther.
  """
  if not config.settings.early_switching:
    return False
  if control.race is None or not _is_finite(control):
    return True
  return control.horizon - step >= step - control.chain_start


def _is_judged(control: Control) -> bool:
  """Whether the current cycle is a probe whose evaluation tells something.

  The run's first evaluation is what the others are held against.
  """
  if control.race is None or not control.race.is_probe:
    return False
  steps = control.last.step - control.start
  is_seen = control.num_evaluations > 0
  is_seen &= control.last.step > control.first.step
  return is_seen and steps >= _JUDGED_FROM * control.horizon


def _probe_goes_on(control: Control, config: RunConfig) -> bool:
  """Whether a probe that is judged becomes the peak of the run; see `Race`."""
  race, state, last = config.settings.race, control.race, control.last
  assert race is not None and state is not None
  way = progress(last.metric, config.target, control.first.metric, 'log')
  learns = _loss_drop(control) >= race.min_loss_drop
  learns &= way >= race.min_progress
  others = len(race.peaks) - state.tried
  wait = max(last.step - control.start, control.pace.longest)
  best = max(p for p in state.progress if not math.isnan(p))
  return bool(
    learns
    or others * wait > _MOST_OF_RUN * control.horizon
    or (not others and state.progress[state.at] >= best)
  )


def _loss_drop(control: Control) -> float:
  """log(L0 / L); -inf if a loss is not finite, inf if one is not above 0."""
  losses = control.first.loss, control.last.loss
  if not all(map(math.isfinite, losses)):
    return -math.inf
  if min(losses) <= 0:
    return math.inf
  ratio = losses[0] / losses[1]
  return math.log(ratio) if ratio > 0 else -math.inf  # it may underflow


def _follow(
  ended: Control,
  clock: CycleClock,
  step: int,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
  events: list[Event],
  is_abandoned: bool = False,
  is_lost_probe: bool = False,
) -> Transition:
  """Begins the next cycle with a reset, or ends the run if none follows."""
  is_abandoned |= not _is_finite(ended)
  if ended.race is not None and (is_abandoned or is_lost_probe):
    following: Control | None = _next_peak(ended, step, config, is_lost_probe)
  else:
    following = _next_cycle(ended, step, config, is_abandoned)
  if following is None:
    events.append(_said('finish', ended, 'cycles have run out'))
    return Transition(ended, clock, None, events, step, is_over=True)
  control = following._replace(
    number=ended.number + 1,
    start=step,
    end=_aligned(following, step, config, fewest=1),
    num_evaluations=0,
  )
  plan, event = _plan_reset(ended, control, config, is_model_finite)
  if plan == FULL:
    control = control._replace(chain_start=step)
  rule = config.settings.switching
  if plan == FULL or not rule.judges_chain:
    control = control._replace(switching=rule.initial)
  clock = _clock(control, 0.0, step, config)
  events += [event, start_event(control, clock, config)]
  return Transition(control, clock, plan, events, control.end)


def _next_cycle(
  control: Control, step: int, config: RunConfig, is_abandoned: bool
) -> Control | None:
  """The chain's next cycle, or its last one once more; None if none follows.

  The steps up to the horizon are split over the cycles still to come. Further
  cycles repeat the last one: as many as bring its length, scaled with the
  horizon, nearest to the remaining steps; or one that postpones the horizon,
  where that is no limit. After one that was abandoned the rate is halved: it is
  not repeated as it was.
  """
  planned, number = config.cycles, control.cycle + 1
  if step < control.horizon and number < len(planned):
    lengths = [cycle.setting.length for cycle in planned[number:]]
    end = cycle_ends(step, control.horizon, lengths)[0]
    return control._replace(cycle=number, end=end)
  if not config.settings.repeat:
    return None
  end = step + planned[-1].steps
  if config.settings.horizon is not None and step < control.horizon:
    total = sum(cycle.steps for cycle in planned)
    steps = planned[-1].steps * control.horizon / total
    further = max(round((control.horizon - step) / steps), 1)
    end = cycle_ends(step, control.horizon, [1.0] * further)[0]
  return control._replace(
    cycle=len(planned) - 1,
    end=end,
    horizon=max(control.horizon, end),
    scale=_halved(control, config) if is_abandoned else control.scale,
  )


def _next_peak(
  control: Control, step: int, config: RunConfig, is_lost_probe: bool
) -> Control:
  """The chain from its beginning, with another peak; see `Race`."""
  race, state = config.settings.race, control.race
  assert race is not None and state is not None
  best = list(state.progress)
  if not is_lost_probe:
    best[state.at] = math.nan
  at, in_play = state.at, [i for i, way in enumerate(best) if way > -math.inf]
  is_probe = state.tried < len(race.peaks)
  if is_probe:
    at = state.tried
  elif in_play:
    at = max(in_play, key=best.__getitem__)
  is_new = is_probe or bool(in_play)
  lengths = [cycle.setting.length for cycle in config.cycles]
  end = max(control.horizon, step + len(lengths))
  return control._replace(
    cycle=0,
    scale=race.peaks[at] if is_new else _halved(control, config),
    chain_start=step,
    end=cycle_ends(step, end, lengths)[0],
    horizon=end,
    race=RaceState(at, state.tried + is_probe, is_probe, tuple(best)),
  )


def _halved(control: Control, config: RunConfig) -> float:
  """Half of the scale, unless a rate would vanish."""
  least = min(cycle.setting.peak for cycle in config.cycles)
  half = 0.5 * control.scale
  return half if half * least >= _SMALLEST else control.scale


def _plan_reset(
  ended: Control,
  control: Control,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
) -> tuple[ResetPlan, Event]:
  """The reset before the cycle that starts, and the event that reports it.

  tau is taken at the last evaluation of the cycle that has ended. Without one
  nothing speaks against the model, and tau is 0; where the annealed model is
  waited for, the evaluation after the first step is none. A model that is not
  finite would stay so: whatever the mode, a fresh one takes its place.
  """
  last, mode, is_seen = ended.last, config.settings.reset, ended.num_evaluations
  is_finite = math.isfinite(last.loss + last.metric) or not is_seen
  is_new = control.chain_start == control.start
  note, tau = '', 0.0
  if is_new:
    plan, note = FULL, 'the chain begins anew'
  elif not (is_finite and is_model_finite()):
    plan, note = FULL, 'the model is not finite'
  else:
    if isinstance(mode, SoftReset):
      if is_seen and (last.step > 1 or config.settings.horizon is None):
        tau = mode.tau(last, ended.first, config.target, control.start)
      else:
        note = 'no evaluation in the cycle: tau is 0'
    plan = mode.plan(tau)
  event = {
    'event': 'reset',
    'cycle': control.number,
    'reason': 'early' if is_new or control.start < ended.end else 'scheduled',
    'mode': 'FullReset' if plan == FULL else type(mode).__name__,
    'tau': plan.tau,
    'alpha': getattr(mode, 'alpha', ''),
    'metric': last.metric,
    'metric_step': last.step,
    'note': note,
  }
  return plan, event


def _stretched_end(
  control: Control, local: float, planned: int, step: int, config: RunConfig
) -> int:
  """The end of a cycle after the horizon has moved in the middle of it.

  What remains of the cycle's nominal steps and the cycles to come share the
  steps up to the new horizon by their nominal lengths. If none is to come,
  further ones may follow; all that is known of them is that they fill the steps
  from the cycle's end to `planned`, the previous horizon.
  """
  to_come = config.cycles[control.cycle + 1 :]
  rest: list[float] = [control.end - step]
  if to_come:
    nominal = config.cycles[control.cycle].steps
    rest = [nominal - local, *(cycle.steps for cycle in to_come)]
  elif planned > control.end:
    rest.append(planned - control.end)
  end = max(cycle_ends(step, control.horizon, rest)[0], step + 1)
  is_due = control.end - control.last.step < control.pace.usual / 2
  return _aligned(control._replace(end=end), step, config, fewest=not is_due)


def _aligned(
  control: Control, step: int, config: RunConfig, fewest: int
) -> int:
  """The end of a cycle, moved to where an evaluation is expected.

  A cycle that waits for an evaluation stands still meanwhile, at its last rate.
  So it ends a whole number of the intervals between evaluations after the last
  one, at least `fewest`: 1, but 0 where the last one came less than half an
  interval before the planned end. An interval more at each evaluation that
  comes a little too soon would put the end off again and again. A cycle that
  ends with the run does not move: the horizon lies before an evaluation.
  """
  end, interval, last = control.end, control.pace.usual, control.last.step
  is_timed = config.settings.horizon is not None
  if not is_timed or not interval or end >= control.horizon:
    return end
  ahead = max(round((end - last) / interval), fewest)
  moved = last + math.ceil(ahead * interval)
  return moved if step < moved < control.horizon else end


def _clock(
  control: Control, local: float, step: int, config: RunConfig
) -> CycleClock:
  """The clock that goes from a nominal step of the control's cycle to its end."""
  return schedules.anchored_clock(
    step, local, control.end, control.cycle, config.cycles, control.scale
  )


def _said(event: str, control: Control, reason: str) -> Event:
  return {'event': event, 'cycle': control.number, 'reason': reason}


def _evaluation_event(control: Control, verdict: Verdict) -> Event:
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


def _clock_event(event: str, control: Control, clock: CycleClock) -> Event:
  """The event of a clock that was anchored anew."""
  return {
    'event': event,
    'cycle': control.number,
    'setting': control.cycle + 1,
    'cycle_end': control.end,
    'anchor_local': float(clock.anchor_local),
    'pace': float(clock.pace),
    'scale': control.scale,
  }


def start_event(
  control: Control, clock: CycleClock, config: RunConfig
) -> Event:
  """The event of a cycle that starts at this step."""
  peak = config.cycles[control.cycle].setting.peak * control.scale
  return {**_clock_event('cycle_start', control, clock), 'peak_value': peak}
