"""The submissions on the board: their files, and one rate factor each.

A rate is never tuned to a workload. Every submission has its published rate and
one factor, the same for all workloads and conditions, which acts as explained
in `conditions` and was chosen from runs under tuned@2, tuned@4, and so on.

The best factor is the one with which the most of the budget is left when the
target is reached, on average over workloads and seeds; a run that does not
reach it has nothing left. Ties go to the factor that comes nearest to the
targets.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...benchmarks import pieces
from ...benchmarks.pieces import PIECES
from ...core.checks import did_you_mean
from ...mini_algoperf import files
from ...mini_algoperf.submission_loader import (
  LoadedSubmission,
  as_submission,
  load_submission,
)
from ...submission import make_submission
from ..paths import read_object
from .logs import BoardRun

FACTORS_FILE = pathlib.Path(__file__).with_name('factors.json')
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_OURS = 'submission'
_HELPERS = ('__init__', 'common')
_PIECES_FILE = pathlib.Path(pieces.__file__).resolve()


class Contender(NamedTuple):
  """A submission."""

  name: str  # on the board
  path: str  # of its Python file
  factor: float  # by which its learning rates act multiplied


def known_paths() -> dict[str, pathlib.Path]:
  """The files of the submissions known by name: the rivals' and ours."""
  found = sorted((_ROOT / 'benchmarks' / 'rivals').glob('*.py'))
  rivals = {path.stem: path for path in found if path.stem not in _HELPERS}
  return {**rivals, _OURS: _ROOT / 'submission.py'}


def load(entry: Contender) -> LoadedSubmission:
  """The submission of an entry; pieces are settings, and all in one file.

  Raises:
    ValueError: see `submission_loader.load_submission`.
  """
  if entry.path == str(_PIECES_FILE):
    return as_submission(make_submission(PIECES[entry.name]), entry.name)
  return load_submission(entry.path)


def factor_of(name: str) -> float:
  """The factor of a submission; 1 if none was chosen for it.

  Ours without a piece has the factor of ours.
  """
  if not FACTORS_FILE.exists():
    return 1.0
  factors = read_object(FACTORS_FILE)['factors']
  return float(factors.get(_OURS if name in PIECES else name, 1.0))


def get_entry(text: str, published: bool = False) -> Contender:
  """A submission as the command line names it.

  Args:
    text: a known name, or name=path/to/submission.py.
    published: whether its factor is to be 1.

  Raises:
    ValueError: if there is no such submission.
  """
  name, _, given = text.partition('=')
  paths = {**known_paths(), **dict.fromkeys(PIECES, _PIECES_FILE)}
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
  path = pathlib.Path(given).expanduser() if given else paths[name]
  if not path.is_file():
    raise ValueError(f'submission {text!r}: there is no file {path}.')
  factor = 1.0 if published else factor_of(name)
  return Contender(name, str(path.resolve()), factor)


def merit(run: BoardRun) -> tuple[float, float]:
  """How good a run was; larger is better.

  Returns:
    The share of the budget left (0 if the target was not reached), and how near
    it came (1 if it was reached, else the best metric over the target; 0
    without an evaluation).
  """
  if run.is_reached:
    return 1.0 - run.share_to_target, 1.0
  if not np.isfinite(run.values).any():
    return 0.0, 0.0
  if run.target.rises:
    return 0.0, float(np.nanmax(run.values) / run.target.value)
  return 0.0, float(run.target.value / np.nanmin(run.values))


def choose_factors(runs: Sequence[BoardRun]) -> dict[str, dict[str, Any]]:
  """What factors.json says: the best factors, and from what they were chosen.

  By submission, of the factors with the most runs.

  Raises:
    ValueError: if no run counts.
  """
  merits: dict[str, dict[float, list[tuple[float, float]]]] = {}
  for run in runs:
    base, _, factor = run.condition.partition('@')
    if base == 'tuned':
      own = merits.setdefault(run.submission, {})
      own.setdefault(float(factor or 1.0), []).append(merit(run))
  if not merits:
    raise ValueError('there are no runs under tuned@FACTOR: train them first.')
  chosen, table = {}, {}
  for name, own in sorted(merits.items()):
    means = {f: np.mean(found, axis=0).tolist() for f, found in own.items()}
    most = max(map(len, own.values()))
    usable = {f: mean for f, mean in means.items() if len(own[f]) == most}
    chosen[name] = max(usable, key=usable.__getitem__)
    table[name] = {
      f'{factor:g}': {
        'budget_left': round(means[factor][0], 4),
        'nearness': round(means[factor][1], 4),
        'runs': len(own[factor]),
      }
      for factor in sorted(own)
    }
  return {'factors': chosen, 'chosen_from': table}


def write_factors(runs: Sequence[BoardRun]) -> dict[str, float]:
  """Chooses factors from a study's runs, writes factors.json, returns them."""
  found = choose_factors(runs)
  files.write_json(FACTORS_FILE, found)
  return found['factors']
