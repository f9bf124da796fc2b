"""All that a terminal shows of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...schedule_params import ScheduleParams, check_plan
from ...schedules.lr_schedule import lay_out
from ...settings.named import name_of
from ...training.picture import chooses_freely
from ..text_table import table_lines
from . import bound_text, cycle_table, position

_MOST_STEPS = 20_000_000  # more would need gigabytes


class PlannedChain(NamedTuple):
  """A chain over so many steps, and what it is called."""

  name: str
  step_hint: int
  params: ScheduleParams


def caveat_lines(params: ScheduleParams) -> Iterator[str]:
  """What a run may make of a plan otherwise, where its parts say so."""
  if not chooses_freely(params):
    return
  yield (
    f'The policy {name_of(params.policy)} chooses which setting comes next and '
    'for how long,'
  )
  yield 'by the evaluations of the run: the table lists them in order, no more.'


def check_length(chain: PlannedChain) -> None:
  """Raises a ValueError if a chain has more steps than can be held."""
  factor, step_hint = chain.params.budget_factor, chain.step_hint
  if factor * step_hint > _MOST_STEPS:
    raise ValueError(
      f'budget_factor={factor:g} and step_hint={step_hint:,} make '
      f'{factor * step_hint:g} steps: give a plan of at most {_MOST_STEPS:,}.'
    )


def plan_lines(chain: PlannedChain, at: int | None) -> Iterator[str]:
  """The whole text.

  Args:
    chain: as it is planned.
    at: a step to be shown, counted from 0, or None.

  Raises:
    ValueError: if the chain doesn't fit into its steps, has an impossible rate,
      or has no such step.
  """
  step_hint, params = chain.step_hint, chain.params
  check_plan(step_hint, params)
  cycles = lay_out(step_hint, params)
  rates = position.planned_rates(cycles)
  yield (
    f'{chain.name}: {rates.size:,} steps, {params.budget_factor:g} times a '
    f'step_hint of {step_hint:,}.'
  )
  rows = cycle_table.cycle_rows(step_hint, params, rates)
  yield from table_lines(rows)
  settings = cycle_table.setting_rows(params)
  if settings:
    yield ''
    yield from table_lines(settings)
    yield ''
  yield (
    'First and last step are counted from 1. No cycle of a plan is left early.'
  )
  yield from caveat_lines(params)
  if at is not None:
    decays = position.planned_weight_decays(cycles)
    found = position.find_position(at, cycles, rates, decays)
    yield ''
    yield from position.position_lines(found)
  yield ''
  yield from bound_text.bound_lines(rates)
