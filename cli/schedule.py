"""`soft-reset schedule`: shows a plan before anything is trained."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import arguments, errors, signals

if TYPE_CHECKING:
  from ..mini_algoperf.submission_loader import LoadedSubmission
  from ..schedule_params import ScheduleParams
  from ..studies.preview.plan_text import PlannedChain

SUMMARY = 'show the learning rate that a chain of cycles plans'
USAGE = '--step_hint=N [flags]'
DESCRIPTION = (
  'Shows the learning rate that a chain of cycles plans: its cycles, a picture, '
  'a single step, and what a bound for SGD on convex functions says about its '
  'shape. The chain is the default one unless a flag gives another.'
)
# Every file of ScheduleParams.to_json had this field before policies were
# parts.
_OLD_FIELD = 'when_cycles_run_out'
_SOURCES = ('experiment', 'params', 'submission_path')


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which chain, and what to show of it."""
  _add_chain(parser.add_argument_group('the chain'))
  _add_shown(parser.add_argument_group('what is shown'))


def _add_chain(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--experiment',
    metavar='NAME',
    help='Name of an experiment, as in `soft-reset experiments fig3.8a`.',
  )
  group.add_argument(
    '--submission_path',
    metavar='FILE',
    help='Python file of an experiment of your own, made by make_submission.',
  )
  group.add_argument(
    '--params',
    metavar='FILE',
    type=os.path.expanduser,
    help='JSON file with fields of ScheduleParams, which replace the '
    "default's; or the schedule_params.json of a run.",
  )
  group.add_argument(
    '--step_hint',
    metavar='N',
    type=arguments.whole(1, 10_000_000),
    help="The workload's step_hint; the plan has budget_factor times as many "
    "steps. Required, unless --params is a run's file, which states it.",
  )


def _add_shown(group: argparse._ActionsContainer) -> None:
  group.add_argument(
    '--at',
    metavar='N',
    type=arguments.whole(0),
    help='Show cycle, phase, learning rate and a scheduled weight decay of one '
    'step: the one about to be taken after N steps. The first is 0.',
  )
  group.add_argument(
    '--out',
    metavar='FILE',
    type=os.path.expanduser,
    help='PNG file for a picture of the learning rate, with a scheduled weight '
    'decay below.',
  )
  group.add_argument(
    '--gallery',
    action=arguments.Switch,
    default=False,
    help='Draw only a picture of all shapes that a cycle can have, to --out.',
  )
  group.add_argument(
    '--overwrite',
    action=arguments.Switch,
    default=False,
    help='Replace an existing picture of that name.',
  )


def run(options: argparse.Namespace) -> int:
  """Prints and draws; returns the exit status.

  Raises:
    SetupError: for bad input, or if the picture cannot be written.
  """
  with errors.setup_phase():
    _check_sources(options)
    picture = _picture_path(options)
  with signals.ending_at_once():
    import numpy as np

    from ..studies.preview import plan_text
  with (
    errors.setup_phase(options.submission_path),
    np.errstate(over='ignore', invalid='ignore'),  # the checks report these
  ):
    if options.gallery:
      text = _save_gallery(picture)
    else:
      chain = _read_chain(options)
      text = '\n'.join(plan_text.plan_lines(chain, options.at))
      if picture is not None:
        _save_picture(picture, chain)
  print(text)
  return 0


def params_of(submission: LoadedSubmission) -> ScheduleParams | None:
  """The settings given to make_submission; None for other submissions."""
  from ..schedule_params import ScheduleParams

  made = submission.init_optimizer_state
  given = made.args if isinstance(made, functools.partial) else ()
  return given[0] if given and isinstance(given[0], ScheduleParams) else None


def read_params(path: str) -> tuple[int | None, ScheduleParams]:
  """Reads a chain from either kind of file.

  Args:
    path: a file with fields of ScheduleParams, whose missing fields come from
      the default; or one that a run has written.

  Returns:
    The run's step_hint (None if it is not a run's file) and the chain.

  Raises:
    ValueError: if the file is missing or broken; the message says where.
  """
  from ..mini_algoperf import files
  from ..schedule_params import ScheduleParams
  from ..settings.checks import check

  file = pathlib.Path(path)
  if not file.is_file():
    raise ValueError(f'--params={path}: there is no such file.')
  try:
    values = files.read_json(file)
    check(isinstance(values, Mapping), 'schedule_params', values, 'an object')
    if 'schedule_params' in values:
      chain = ScheduleParams.from_dict(values['schedule_params'])
      return _recorded_hint(values), chain
    if _OLD_FIELD in values:
      return None, ScheduleParams.from_dict(values)
    return None, _over_the_default(values)
  except ValueError as e:
    raise ValueError(f'--params={path}: {e}') from e


