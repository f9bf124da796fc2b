"""From evaluations to a transition: when a cycle ends, and what follows it.

Pure functions of Python numbers. A run with a horizon is timed: its cycles fill
the steps up to it, end where an evaluation is due, and are at least three
intervals between evaluations long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..core.clock import nominal_step
from ..core.evaluation import Evaluation, Way
from ..core.plan import cycle_ends
from ..early_switching import Context, Verdict
from ..soft_reset import FULL, ResetPlan
from .events import Event, clock_event, event, start_event
from .state import Control, RunConfig, clock_of, plan_of

# What a rate is multiplied by after a failure: see research/lost_runs/study.py.
_RATE_AFTER_FAILURE = 0.5
# With fewer intervals, a cycle would be judged and reset by chance.
_FEWEST_INTERVALS = 3
# Of an interval: an evaluation so close to a cycle's end sees what it has made.
_NEARLY = 0.05
# Smaller rates are 0 to a device.
_SMALLEST = float(np.finfo(np.float32).tiny)


class Transition(NamedTuple):
  """What holds for the step about to be taken."""

  control: Control
  plan: ResetPlan | None  # of a reset, as a cycle starts; None: none starts
  events: list[Event]  # in the order in which they happened
  due: int  # the step before which to decide again, even without an evaluation
  run_is_over: bool = False  # whether the run ends: cycles have run out


def start(config: RunConfig) -> Control:
  """The control before the first step."""
  control = Control(
    planned_end=config.chain.steps,
    switching=config.settings.switching.initial,
    plan=plan_of(config.chain),
  )
  return _laid_out(control, 0, config)


def with_first_peak(
  control: Control, first_peak: float, config: RunConfig
) -> Control:
  """The control of a start, the peaks scaled so that the first one is this.

  A peak that is not finite and above 0 leaves them as they are written.
  """
  factor = first_peak / config.chain.cycles[0].cycle.peak
  is_usable = 0.0 < factor < math.inf
  return control._replace(rate_factor=factor) if is_usable else control


def next_stage(control: Control, step: int, config: RunConfig) -> Control:
  """The control of a new stage: the chain anew, from `step` on.

  The stage is judged by itself: its evaluations, its best one, its share that is
  over. What the run has learned stays: the metric of the untrained model, the
  intervals between evaluations, the half of the rate after a failure.
  """
  first, steps = control.first, control.planned_end
  untrained = first.untrained_metric(steps)
  begun = Control(
    cycle=control.cycle + 1,
    rate_factor=control.rate_factor,
    start=step,
    chain_start=step,
    stage_start=step,
    planned_end=step + config.chain.steps,
    anchor_step=step,
    num_early_stops=control.num_early_stops,
    first=first._replace(step=min(first.step, 1), metric=untrained),
    switching=config.settings.switching.initial,
    intervals=control.intervals,
    plan=plan_of(config.chain),
  )
  return _laid_out(begun, step, config)


def transition(
  control: Control,
  evaluations: Sequence[Evaluation],  # those not seen yet, in order
  step: int,  # about to be taken
  config: RunConfig,
  is_model_finite: Callable[[], bool],  # asked only if a reset depends on it
) -> Transition:
  """Takes in new evaluations, and ends the cycle if it is time.

  After the evaluations, one of these happens:

  1. A cycle that fails is abandoned, if the settings allow it.
  2. A cycle whose steps are over waits until its annealed model is evaluated.
  3. A cycle whose steps are over ends.
  4. The cycle goes on, and is stretched if the horizon has moved.
  """
  before = control
  control, events, reason = taken_in(control, evaluations, config)
  is_finite = math.isfinite(control.last.loss)
  has_diverged = control.num_evaluations > 0 and not is_finite
  if reason and _may_abandon(control, step, config, has_diverged):
    stops = control.num_early_stops + 1
    control = control._replace(num_early_stops=stops)
    last = {'metric': control.last.metric, 'metric_step': control.last.step}
    count = {'num_early_stops': stops}
    said = event('abandon', control, reason=reason, **count, **last)
    following = _next(control, step, config, has_failed=True)
    ended = control, [*events, said], True
    return _followed(ended, following, step, config, is_model_finite)
  if step >= control.end:
    give_up = _latest_end(control, config, has_diverged)
    if step < give_up:
      if step == control.end:
        why = 'the annealed model has not been evaluated'
        events.append(event('wait', control, reason=why, cycle_end=give_up))
      return Transition(control, None, events, give_up)
    following = _next(control, step, config, has_failed=has_diverged)
    ended = control, events, False
    return _followed(ended, following, step, config, is_model_finite)
  if _has_moved(before, control, step, config):
    control = _stretched(control, before.planned_end, step, config)
    events.append(clock_event('clock', control, config))
  return Transition(control, None, events, control.end)


def taken_in(
  control: Control, evaluations: Sequence[Evaluation], config: RunConfig
) -> tuple[Control, list[Event], str]:
  """The control, an event for each evaluation, and the first verdict's reason."""
  events, reason = list[Event](), ''
  for evaluation in evaluations:
    control, verdict = observe(control, evaluation, config)
    numbers = {'evaluation': control.num_evaluations, 'loss': evaluation.loss}
    numbers |= verdict.terms
    numbers |= {'metric': evaluation.metric, 'metric_step': evaluation.step}
    events.append(event('evaluation', control, **numbers))
    warnings = _warnings(control, config)
    events += [event('warning', control, reason=why) for why in warnings]
    reason = reason or verdict.reason
  return control, events, reason


