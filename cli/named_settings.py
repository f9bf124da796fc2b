"""`--settings`: the name of settings, or a file of them."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..console.flags import completes, option
from ..views import paths

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams


def _names() -> Iterable[str]:
  """The names of settings."""
  from ..research.thesis.settings import RUNS

  return 'muon', 'soft_reset', 'thesis', *RUNS


settings_option = option(
  'settings',
  'muon (the default), soft_reset, thesis, a run of `experiments`, or a .json '
  "file: fields of ScheduleParams to replace, or a run's settings.",
  shell_complete=completes(_names),
)


def read_settings(text: str | None) -> tuple[str, int | None, ScheduleParams]:
  """The name of settings or of their file, its step_hint, and the settings.

  ValueError for a text that is neither a name nor a file of settings.
  """
  from ..core.checks import did_you_mean
  from ..research.thesis.settings import RUNS
  from ..schedule_params import MUON, SCHEDULE_PARAMS, SOFT_RESET, THESIS
  from ..views import settings_json

  name = 'muon' if text is None else text
  if name.endswith('.json'):
    file = paths.check_file(pathlib.Path(name).expanduser())
    # submission_info.yml has it in quotes.
    title = file.name if re.fullmatch(r'[\w. -]+', file.name) else 'own'
    return title, *settings_json.read_file(file, SCHEDULE_PARAMS)
  known = {'muon': MUON, 'soft_reset': SOFT_RESET, 'thesis': THESIS, **RUNS}
  if name not in known:
    if os.path.isdir(name):
      raise ValueError(f'--settings={name} is a folder: give a .json file.')
    names, near = ', '.join(known), did_you_mean(name, known)
    raise ValueError(
      f'--settings={name}: must be a .json file or one of {names}.{near}'
    )
  return name, None, known[name]