def _over_the_default(values: Mapping[str, object]) -> ScheduleParams:
  """The default with fields replaced, given as to `to_dict` or `override`."""
  from ..schedule_params import SCHEDULE_PARAMS
  from ..settings.checks import check, check_known

  inner = values.get('hparams', {})
  check(isinstance(inner, Mapping), 'hparams', inner, 'an object')
  check_known(inner, set(dataclasses.asdict(SCHEDULE_PARAMS.hparams)))
  outer = {name: values[name] for name in values if name != 'hparams'}
  return SCHEDULE_PARAMS.override({**outer, **inner})


def _recorded_hint(values: Mapping[str, object]) -> int:
  from ..settings.checks import check_count

  if 'step_hint' not in values:
    raise ValueError('the field step_hint is missing next to schedule_params.')
  check_count('step_hint', values['step_hint'])
  return values['step_hint']


def _check_sources(options: argparse.Namespace) -> None:
  """Refuses flags that contradict each other, or lack another flag."""
  given = [name for name in _SOURCES if getattr(options, name) is not None]
  if options.gallery:
    for name in (*given, 'step_hint', 'at'):
      if getattr(options, name) is not None:
        raise ValueError(
          f'--{name}={getattr(options, name)} concerns a plan, but --gallery '
          'draws none: leave one of them out.'
        )
    if options.out is None:
      raise ValueError('--gallery needs a PNG file as --out.')
  elif len(given) > 1:
    listed = ' and '.join(f'--{name}' for name in given)
    raise ValueError(f'{listed} contradict each other: give one.')
  elif options.step_hint is None and options.params is None:
    raise ValueError('--step_hint is missing: give the steps of a workload.')


def _read_chain(options: argparse.Namespace) -> PlannedChain:
  from ..schedule_params import SCHEDULE_PARAMS
  from ..studies.preview import plan_text

  recorded, params, name = None, SCHEDULE_PARAMS, 'The default chain'
  if options.experiment is not None:
    params, name = _find_experiment(options.experiment), options.experiment
  elif options.submission_path is not None:
    params, name = _own(options.submission_path), options.submission_path
  elif options.params is not None:
    (recorded, params), name = read_params(options.params), options.params
  step_hint = options.step_hint or recorded
  if step_hint is None:
    raise ValueError('--step_hint is missing: give the steps of a workload.')
  chain = plan_text.PlannedChain(name, step_hint, params)
  plan_text.check_length(chain)
  return chain


def _find_experiment(name: str) -> ScheduleParams:
  from ..experiments.settings import RUNS
  from ..settings.checks import check_choice

  check_choice('--experiment', name, tuple(RUNS))
  return RUNS[name]


def _own(submission_path: str) -> ScheduleParams:
  from ..mini_algoperf import submission_loader

  params = params_of(submission_loader.load_submission(submission_path))
  if params is None:
    raise ValueError(
      f"--submission_path={submission_path} was not made by this project's "
      'make_submission, so its chain is unknown.'
    )
  return params


def _picture_path(options: argparse.Namespace) -> pathlib.Path | None:
  if options.out is None:
    return None
  path = pathlib.Path(options.out)
  if path.suffix.lower() != '.png':
    raise ValueError(f'--out={path} must end in .png.')
  if not path.parent.is_dir():
    raise ValueError(f'--out={path}: there is no folder {path.parent}.')
  if path.exists() and not (options.overwrite and path.is_file()):
    raise ValueError(
      f'--out={path} exists: give another name, or --overwrite to replace a '
      'picture.'
    )
  return path


def _save_gallery(path: pathlib.Path) -> str:
  # Imported here, as below: a terminal needs no matplotlib.
  from ..studies.preview import gallery

  return str(gallery.save_gallery(path))


def _save_picture(path: pathlib.Path, chain: PlannedChain) -> None:
  from ..studies.preview import picture

  name = pathlib.Path(chain.name).name
  title = f'{name}, step_hint {chain.step_hint:,}; dashed: a new cycle starts'
  picture.save_picture(path, chain.step_hint, chain.params, title)
