"""From evaluations to a transition: when a cycle ends, and what follows it.

Pure functions of Python numbers. Where a cycle ends, `layout` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..core.chain import MOST_STEPS
from ..core.checks import check_number
from ..core.evaluation import Evaluation, Way
from ..early_switching import Context, SmoothedLoss, Verdict, logged_beside
from ..optimizers.step import RunStart
from ..soft_reset import FULL, ResetPlan
from .events import Row, clock_event, event, start_event
from .hints import hints
from .layout import NEARLY, following_cycle, laid_out, realigned, stretched
from .state import Control, RunConfig, fingerprint_of


class Transition(NamedTuple):
  """What holds for the step about to be taken."""

  control: Control
  # Of a reset, as a cycle starts; None: no cycle starts.
  reset_plan: ResetPlan | None
  events: list[Row]  # in the order in which they happened
  due: int  # the step before which to decide again, even without an evaluation
  run_is_over: bool = False  # whether the run ends: cycles have run out


class Ended(NamedTuple):
  """A cycle that has ended."""

  control: Control  # before another cycle starts
  events: list[Row]  # so far, in the order in which they happened
  is_early: bool  # whether the cycle was abandoned


def start(config: RunConfig) -> Control:
  """The control before the first step."""
  control = Control(
    planned_end=config.chain.steps,
    switching=config.settings.switching.initial,
    fingerprint=fingerprint_of(config),
  )
  return laid_out(control, 0, config)


def suited(control: Control, run_start: RunStart, config: RunConfig) -> Control:
  """The control of a start, whose size and peaks suit the weights.

  A first peak that is not finite and above 0 leaves the peaks as they are.

  Raises:
    ValueError: unless the size is finite and above 0.
  """
  rule, optimizer = config.settings.relative_peak, config.settings.optimizer
  if optimizer.needs_forms():
    size = optimizer.size(run_start)
    check_number(f'{type(optimizer).__name__}.size', size, '(0, inf)')
    control = control._replace(size=size)
  if rule is None:
    return control
  factor = rule.peak(run_start) / config.chain.cycles[0].cycle.peak
  is_usable = 0.0 < factor < math.inf
  return control._replace(rate_factor=factor) if is_usable else control


def next_stage(control: Control, step: int, config: RunConfig) -> Control:
  """The control of a new stage: the chain anew, from `step` on.

  The stage is judged by itself: its evaluations, its best one, its share that
  is over. What the run has learned stays: the metric of the untrained model,
  the last evaluation and the intervals between evaluations, by which cycles end
  where one is due, and the half of the rate after a failure.
  """
  first = control.first
  # Late or not by the steps of the stage before, and so in each stage to come.
  is_untrained = first.is_untrained(control.planned_end)
  first_step = min(first.step, 1) if is_untrained else MOST_STEPS
  control = Control(
    cycle=control.cycle + 1,
    rate_factor=control.rate_factor,
    size=control.size,
    start=step,
    chain_start=step,
    stage_start=step,
    planned_end=step + config.chain.steps,
    anchor_step=step,
    num_early_stops=control.num_early_stops,
    last=control.last,
    first=first._replace(step=first_step),
    switching=config.settings.switching.initial,
    intervals=control.intervals,
    fingerprint=fingerprint_of(config),
  )
  return laid_out(control, step, config)


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
  4. The cycle goes on. It is stretched if the horizon has moved, and else its
     end is moved if evaluations are no longer expected there.
  """
  before = control
  control, events, verdict = taken_in(control, evaluations, config)
  is_finite = math.isfinite(control.last.loss)
  has_diverged = control.num_evaluations > 0 and not is_finite
  if verdict.reason and _may_abandon(control, step, config, has_diverged):
    stops = control.num_early_stops + 1
    control = control._replace(num_early_stops=stops)
    numbers = {
      **verdict.terms,
      'reason': verdict.reason,
      'num_early_stops': stops,
      'metric': control.last.metric,
      'metric_step': control.last.step,
    }
    abandon = event('abandon', control, **numbers)
    ended = Ended(control, [*events, abandon], is_early=True)
    following = following_cycle(control, step, config, has_failed=True)
    return _followed(ended, following, step, config, is_model_finite)
  if step >= control.end:
    latest_end = _latest_end(control, config, has_diverged)
    if step < latest_end:
      if not control.is_waiting:
        control = control._replace(is_waiting=True)
        why = 'the annealed model has not been evaluated'
        events.append(event('wait', control, reason=why, cycle_end=latest_end))
      return Transition(control, None, events, latest_end)
    ended = Ended(control, events, is_early=False)
    following = following_cycle(control, step, config, has_failed=has_diverged)
    return _followed(ended, following, step, config, is_model_finite)
  moved = control
  if _has_moved(before, control, step, config):
    moved = stretched(control, step, config, before.planned_end)
  elif control.last.step > before.last.step:
    moved = realigned(control, step, config)
  if moved is not control:
    events.append(clock_event('clock', moved, config))
  return Transition(moved, None, events, moved.end)


