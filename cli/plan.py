"""`soft-reset schedule`: shows a plan before anything is trained.

Also which settings are meant, by their name or a file.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from . import errors, flags, signals

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams

settings_name = flags.option(
  'settings',
  metavar='NAME',
  help='soft_reset, thesis, or a run of the thesis, as in `soft-reset '
  'experiments fig3.8a`. Default: soft_reset.',
)
params_file = flags.option(
  'params',
  flags.FILE,
  help='JSON file with fields of ScheduleParams, which replace those in force; '
  'or the schedule_params.json of a run.',
)


def read_settings(
  name: str | None, file: str | None
) -> tuple[str, int | None, ScheduleParams]:
  """The settings that --settings or --params means.

  Returns:
    A name for them that can be a folder's, the step_hint that the file states
    (or None), and the settings.

  Raises:
    ValueError: if both are given, or what is given is none.
  """
  from ..core.checks import did_you_mean
  from ..experiments.settings import RUNS
  from ..parts import settings_json
  from ..schedule_params import SCHEDULE_PARAMS, SOFT_RESET, THESIS
  from ..studies import paths

  if name is not None and file is not None:
    raise ValueError('--settings and --params contradict each other: give one.')
  if file is not None:
    path = pathlib.Path(file).expanduser()
    if not path.exists():
      raise ValueError(f'--params={file}: there is no such file.')
    try:
      paths.check_file(path)
      return 'own', *settings_json.read_file(path, SCHEDULE_PARAMS)
    except ValueError as e:
      raise ValueError(f'--params={file}: {e}') from e
  known = {'soft_reset': SOFT_RESET, 'thesis': THESIS, **RUNS}
  name = 'soft_reset' if name is None else name
  if name.lower() == 'competition':
    raise ValueError(
      f'--settings={name} is gone: SOFT_RESET scores higher; give soft_reset.'
    )
  if name not in known:
    raise ValueError(
      f'--settings={name}: must be one of {", ".join(known)}.'
      + did_you_mean(name, known)
    )
  return name, None, known[name]


@click.command(cls=flags.Command, short_help='show what a run will do')
@settings_name
@params_file
@flags.option(
  'step_hint',
  click.IntRange(1, 10_000_000),
  help="The workload's step_hint; the plan has budget_factor times as many "
  "steps. Required, unless --params is a run's file, which states it.",
)
@flags.option(
  'at',
  click.IntRange(0),
  help='Show cycle, phase, learning rate and a scheduled weight decay of one '
  'step: the one about to be taken after N steps. The first is 0.',
)
@flags.option(
  'out',
  flags.FILE,
  metavar='PNG',
  help='Picture of the learning rate, with a scheduled weight decay below.',
)
@flags.overwrite
def schedule(
  settings: str | None,
  params: str | None,
  step_hint: int | None,
  at: int | None,
  out: str | None,
  overwrite: bool,
) -> int:
  """Shows the learning rate that a chain of cycles plans.

  Its cycles, what of them evaluations decide, a picture, a single step, and
  what a bound for SGD on convex functions says about its shape.
  """
  if step_hint is None and params is None:
    raise click.UsageError('--step_hint is missing: give the steps.')
  with signals.ending_at_once():
    import numpy as np

    from ..studies import paths, plans
    from ..studies.preview import plan as preview
  with (
    errors.setup_phase(),
    np.errstate(over='ignore', invalid='ignore'),  # the checks report these
  ):
    picture = None
    if out is not None:
      picture = paths.new_file(out, overwrite, '.png')
    name, recorded, chosen = read_settings(settings, params)
    steps = step_hint or recorded
    if steps is None:
      raise ValueError('--step_hint is missing: the file does not state it.')
    plan = plans.RunPlan(steps, chosen)
    text = '\n'.join(preview.plan_lines(name, plan, at))
    if picture:
      preview.save_picture(picture, name, plan)
  print(text)
  return 0
