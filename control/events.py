"""The events of a run, as dicts of columns: what was decided and why."""

from __future__ import annotations

from ..schedules.cycle_clock import CycleClock
from .rules import Event, Rules
from .state import Control, Evaluation
from .switching import Verdict


def evaluation_event(
  control: Control, evaluation: Evaluation, verdict: Verdict
) -> Event:
  """The event of an evaluation; `control` is as of after it."""
  return {
    'event': 'evaluation',
    'cycle': control.number,
    'evaluation': control.num_evaluations,
    'loss': evaluation.loss,
    **verdict.terms,
    'metric': evaluation.metric,
    'metric_step': evaluation.step,
  }


def clock_event(control: Control, clock: CycleClock) -> Event:
  """The event of a clock that was re-anchored in the middle of a cycle."""
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
  """The event of a cycle that starts or resumes at this step."""
  return {
    **clock_event(control, clock),
    'event': 'cycle_start',
    'peak_value': rules.cycles[control.cycle].peak * control.scale,
  }


def wait_event(control: Control) -> Event:
  """The event of a cycle's end that waits for an evaluation."""
  return {
    'event': 'wait',
    'cycle': control.number,
    'reason': 'the annealed model has not been evaluated'
    if control.until == 1.0
    else 'the probe has not been evaluated',
    'cycle_end': control.give_up,
  }


def pause_event(control: Control) -> Event:
  """The event of a cycle that is paused; `control` is that cycle's."""
  return {
    'event': 'pause',
    'cycle': control.number,
    'setting': control.cycle + 1,
    'scale': control.scale,
    'metric': control.last_metric,
    'metric_step': control.last_eval_step,
  }
