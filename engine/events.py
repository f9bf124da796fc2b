"""The rows of cycles.csv: each says one thing that happens in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .state import Control, RunConfig, clock_of

Row = dict[str, Any]  # of cycles.csv, by its columns; one event


def event(kind: str, control: Control, /, **more: Any) -> Row:
  """The row of an event of the current cycle."""
  return {'event': kind, 'cycle': control.cycle, **more}


def clock_event(kind: str, control: Control, config: RunConfig) -> Row:
  """The row of a clock that was set anew."""
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


def start_event(control: Control, config: RunConfig) -> Row:
  """The row of a cycle that starts where its clock was set."""
  planned = config.chain.cycles[control.setting]
  row = clock_event('cycle_start', control, config)
  row['peak_value'] = planned.cycle.peak * control.rate_factor
  if planned.decay_factor is not None:
    row['decay_factor'] = planned.decay_factor
  return row


def with_effect(
  events: Sequence[Row], effect: Mapping[str, float]
) -> list[Row]:
  """The rows; the row of the reset also says what it did to the model."""
  return [{**e, **effect} if e['event'] == 'reset' else e for e in events]