def _warnings(control: Control, config: RunConfig) -> list[str]:
  """What the last evaluation says about the way it is measured; each once."""
  first, last, settings = control.first, control.last, config.settings
  is_measured = settings.reset.needs_target or settings.switching.needs_target
  is_measured &= config.target.needs_first and math.isfinite(first.metric)
  found, steps = list[str](), control.planned_end
  is_late = math.isnan(first.untrained_metric(steps))
  if first.step == last.step and is_measured and is_late:
    found += [
      f'the first evaluation came after {first.step} of {steps} steps: evaluate '
      'after the first step too, where the way to the target begins'
    ]
  is_third = control.cycle == 1 and control.num_evaluations == 3
  is_worst = control.best.step == first.step and last.metric != first.metric
  # By noise it gets worse too, but not by a fifth of the loss's share.
  worse = abs(last.metric - first.metric) * abs(first.loss)
  is_clear = worse >= 0.2 * (first.loss - last.loss) * abs(first.metric)
  if is_third and is_worst and is_clear and last.loss < first.loss:
    rises = config.target.rises
    found += [
      'the loss has fallen and the metric has got worse in three evaluations: '
      f'is rises={rises} right?'
    ]
  return found


def observe(
  control: Control, evaluation: Evaluation, config: RunConfig
) -> tuple[Control, Verdict]:
  """The control after an evaluation, and the verdict on the current cycle.

  Whatever the rule says, a loss that is not finite is a reason to abandon. A
  late evaluation of an earlier cycle is used for the intervals only.
  """
  rule, horizon = config.settings.switching, config.settings.horizon
  first = control.first if control.first.step >= 0 else evaluation
  switching, verdict = control.switching, Verdict('', {})
  is_of_cycle = evaluation.step > control.start or control.cycle == 1
  if is_of_cycle:
    begin, end = control.start, control.end
    if rule.judges_chain:
      begin, end = control.chain_start, max(control.planned_end, end)
    share = (evaluation.step - begin) / (end - begin)
    start = first.untrained_metric(control.planned_end)
    untrained = first._replace(metric=start)
    context = Context(share, config.target, untrained)
    switching, verdict = rule.observe(switching, evaluation, context)
    if not math.isfinite(evaluation.loss):
      verdict = verdict._replace(reason='loss is not finite')
  intervals = control.intervals.after(control.last, evaluation)
  planned_end = control.planned_end
  if horizon is not None:
    seconds_left = config.budget - evaluation.seconds
    to_come = horizon.steps_to_come(intervals, seconds_left)
    planned_end = evaluation.step + to_come if to_come else planned_end
    planned_end = int(min(planned_end, config.most_steps))
  return control._replace(
    num_evaluations=control.num_evaluations + is_of_cycle,
    last=evaluation,
    first=first,
    best=_better(control.best, evaluation, config.target.rises),
    switching=switching,
    intervals=intervals,
    planned_end=planned_end,
  ), verdict


def _better(best: Evaluation, new: Evaluation, rises: bool) -> Evaluation:
  """The evaluation with the better metric; a metric that is NaN never is."""
  if best.step < 0 or math.isnan(best.metric):
    return new
  is_better = new.metric > best.metric if rises else new.metric < best.metric
  return new if is_better else best


def _may_abandon(
  control: Control, step: int, config: RunConfig, has_diverged: bool
) -> bool:
  """Whether the settings let a reason of the rule end the cycle."""
  settings = config.settings
  # A rule that judges the chain may also speak when a cycle's steps are over.
  is_heard = settings.switching.judges_chain or step < control.end
  # The model that a run ends with comes from at least half of its steps: a rule
  # that keeps asking for more can throw no chain after chain away.
  is_late = control.planned_end - step < step - control.stage_start
  is_worth_it = has_diverged or not (config.is_timed and is_late)
  return settings.early_switching and is_heard and is_worth_it


