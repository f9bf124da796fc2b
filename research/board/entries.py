"""The submissions on the board: their files, and one rate factor each.

A rate is never tuned to a workload. Every submission has its published rate and
one factor, the same for all workloads and conditions, which acts as explained
in `conditions`. MUON, which is handed in, and SOFT_RESET have none. The
ablations of SOFT_RESET have that of `bare`, its optimizer alone: `RelativePeak`
undoes it for the rate, not for the weight decay.

factors.json has the factors and what they were chosen from, runs under tuned@2,
tuned@4, tuned@8 and tuned@16: the best one leaves the most of the budget when
the target is reached, on average over workloads; ties go to the one that comes
nearest to the targets.
"""

from __future__ import annotations

import pathlib
import re
from typing import NamedTuple

from ...console import errors
from ...core.checks import did_you_mean
from ...mini_algoperf.submission_loader import (
  LoadedSubmission,
  as_submission,
  load_submission,
)
from ...schedule_params import SCHEDULE_PARAMS
from ...submission import make_submission
from ...views import settings_json
from ...views.paths import read_object
from . import ablation
from .ablation import ABLATIONS, OF_MUON

FACTORS_FILE = pathlib.Path(__file__).with_name('factors.json')
_RIVALS = pathlib.Path(__file__).resolve().with_name('rivals')
_HELPERS = ('__init__', 'common')
_WITHOUT_FACTOR = ('MUON', 'before_the_law', 'SOFT_RESET')
_ABLATION_FILE = pathlib.Path(ablation.__file__).resolve()


class Contender(NamedTuple):
  """A submission."""

  name: str  # on the board
  path: str  # of its Python file, or of its settings as JSON
  factor: float  # by which its learning rates act multiplied


def known_paths() -> dict[str, pathlib.Path]:
  """The files of the submissions known by name: the rivals' and ours."""
  found = sorted(_RIVALS.glob('*.py'))
  rivals = {path.stem: path for path in found if path.stem not in _HELPERS}
  return {**rivals, **dict.fromkeys(_WITHOUT_FACTOR, _ABLATION_FILE)}


def load(entry: Contender) -> LoadedSubmission:
  """The submission of an entry; ablations are settings, all in one file.

  Raises:
    ValueError: see `submission_loader.load_submission`, and
      `settings_json.read_file` for a file of settings.
  """
  if entry.path == str(_ABLATION_FILE):
    settings = ABLATIONS[entry.name]
  elif entry.path.endswith('.json'):
    path = pathlib.Path(entry.path)
    _, settings = settings_json.read_file(path, SCHEDULE_PARAMS)
  else:
    return load_submission(entry.path)
  return as_submission(make_submission(settings), entry.name)


def factor_of(name: str) -> float:
  """The factor of a submission; 1 if none was chosen for it.

  The ablations of SOFT_RESET have that of `bare`. MUON, its changes, the
  setting before it and SOFT_RESET have none.
  """
  factors = read_object(FACTORS_FILE)['factors']
  is_ablation = name in ABLATIONS.keys() - {*_WITHOUT_FACTOR, *OF_MUON}
  return float(factors.get('bare' if is_ablation else name, 1.0))


def get_entry(text: str) -> Contender:
  """A submission as the command line names it; a file is loaded on trial.

  Raises:
    ValueError: if there is no such submission or file, if a name has other
      characters than letters, digits, _, . and -, or if a file has the name of
      a submission that is known.
    SetupError, RunError: if a file is no submission, or fails; see
      `errors.setup_phase`.
  """
  name, _, given = text.partition('=')
  paths = {**known_paths(), **dict.fromkeys(ABLATIONS, _ABLATION_FILE)}
  if not given and name not in paths:
    raise ValueError(
      f'submission {name!r} is unknown; known are {", ".join(paths)}, and '
      'NAME=FILE for your own.' + did_you_mean(name, paths)
    )
  if not re.fullmatch(r'[\w.-]+', name):
    raise ValueError(
      f'submission {text!r}: its name must consist of letters, digits, _, . '
      'and -: it becomes the name of a folder.'
    )
  if given and name in paths:  # whose factor it would get
    raise ValueError(
      f'submission {text!r}: {name} is a submission of the project; give the '
      'file another name.'
    )
  path = pathlib.Path(given).expanduser() if given else paths[name]
  if not path.is_file():
    raise ValueError(f'submission {text!r}: there is no file {path}.')
  entry = Contender(name, str(path.resolve()), factor_of(name))
  if given:
    with errors.setup_phase(given, ''):
      load(entry)
  return entry
