"""From evaluations to a transition: when a cycle ends, and what follows it.

Pure functions of Python numbers. A run with a horizon is timed: its cycles fill
the steps up to it, end where an evaluation is due, and are at least three
intervals between evaluations long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..early_switching import Context, Verdict
from ..schedule_params import ScheduleParams
from ..soft_reset import FULL, ResetPlan, SoftReset
from . import schedules
from .evaluation import Evaluation, Target
from .records import Event
from .schedules import CycleClock, PlannedCycle, cycle_ends
from .state import Control

# With fewer intervals, a cycle would be judged and reset by chance.
_FEWEST_INTERVALS = 3
# Of an interval: an evaluation so close to a cycle's end sees what it has made.
_NEARLY = 0.05
# Smaller rates are 0 to a device.
_SMALLEST = float(np.finfo(np.float32).tiny)


class RunConfig(NamedTuple):
  """What decides; it stays the same throughout a run."""

  settings: ScheduleParams
  cycles: tuple[PlannedCycle, ...]  # of the chain, over the steps of the run
  target: Target
  budget: float = math.nan  # seconds that the run may take; NaN if unknown
  most_steps: float = math.inf  # that the runner allows; infinite if unknown

  @property
  def is_timed(self) -> bool:
    """Whether cycles follow the evaluations and fill a horizon."""
    return self.settings.horizon is not None


class Transition(NamedTuple):
  """What holds for the step about to be taken."""

  control: Control
  clock: CycleClock
  reset: ResetPlan | None  # of the model, as a cycle starts; None: none starts
  events: list[Event]  # in the order in which they happened
  due: int  # the step before which to decide again, even without an evaluation
  is_over: bool = False  # whether the run ends: cycles have run out


def start(
  config: RunConfig, first_peak: float = math.nan
) -> tuple[Control, CycleClock, Event]:
  """The control, the clock and the event before the first step.

  The peaks are scaled so that the first one is `first_peak`; one that is not
  finite and above 0 leaves them as they are written.
  """
  scale = first_peak / config.cycles[0].setting.peak
  control = Control(
    scale=scale if 0.0 < scale < math.inf else 1.0,
    horizon=sum(cycle.steps for cycle in config.cycles),
    switching=config.settings.switching.initial,
  )
  control = _laid_out(control, 0, config)
  clock = _clock(control, 0.0, 0, config)
  return control, clock, _start_event(control, clock, config)


def transition(
  control: Control,
  clock: CycleClock,  # on the host
  evaluations: Sequence[Evaluation],  # those not seen yet, in order
  step: int,  # about to be taken
  config: RunConfig,
  is_model_finite: Callable[[], bool],  # asked only if a reset depends on it
) -> Transition:
  """Takes in new evaluations, and ends the cycle if it is time.

  1. The evaluations that have come in are taken note of.
  2. A cycle that fails is abandoned, if the settings switch early.
  3. A cycle whose steps are over ends, once its annealed model was evaluated.
  4. If the horizon has moved, the remaining cycles are stretched with it.
  """
  events, reason, before = list[Event](), '', control
  for evaluation in evaluations:
    control, verdict = observe(control, evaluation, config)
    numbers = {'evaluation': control.num_evaluations, 'loss': evaluation.loss}
    numbers |= verdict.terms
    numbers |= {'metric': evaluation.metric, 'metric_step': evaluation.step}
    events.append(_event('evaluation', control, **numbers))
    reason = reason or verdict.reason

  settings, is_over = config.settings, step >= control.end
  is_finite = math.isfinite(control.last.loss)
  has_failed = control.num_evaluations > 0 and not is_finite
  # With fewer steps than it has had, a new chain could hardly come farther.
  is_late = control.horizon - step < step - control.chain_start
  may_abandon = has_failed or not (config.is_timed and is_late)
  # A rule that judges the chain may also speak when a cycle's steps are over.
  may_abandon &= settings.switching.judges_chain or not is_over
  following: Control | None
  if reason and settings.early_switching and may_abandon:
    events.append(_event('switch', control, reason=reason))
    following = _next(control, step, config, has_failed=True)
  elif is_over:
    # The evaluation after a cycle's last step sees the annealed model.
    nearly = control.end - _NEARLY * control.intervals.usual
    is_awaited = config.is_timed and -1 < control.last.step < nearly
    is_awaited &= not has_failed
    give_up = control.end + is_awaited * control.intervals.longest
    if step < give_up:
      if step == control.end:
        why = 'the annealed model has not been evaluated'
        events.append(_event('wait', control, reason=why, cycle_end=give_up))
      return Transition(control, clock, None, events, give_up)
    following = _next(control, step, config, has_failed)
  else:
    is_first = control.intervals.usual > 0 == before.intervals.usual
    has_moved = is_first or control.horizon != before.horizon
    has_moved &= config.is_timed
    if has_moved and control.horizon > step:
      control, local = _stretched(control, clock, before.horizon, step, config)
      clock = _clock(control, local, step, config)
      events.append(_clock_event('clock', control, clock))
    return Transition(control, clock, None, events, control.end)
  if following is None:
    events.append(_event('finish', control, reason='cycles have run out'))
    return Transition(control, clock, None, events, step, is_over=True)
  return _begin(control, following, step, config, is_model_finite, events)


def observe(
  control: Control, evaluation: Evaluation, config: RunConfig
) -> tuple[Control, Verdict]:
  """The control after an evaluation, and the verdict on the current cycle.

  An evaluation that comes in late, of an earlier cycle, only tells its interval.
  """
  rule, timed = config.settings.switching, config.settings.horizon
  first = control.first if control.first.step >= 0 else evaluation
  switching, verdict = control.switching, Verdict('', {})
  is_own = evaluation.step > control.start or control.number == 1
  if is_own:
    begin, end = control.start, control.end
    if rule.judges_chain:
      begin, end = control.chain_start, max(control.horizon, end)
    share = (evaluation.step - begin) / (end - begin)
    context = Context(share, config.target, first.metric)
    switching, verdict = rule.observe(switching, evaluation, context)
  intervals = control.intervals.after(control.last, evaluation)
  planned = control.horizon
  if timed is not None:
    seconds_left = config.budget - evaluation.seconds
    to_come = timed.steps_to_come(intervals, seconds_left)
    planned = evaluation.step + to_come if to_come else planned
    planned = int(min(planned, config.most_steps))
  return control._replace(
    num_evaluations=control.num_evaluations + is_own,
    last=evaluation,
    first=first,
    switching=switching,
    intervals=intervals,
    horizon=planned,
  ), verdict


def _fewest(control: Control, config: RunConfig) -> float:
  """Steps that a cycle has at least; 0 if no number of them is too small."""
  return _FEWEST_INTERVALS * control.intervals.usual * config.is_timed


def _next(
  control: Control, step: int, config: RunConfig, has_failed: bool
) -> Control | None:
  """The next cycle of the chain; None if none follows.

  After the last one, it is repeated: up to a horizon as many times as bring its
  length, scaled with the horizon, nearest to the remaining steps; else once
  more, which postpones the end of the run. What has failed is repeated at half
  of its rate: in a timed run the chain from its beginning.
  """
  cycles, rest = config.cycles, control.horizon - step
  fewest, half = _fewest(control, config), 0.5 * control.scale
  is_rate = half * min(cycle.setting.peak for cycle in cycles) >= _SMALLEST
  scale = half if has_failed and is_rate else control.scale
  begun = control._replace(start=step)
  if has_failed and config.is_timed:
    planned = step + max(rest, math.ceil(fewest), 1)
    begun = begun._replace(cycle=0, scale=scale, chain_start=step)
    return _laid_out(begun._replace(horizon=planned), step, config)
  has_room = rest >= max(fewest, 1)
  if has_room and control.cycle + 1 < len(cycles):
    return _laid_out(begun._replace(cycle=control.cycle + 1), step, config)
  if not config.settings.repeat:
    return None
  nominal = cycles[-1].steps
  end = step + max(nominal, math.ceil(fewest))
  if config.is_timed and has_room:
    total = sum(cycle.steps for cycle in cycles)
    steps = max(nominal * control.horizon / total, fewest)
    further = max(round(rest / steps), 1)
    end = cycle_ends(step, control.horizon, [1.0] * further)[0]
  begun = begun._replace(cycle=len(cycles) - 1, scale=scale)
  begun = begun._replace(end=end, horizon=max(control.horizon, end))
  return _aligned(begun, step, config)


def _laid_out(control: Control, step: int, config: RunConfig) -> Control:
  """The cycle at hand with its end, or the first one that is long enough.

  The steps from its start to the horizon are split over this cycle and those to
  come. In a timed run a cycle that would be too short is skipped, and while no
  interval between evaluations is known, the cycle is laid over all of the steps.
  """
  lengths = [cycle.setting.length for cycle in config.cycles]
  fewest = _fewest(control, config)
  if config.is_timed and not fewest:
    return control._replace(end=max(control.horizon, step + 1))
  for i in range(control.cycle, len(lengths)):
    end = cycle_ends(control.start, control.horizon, lengths[i:])[0]
    control = control._replace(cycle=i, end=max(end, step + 1))
    if end > step and end - control.start >= fewest:
      break
  return _aligned(control, step, config)


def _stretched(
  control: Control, clock: CycleClock, before: int, step: int, config: RunConfig
) -> tuple[Control, float]:
  """A cycle whose horizon has moved, and the nominal step that it is at.

  Up to the third interval between evaluations of a run its chain is laid out
  anew, since the first ones have compilations in them. Later, what remains of
  the cycle and the cycles to come share the steps up to the new horizon by
  their nominal lengths. If none is to come, further ones may follow; all that
  is known of them is that they fill the steps up to `before`, the previous
  horizon.
  """
  steps = [cycle.steps for cycle in config.cycles]
  nominal = steps[control.cycle]
  local = schedules.local_step(clock, step)
  settled = _fewest(control, config)  # the step; 0 while no interval is known
  if control.start == 0 and (not settled or step < settled):
    control = _laid_out(control._replace(cycle=0), step, config)
    # The same share of the cycle has passed: among like cycles no rate jumps.
    return control, local / nominal * steps[control.cycle]
  rest: list[float] = [control.end - step]
  if control.cycle + 1 < len(steps):
    rest = [nominal - local, *steps[control.cycle + 1 :]]
  elif before > control.end:
    rest.append(before - control.end)
  end = max(cycle_ends(step, control.horizon, rest)[0], step + 1)
  return _aligned(control._replace(end=end), step, config), local


def _aligned(control: Control, step: int, config: RunConfig) -> Control:
  """The cycle, its end moved to where an evaluation is expected.

  A cycle that waits for an evaluation stands still meanwhile. So it ends a whole
  number of the intervals between evaluations after the last one, once it is long
  enough. An end just after the last one stays, or each evaluation that comes too
  soon would put it off again. Where too few steps for a further cycle would
  remain, it lasts up to the horizon, which lies before an evaluation.
  """
  end, interval, last = control.end, control.intervals.usual, control.last.step
  fewest = _fewest(control, config)
  if not fewest or end >= control.horizon:
    return control
  least = control.start + fewest
  if end < least or end - last > _NEARLY * interval:
    ahead = max(round((end - last) / interval), 1)
    ahead = max(ahead, math.ceil((least - last) / interval))
    end = max(last + math.ceil(ahead * interval), step + 1)
  is_last = control.horizon - end < fewest
  return control._replace(end=control.horizon if is_last else end)


def _begin(
  ended: Control,
  following: Control,
  step: int,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
  events: list[Event],
) -> Transition:
  """Begins a cycle with a reset; a full one begins a new chain.

  tau is taken at the last evaluation of the cycle that has ended. Without one
  nothing speaks against the model, and tau is 0; where the annealed model is
  waited for, the evaluation after the first step is none. A model that is not
  finite would stay so: whatever the mode, a fresh one takes its place.
  """
  last, mode, is_seen = ended.last, config.settings.reset, ended.num_evaluations
  is_new = following.chain_start == step
  is_finite = math.isfinite(last.loss + last.metric) or not is_seen
  plan, note, tau = FULL, '', 0.0
  if is_new:
    note = 'the chain begins anew'
  elif not (is_finite and is_model_finite()):
    note = 'the model is not finite'
  else:
    is_told = is_seen and (last.step > 1 or not config.is_timed)
    if isinstance(mode, SoftReset) and is_told:
      tau = mode.tau(last, ended.first, config.target, step, ended.horizon)
    elif isinstance(mode, SoftReset):
      note = 'no evaluation in the cycle: tau is 0'
    plan = mode.plan(tau)
  is_early = any(event['event'] == 'switch' for event in events)
  rule, is_full = config.settings.switching, plan == FULL
  is_judged_anew = is_full or not rule.judges_chain
  control = following._replace(
    number=ended.number + 1,
    num_evaluations=0,
    chain_start=step if is_full else following.chain_start,
    switching=rule.initial if is_judged_anew else following.switching,
  )
  clock = _clock(control, 0.0, step, config)
  event = _event(
    'reset',
    control,
    reason='early' if is_early else 'scheduled',
    mode='FullReset' if is_full else type(mode).__name__,
    tau=plan.tau,
    alpha=getattr(mode, 'alpha', ''),
    metric=last.metric,
    metric_step=last.step,
    note=note,
  )
  events += [event, _start_event(control, clock, config)]
  return Transition(control, clock, plan, events, control.end)


def _clock(
  control: Control, local: float, step: int, config: RunConfig
) -> CycleClock:
  """The clock that goes from a nominal step of the control's cycle to its end."""
  return schedules.anchored_clock(
    step, local, control.end, control.cycle, config.cycles, control.scale
  )


def _event(kind: str, control: Control, /, **more: Any) -> Event:
  return {'event': kind, 'cycle': control.number, **more}


def _clock_event(kind: str, control: Control, clock: CycleClock) -> Event:
  """The event of a clock that was anchored anew."""
  return _event(
    kind,
    control,
    setting=control.cycle + 1,
    cycle_end=control.end,
    anchor_local=float(clock.anchor_local),
    pace=float(clock.pace),
    scale=control.scale,
  )


def _start_event(
  control: Control, clock: CycleClock, config: RunConfig
) -> Event:
  """The event of a cycle that starts at this step."""
  peak = config.cycles[control.cycle].setting.peak * control.scale
  return {**_clock_event('cycle_start', control, clock), 'peak_value': peak}