def taken_in(
  control: Control, evaluations: Sequence[Evaluation], config: RunConfig
) -> tuple[Control, list[Row], Verdict]:
  """The control, an event per evaluation, and a verdict.

  The verdict is the first one with a reason, else the last one, whose reason is
  empty. Its terms are the rule's own; those of S(t) beside it are in the events
  of the evaluations only.
  """
  events, first = list[Row](), Verdict('', {})
  for evaluation in evaluations:
    before = control
    control, verdict, logged = observe(before, evaluation, config)
    numbers = {
      **verdict.terms,
      **logged,
      'evaluation': control.num_evaluations,
      'loss': evaluation.loss,
      'metric': evaluation.metric,
      'metric_step': evaluation.step,
    }
    events.append(event('evaluation', control, **numbers))
    warnings = hints(before, control, config)
    events += [event('warning', control, reason=why) for why in warnings]
    first = first if first.reason else verdict
  return control, events, first


def observe(
  control: Control, evaluation: Evaluation, config: RunConfig
) -> tuple[Control, Verdict, Mapping[str, float]]:
  """The control after an evaluation, and the verdict on the current cycle.

  The third is the terms of S(t), if it is logged beside the rule. Whatever the
  rule says, a loss that is not finite is a reason to abandon. A late evaluation
  of an earlier cycle gives no verdict and is not counted; all else, such as the
  horizon and the best metric, takes it in. The way to the target begins at the
  first evaluation whose metric is finite.
  """
  rule, horizon = config.settings.switching, config.settings.horizon
  is_known = math.isfinite(control.first.metric)
  first = control.first if is_known else evaluation
  switching, smoothed = control.switching, control.smoothed
  verdict, logged = Verdict('', {}), dict[str, float]()
  is_of_cycle = evaluation.step > control.start or control.cycle == 1
  if is_of_cycle:
    start, end = control.start, control.end
    if rule.judges_chain:
      start, end = control.chain_start, max(control.planned_end, end)
    share = (evaluation.step - start) / (end - start)
    metric = first.untrained_metric(control.planned_end)
    untrained = first._replace(metric=metric)
    context = Context(share, config.target, untrained)
    switching, verdict = rule.observe(switching, evaluation, context)
    if beside := logged_beside(rule):
      smoothed, unheard = beside.observe(smoothed, evaluation, context)
      logged = {**unheard.terms}
    if not math.isfinite(evaluation.loss):
      verdict = verdict._replace(reason='loss is not finite')
  intervals = control.intervals.after(control.last, evaluation)
  planned_end = control.planned_end
  if horizon is not None:
    seconds_left = config.budget - evaluation.seconds
    to_come = horizon.steps_to_come(intervals, seconds_left)
    planned_end = evaluation.step + to_come if to_come else planned_end
    planned_end = int(min(planned_end, config.most_steps))
  control = control._replace(
    num_evaluations=control.num_evaluations + is_of_cycle,
    last=evaluation,
    first=first,
    best=_better(control.best, evaluation, config.target.rises),
    switching=switching,
    smoothed=smoothed,
    intervals=intervals,
    planned_end=planned_end,
  )
  return control, verdict, logged


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
  judges_chain = settings.switching.judges_chain
  # A rule that judges the chain may also speak when a cycle's steps are over.
  is_heard = judges_chain or step < control.end
  # What such a rule expects is the target.
  is_done = judges_chain and config.target.is_reached(control.best.metric)
  # The model that a run ends with comes from at least half of the run's steps,
  # so that a rule cannot discard one chain after another.
  is_late = control.planned_end - step < step - control.stage_start
  is_worth_it = has_diverged or not (is_done or (config.is_timed and is_late))
  return settings.early_switching and is_heard and is_worth_it


