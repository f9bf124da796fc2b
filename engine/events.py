"""The rows of cycles.csv: what happens in a run, each as an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .state import Control, RunConfig, clock_of

Event = dict[str, Any]


def event(kind: str, control: Control, /, **more: Any) -> Event:
  """An event of the current cycle."""
  return {'event': kind, 'cycle': control.cycle, **more}


def clock_event(kind: str, control: Control, config: RunConfig) -> Event:
  """The event of a clock that was set anew."""
  clock = clock_of(control, config)
  return event(
    kind,
    control,
    setting=control.setting + 1,
    cycle_end=control.end,
    anchor_nominal=float(clock.anchor_nominal),
    pace=float(clock.pace),
    rate_factor=control.rate_factor,
  )


def start_event(control: Control, config: RunConfig) -> Event:
  """The event of a cycle that starts where its clock was set."""
  written = config.chain.cycles[control.setting].cycle.peak
  peak = written * control.rate_factor
  return {**clock_event('cycle_start', control, config), 'peak_value': peak}


def with_effect(
  events: Sequence[Event], effect: Mapping[str, float]
) -> list[Event]:
  """The events, the reset among them with what it did to the model."""
  return [{**e, **effect} if e['event'] == 'reset' else e for e in events]