def _latest_end(control: Control, config: RunConfig, has_diverged: bool) -> int:
  """The step at which a cycle ends, whether its annealed model was evaluated.

  In a timed run the evaluation after its last step is waited for, for as long as
  the longest interval. Not so if the last one was near enough, or has shown that
  the model is lost.
  """
  nearly = control.end - _NEARLY * control.intervals.median_steps
  is_awaited = config.is_timed and -1 < control.last.step < nearly
  is_awaited &= not has_diverged
  return control.end + is_awaited * control.intervals.most_steps


def _has_moved(
  before: Control, control: Control, step: int, config: RunConfig
) -> bool:
  """Whether the evaluations have moved the end of a timed run, still to come."""
  steps = control.intervals.median_steps
  is_first = steps > 0 == before.intervals.median_steps
  has_moved = is_first or control.planned_end != before.planned_end
  return config.is_timed and has_moved and control.planned_end > step


def _fewest(control: Control, config: RunConfig) -> float:
  """Steps that a cycle has at least; 0 if no number of them is too small."""
  usual = control.intervals.median_steps
  return _FEWEST_INTERVALS * usual * config.is_timed


def _next(
  control: Control, step: int, config: RunConfig, has_failed: bool
) -> Control | None:
  """The cycle that follows the one at hand; None if the cycles have run out.

  A timed run begins its chain anew after a failure. Otherwise the next cycle of
  the chain follows and, after the last one, that cycle again: in a timed run as
  many times as fit the remaining steps best, at its length scaled with the
  horizon; in other runs once, and the run ends later. A repetition after a
  failure has half of the rate.
  """
  cycles, rest = config.chain.cycles, control.planned_end - step
  fewest, rate_factor = _fewest(control, config), control.rate_factor
  if has_failed:
    lower = _RATE_AFTER_FAILURE * rate_factor
    is_rate = lower * min(c.cycle.peak for c in cycles) >= _SMALLEST
    rate_factor = lower if is_rate else rate_factor
  begun = control._replace(start=step, anchor_step=step, anchor_nominal=0.0)
  if has_failed and config.is_timed:
    planned_end = step + max(rest, math.ceil(fewest), 1)
    first = begun._replace(setting=0, rate_factor=rate_factor, chain_start=step)
    return _laid_out(first._replace(planned_end=planned_end), step, config)
  has_room = rest >= max(fewest, 1)
  if has_room and control.setting + 1 < len(cycles):
    return _laid_out(begun._replace(setting=control.setting + 1), step, config)
  if not config.settings.repeat:
    return None
  nominal = cycles[-1].steps
  end = step + max(nominal, math.ceil(fewest))
  if config.is_timed and has_room:
    planned = control.planned_end - control.stage_start
    steps = nominal * planned / config.chain.steps
    further = max(round(rest / max(steps, fewest)), 1)
    end = cycle_ends(step, control.planned_end, [1.0] * further)[0]
  planned_end = max(control.planned_end, end)
  again = begun._replace(setting=len(cycles) - 1, rate_factor=rate_factor)
  again = again._replace(end=end, planned_end=planned_end)
  return _aligned(again, step, config)


def _laid_out(control: Control, step: int, config: RunConfig) -> Control:
  """The cycle at hand with its end, or the first one that is long enough.

  The steps from its start to the planned end are split over this cycle and those
  to come. In a timed run a cycle that would be too short is skipped, and while no
  interval between evaluations is known, the cycle is laid over all of the steps.
  """
  lengths = [planned.cycle.length for planned in config.chain.cycles]
  fewest = _fewest(control, config)
  if config.is_timed and not fewest:
    return control._replace(end=control.planned_end)  # which is to come
  for i in range(control.setting, len(lengths)):
    end = cycle_ends(control.start, control.planned_end, lengths[i:])[0]
    control = control._replace(setting=i, end=max(end, step + 1))
    if end > step and end - control.start >= fewest:
      break
  return _aligned(control, step, config)


