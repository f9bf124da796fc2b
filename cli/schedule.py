"""`soft-reset schedule`: shows a plan before anything is trained."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags

from ..experiments.settings import RUNS
from ..mini_algoperf import files
from ..schedule_params import SCHEDULE_PARAMS, ScheduleParams
from ..schedules import lr_schedule
from ..settings.checks import check_count
from ..studies.preview import bound_text as plan_bound
from ..studies.preview import cycle_table
from ..studies.preview import position as plan_position
from ..studies.text_table import table_lines
from . import errors, flag_parsing, schedule_flags

_MOST_STEPS = 20_000_000  # more would need gigabytes


class Plan(NamedTuple):
  """A chain over so many steps, and what it is called."""

  name: str
  step_hint: int
  params: ScheduleParams


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset schedule`.

  Raises:
    errors.SetupError: for bad input, or if the picture can't be written.
  """
  with (
    errors.setup_phase(),
    flag_parsing.parsed_flags(
      'soft-reset schedule', arguments, schedule_flags.SCHEDULE_FLAGS
    ) as values,
  ):
    picture = _picture_path(values)
    if values.gallery:
      _check_no_plan(values)
      _save_gallery(picture)
      return 0
    plan = _read_plan(values)
    text = '\n'.join(_lines(plan, values.at))
    if picture is not None:
      _save_picture(picture, plan)
  print(text)
  return 0


def _check_no_plan(values: flags.FlagValues) -> None:
  for name in ('experiment', 'params', 'step_hint', 'at'):
    value = values[name].value
    if value is not None:
      raise ValueError(
        f'--{name}={value} is about a plan, and --gallery draws none: leave '
        'one of them out.'
      )


def _save_gallery(path: pathlib.Path | None) -> None:
  if path is None:
    raise ValueError('--gallery needs a PNG file as --out.')
  # Imported here: a terminal needs no matplotlib.
  from ..studies.preview import gallery as schedule_gallery

  print(schedule_gallery.save_gallery(path))


def _read_plan(values: flags.FlagValues) -> Plan:
  if values.experiment is not None and values.params is not None:
    raise ValueError(
      '--experiment and --params contradict each other: give one.'
    )
  step_hint, name = values.step_hint, 'The default chain'
  params = SCHEDULE_PARAMS
  if values.experiment is not None:
    params, name = _find_experiment(values.experiment), values.experiment
  elif values.params is not None:
    recorded, params = read_params(values.params)
    step_hint, name = step_hint or recorded, values.params
  if step_hint is None:
    raise ValueError('--step_hint is missing: give the steps of a workload.')
  _check_length(step_hint, params)
  return Plan(name, step_hint, params)


def _find_experiment(name: str) -> ScheduleParams:
  if name not in RUNS:
    raise ValueError(f'--experiment={name!r}: give one of {", ".join(RUNS)}.')
  return RUNS[name]


def read_params(path: str) -> tuple[int | None, ScheduleParams]:
  """Reads a chain from either kind of file.

  Args:
    path: written by ScheduleParams.to_json or records.write_configuration.

  Returns:
    The step_hint of the run, if it is a run's file, and the chain.

  Raises:
    ValueError: if the file is missing or broken; the message says where.
  """
  file = pathlib.Path(path).expanduser()
  if not file.is_file():
    raise ValueError(f'--params={path}: there is no such file.')
  try:
    values = files.read_json(file)
    if isinstance(values, Mapping) and 'schedule_params' in values:
      return _recorded_hint(values), ScheduleParams.from_dict(
        values['schedule_params']
      )
    return None, ScheduleParams.from_dict(values)
  except ValueError as e:
    raise ValueError(f'--params={path}: {e}') from e


def _recorded_hint(values: Mapping[str, Any]) -> int:
  if 'step_hint' not in values:
    raise ValueError('missing field step_hint beside schedule_params.')
  check_count('step_hint', values['step_hint'])
  return values['step_hint']


def _check_length(step_hint: int, params: ScheduleParams) -> None:
  steps = lr_schedule.horizon_steps(step_hint, params)
  if steps > _MOST_STEPS:
    raise ValueError(
      f'budget_factor={params.budget_factor:g} and step_hint={step_hint:,} '
      f'make {steps:,} steps: give a plan of at most {_MOST_STEPS:,}.'
    )


def _picture_path(values: flags.FlagValues) -> pathlib.Path | None:
  if values.out is None:
    return None
  path = pathlib.Path(values.out).expanduser()
  if path.suffix.lower() != '.png':
    raise ValueError(f'--out={path}: give a file that ends in .png.')
  if not path.parent.is_dir():
    raise ValueError(f'--out={path}: there is no folder {path.parent}.')
  if path.exists() and not (values.overwrite and path.is_file()):
    raise ValueError(
      f'--out={path} exists: give another name, or --overwrite to replace a '
      'picture.'
    )
  return path


def _lines(plan: Plan, at: int | None) -> Iterator[str]:
  """The whole text."""
  step_hint, params = plan.step_hint, plan.params
  rates = plan_position.planned_rates(step_hint, params)
  yield (
    f'{plan.name}: {rates.size:,} steps, {params.budget_factor:g} times a '
    f'step_hint of {step_hint:,}.'
  )
  rows = cycle_table.cycle_rows(step_hint, params, rates)
  yield from table_lines(rows)
  yield (
    'First and last step are counted from 1. No cycle of a plan is left early.'
  )
  if at is not None:
    decays = plan_position.planned_weight_decays(step_hint, params)
    position = plan_position.find_position(at, step_hint, params, rates, decays)
    yield ''
    yield from plan_position.position_lines(position)
  yield ''
  yield from plan_bound.bound_lines(rates)


def _save_picture(path: pathlib.Path, plan: Plan) -> None:
  # Imported here: a terminal needs no matplotlib.
  from ..studies.preview import picture as schedule_picture

  name = pathlib.Path(plan.name).name
  title = f'{name}, step_hint {plan.step_hint:,}; dashed: a new cycle starts'
  schedule_picture.save_picture(path, plan.step_hint, plan.params, title)