def _latest_end(control: Control, config: RunConfig, has_diverged: bool) -> int:
  """The step at which a cycle ends, whether its annealed model was evaluated.

  A timed run waits for the evaluation after the cycle's last step, for as long
  as the longest of the last nine intervals. It does not wait if the last
  evaluation came near enough to the cycle's end, or has shown that the model is
  lost.
  """
  if not config.is_timed or has_diverged:
    return control.end
  near = control.end - NEARLY * control.intervals.median_steps
  is_awaited = 0 <= control.last.step < near
  return (
    control.end + control.intervals.most_steps if is_awaited else control.end
  )


def _has_moved(
  before: Control, control: Control, step: int, config: RunConfig
) -> bool:
  """Whether evaluations have moved the end of a timed run that is to come.

  The first interval between evaluations moves the end, too: it says how long a
  cycle must be.
  """
  known_before = before.intervals.median_steps > 0
  is_first_interval = control.intervals.median_steps > 0 and not known_before
  is_end_new = control.planned_end != before.planned_end
  is_to_come = control.planned_end > step
  return config.is_timed and is_to_come and (is_first_interval or is_end_new)


def _followed(
  ended: Ended,
  following: Control | None,
  step: int,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
) -> Transition:
  """Begins the following cycle with a reset, or ends the run if there is none.

  Args:
    ended: the cycle before.
    following: the cycle after; a full reset makes it the first of a new chain.
    step, config, is_model_finite: see `transition`.
  """
  before, events, is_early = ended
  if following is None:
    reason, stops = 'cycles have run out', before.num_early_stops
    finish = event('finish', before, reason=reason, num_early_stops=stops)
    if before.best.step >= 0:
      best = before.best
      finish |= {'metric': best.metric, 'metric_step': best.step}
    return Transition(before, None, [*events, finish], step, run_is_over=True)
  plan, note = _reset_plan(before, following, step, config, is_model_finite)
  reset, rule = config.settings.reset, config.settings.switching
  is_full = plan == FULL
  is_judged_anew = is_full or not rule.judges_chain
  control = following._replace(
    cycle=before.cycle + 1,
    is_waiting=False,
    num_evaluations=0,
    chain_start=step if is_full else following.chain_start,
    switching=rule.initial if is_judged_anew else following.switching,
    smoothed=SmoothedLoss(),
  )
  reset_event = event(
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
  events = [*events, reset_event, start_event(control, config)]
  return Transition(control, plan, events, control.end)


def _reset_plan(
  ended: Control,
  following: Control,
  step: int,
  config: RunConfig,
  is_model_finite: Callable[[], bool],
) -> tuple[ResetPlan, str]:
  """What the reset between two cycles does, and a note if it is special.

  tau is taken at the last evaluation of the cycle that has ended. Without an
  evaluation there is no evidence against the model, and tau is 0. In a timed
  run the evaluation after step 1 does not count. A model that is not finite
  would stay so: whatever the reset, a fresh model takes its place.
  """
  last, reset = ended.last, config.settings.reset
  is_evaluated = ended.num_evaluations > 0
  if following.chain_start == step:
    return FULL, 'the chain begins anew'
  is_finite = math.isfinite(last.loss + last.metric) or not is_evaluated
  if not (is_finite and is_model_finite()):
    return FULL, 'the model is not finite'
  if is_evaluated and (last.step > 1 or not config.is_timed):
    steps = step - ended.stage_start, ended.planned_end - ended.stage_start
    way = Way(last, ended.first, config.target, *steps)
    return reset.plan(reset.tau(way)), ''
  depends_on_tau = reset.plan(0.0) != reset.plan(1.0)
  note = 'no evaluation in the cycle: tau is 0' if depends_on_tau else ''
  return reset.plan(0.0), note