def _stretched(
  control: Control, before: int, step: int, config: RunConfig
) -> Control:
  """The cycle with a new end and a new anchor, after the planned end has moved.

  Up to the third interval between evaluations of a run its chain is laid out
  anew, since the first ones have compilations in them. Later, what remains of
  the cycle and the cycles to come share the steps up to the new planned end by
  their nominal lengths. After the chain's last cycle repetitions may follow:
  they were planned to fill the steps up to `before`, the previous planned end.
  """
  lengths = [planned.steps for planned in config.chain.cycles]
  length = lengths[control.setting]
  nominal = nominal_step(clock_of(control, config), step)
  fewest = _fewest(control, config)
  is_settled = 0 < fewest <= step  # three intervals of the run are over
  if control.start == 0 and not is_settled:
    control = _laid_out(control._replace(setting=0), step, config)
    # The same share of the cycle has passed: among like cycles no rate jumps.
    nominal = nominal / length * lengths[control.setting]
    return control._replace(anchor_step=step, anchor_nominal=nominal)
  to_come = lengths[control.setting + 1 :]
  shares: list[float] = [length - nominal, *to_come]  # in nominal steps
  if not to_come:  # in steps
    shares = [control.end - step]
    shares += [before - control.end] * (before > control.end)
  end = max(cycle_ends(step, control.planned_end, shares)[0], step + 1)
  control = _aligned(control._replace(end=end), step, config)
  return control._replace(anchor_step=step, anchor_nominal=nominal)


def _aligned(control: Control, step: int, config: RunConfig) -> Control:
  """The cycle, its end moved to where an evaluation is expected.

    end = last + ceil(n * interval)

  n is the whole number nearest to the end that keeps the cycle long enough: a
  cycle that waits for an evaluation stands still meanwhile. An end just after the
  last evaluation stays, or each one that comes too soon would put it off again.
  Where too few steps for a further cycle would remain, the cycle lasts up to the
  planned end, which lies before an evaluation.
  """
  end, last = control.end, control.last.step
  interval, fewest = control.intervals.median_steps, _fewest(control, config)
  if not fewest or end >= control.planned_end:
    return control
  least = control.start + fewest
  if end < least or end - last > _NEARLY * interval:
    n = max(round((end - last) / interval), 1)
    n = max(n, math.ceil((least - last) / interval))
    end = max(last + math.ceil(n * interval), step + 1)
  if control.planned_end - end < fewest:
    end = control.planned_end
  return control._replace(end=end)


def _followed(
  ended: tuple[Control, list[Event], bool],
  following: Control | None,
  step: int,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
) -> Transition:
  """Begins the following cycle with a reset, or ends the run if there is none.

  Args:
    ended: the cycle that has ended, the events so far, and whether it was
      abandoned.
    following: that cycle; a full reset makes it the first of a new chain.
    step, config, is_model_finite: see `transition`.
  """
  before, events, is_early = ended
  if following is None:
    reason, stops = 'cycles have run out', before.num_early_stops
    said = event('finish', before, reason=reason, num_early_stops=stops)
    if before.best.step >= 0:
      best = before.best
      said |= {'metric': best.metric, 'metric_step': best.step}
    return Transition(before, None, [*events, said], step, run_is_over=True)
  plan, note = _plan(before, following, step, config, is_model_finite)
  reset, rule = config.settings.reset, config.settings.switching
  is_full = plan == FULL
  is_judged_anew = is_full or not rule.judges_chain
  control = following._replace(
    cycle=before.cycle + 1,
    num_evaluations=0,
    chain_start=step if is_full else following.chain_start,
    switching=rule.initial if is_judged_anew else following.switching,
  )
  said = event(
    'reset',
    control,
    reason='early' if is_early else 'scheduled',
    reset='FullReset' if is_full else type(reset).__name__,
    tau=plan.tau,
    alpha=getattr(reset, 'alpha', ''),
    metric=before.last.metric,
    metric_step=before.last.step,
    note=note,
  )
  events = [*events, said, start_event(control, config)]
  return Transition(control, plan, events, control.end)


def _plan(
  ended: Control,
  following: Control,
  step: int,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
) -> tuple[ResetPlan, str]:
  """What the reset between two cycles does, and a note if it is special.

  tau is taken at the last evaluation of the cycle that has ended. Without an
  evaluation there is no evidence against the model, and tau is 0. In a timed run
  the evaluation after step 1 does not count as one. A model that is not finite
  would stay so: whatever the reset, a fresh model takes its place.
  """
  last, reset = ended.last, config.settings.reset
  is_seen = ended.num_evaluations > 0
  if following.chain_start == step:
    return FULL, 'the chain begins anew'
  is_finite = math.isfinite(last.loss + last.metric) or not is_seen
  if not (is_finite and is_model_finite()):
    return FULL, 'the model is not finite'
  if is_seen and (last.step > 1 or not config.is_timed):
    steps = step - ended.stage_start, ended.planned_end - ended.stage_start
    way = Way(last, ended.first, config.target, *steps)
    return reset.plan(reset.tau(way)), ''
  depends_on_tau = reset.plan(0.0) != reset.plan(1.0)
  note = 'no evaluation in the cycle: tau is 0' if depends_on_tau else ''
  return reset.plan(0.0), note
