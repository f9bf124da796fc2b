"""The submissions on the board: their files, and one rate factor each.

A rate is never tuned to a workload. Every submission has its published rate and
one factor, the same for all workloads and conditions, which was chosen under
`tuned` and acts as explained in `conditions`.
"""

from __future__ import annotations

import difflib
import json
import pathlib
import re
from typing import NamedTuple

FACTORS_FILE = pathlib.Path(__file__).with_name('factors.json')
_ROOT = pathlib.Path(__file__).resolve().parents[2]
RIVALS = _ROOT / 'benchmarks' / 'rivals'
PIECES = _ROOT / 'benchmarks' / 'pieces'
_OURS = 'submission'
_HELPERS = ('__init__', 'common', 'nadam')


class Contender(NamedTuple):
  """A submission.

  Attributes:
    name: its name on the board.
    path: its Python file.
    factor: the factor by which its learning rates act multiplied.
  """

  name: str
  path: str
  factor: float


def known_paths() -> dict[str, pathlib.Path]:
  """The files of the submissions known by name: the rivals' and ours."""
  found = {
    path.stem: path
    for path in sorted(RIVALS.glob('*.py'))
    if path.stem not in _HELPERS
  }
  return {**found, _OURS: _ROOT / 'submission.py'}


def piece_paths() -> dict[str, pathlib.Path]:
  """The files of our submission with one piece left out, by name."""
  paths = sorted(PIECES.glob('without_*.py'))
  return {path.stem: path for path in paths}


def read_factors() -> dict[str, float]:
  """The chosen factors, by submission."""
  if not FACTORS_FILE.exists():
    return {}
  return json.loads(FACTORS_FILE.read_text(encoding='utf-8'))['factors']


def factor_of(name: str) -> float:
  """The factor of a submission; 1 if none was chosen for it.

  Args:
    name: its name on the board. Ours without a piece has the factor of ours.
  """
  return read_factors().get(_OURS if name in piece_paths() else name, 1.0)


def get_entry(text: str, published: bool = False) -> Contender:
  """A submission as the command line names it.

  Args:
    text: a known name, or name=path/to/submission.py.
    published: whether its factor is to be 1.

  Raises:
    ValueError: if there is no such submission.
  """
  name, _, given = text.partition('=')
  paths = {**known_paths(), **piece_paths()}
  if not given and name not in paths:
    near = difflib.get_close_matches(name, paths, 1)
    hint = f' Did you mean {near[0]}?' if near else ''
    raise ValueError(
      f'submission {name!r} is unknown; known are {", ".join(paths)}, and '
      f'NAME=FILE for your own.{hint}'
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
