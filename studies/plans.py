"""Chains of cycles as they are planned, and how their settings are written."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import schedules
from ..core.records import SETTINGS, as_plain
from ..core.schedules import PlannedCycle
from ..parts import settings_json
from ..schedule_params import ScheduleParams
from .paths import check_file

# Of a plan or a log: more would need gigabytes. No run of the benchmark has a
# hundredth of them.
MOST_STEPS = 20_000_000


class RunPlan(NamedTuple):
  """A chain of cycles, and the steps that it is laid over."""

  step_hint: int
  params: ScheduleParams

  @property
  def cycles(self) -> tuple[PlannedCycle, ...]:
    """The chain over its steps."""
    params = self.params
    return schedules.jax_lr_schedule(
      self.step_hint, params.cycles, params.budget_factor
    )


def read_plan(log_dir: pathlib.Path) -> RunPlan | None:
  """The plan of a run; None if its folder has none.

  Raises:
    ValueError: if the file is damaged; names it.
  """
  path = check_file(log_dir / SETTINGS)
  if not path.exists():
    return None
  step_hint, params = settings_json.read_file(path)
  if step_hint is None:
    raise ValueError(f'{path}: the field step_hint is missing.')
  return RunPlan(step_hint, params)


def check(plan: RunPlan) -> None:
  """Raises a ValueError if a plan has more steps than can be held."""
  factor, step_hint = plan.params.budget_factor, plan.step_hint
  if factor * step_hint > MOST_STEPS:
    raise ValueError(
      f'budget_factor={factor:g} and step_hint={step_hint:,} make '
      f'{factor * step_hint:g} steps: give a plan of at most {MOST_STEPS:,}.'
    )


def shown(setting: Any) -> str:
  """A setting in few words: its class, and the fields that are not defaults."""
  if not dataclasses.is_dataclass(setting):
    return str(setting)
  changed = [
    f'{field.name}={shown(getattr(setting, field.name))}'
    for field in dataclasses.fields(setting)
    if getattr(setting, field.name) != field.default
  ]
  name = type(setting).__name__
  return f'{name}({", ".join(changed)})' if changed else name


def planned_rates(plan: RunPlan) -> np.ndarray:
  """The rates at which the steps are taken when no cycle is left early.

  Returns:
    shape=(steps,), float32. The rate after the last step is not among them.
  """
  cycles = plan.cycles
  num_steps = sum(cycle.steps for cycle in cycles)
  return schedules.planned_rates(cycles, np.arange(num_steps))


def what_evaluations_decide(params: ScheduleParams) -> Sequence[str]:
  """What of a plan a run may do otherwise, a sentence each.

  Returns:
    Nothing only if all that happens is in the plan.
  """
  said = []
  if params.race:
    peaks = ', '.join(f'{factor:g}' for factor in params.race.peaks)
    said.append(
      f'The rates are multiplied by {peaks}, in this order, until the model '
      'learns: its first evaluation in the cycle says so. Each change is a full '
      'reset, and the chain begins anew.'
    )
  if params.early_switching:
    said.append(
      f'{shown(params.switching)} may end a cycle early; the next one then '
      'starts at once.'
    )
  if params.horizon:
    said.append(
      f'{shown(params.horizon)} lays the cycles over the time budget, anew at '
      'every evaluation, with the same ratios. A cycle may be a few steps '
      'longer: a reset waits for its evaluation.'
    )
  if len(params.cycles) > 1 or said:
    said.append(
      f'What a further cycle starts from: {shown(params.reset)}, with tau from '
      'the last evaluation where the reset is soft.'
    )
  return said


def run_settings(log_dir: pathlib.Path) -> dict[str, str]:
  """A run's settings, by field, as JSON; none if its folder has none."""
  plan = read_plan(log_dir)
  if plan is None:
    return {}
  values = as_plain(plan.params)
  del values['class']
  cycles = enumerate(values.pop('cycles'))
  values = {f'cycles[{i}]': cycle for i, cycle in cycles} | values
  values = {'step_hint': plan.step_hint} | values
  return {name: json.dumps(value) for name, value in values.items()}
