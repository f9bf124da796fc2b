"""The external ruleset: a point of hyperparameters for each trial.

A file of a search space has the benchmark's format: by names, either

  {"feasible_points": [0.0, 0.1]}
  {"min": 0.01, "max": 0.1, "scaling": "log"}    or "linear"

or a list of points, which are taken as they are, in order.
"""

from __future__ import annotations

import collections
import itertools
import json
import keyword
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import qmc

from . import RunOptions, files

_MOST_COMBINATIONS, _LARGEST = 4096, sys.float_info.max
HYPERPARAMETERS = 'hparams.json'  # in a trial's folder, as in the benchmark


def read_points(options: RunOptions) -> list[Any]:
  """The hyperparameters of each trial; one None under the self-tuning ruleset.

  Raises:
    ValueError: if a flag is missing or has no effect, or the file is no search
      space.
  """
  path, num_trials = options.tuning_search_space, options.num_tuning_trials
  if options.tuning_ruleset == 'self':
    for flag, is_given in (
      (f'--tuning_search_space={path}', path is not None),
      (f'--num_tuning_trials={num_trials}', num_trials != 1),
    ):
      if is_given:
        raise ValueError(
          f'{flag} has no effect under the self-tuning ruleset: leave it out, '
          'or give --tuning_ruleset=external.'
        )
    return [None]
  if path is None:
    raise ValueError(
      '--tuning_search_space is missing: the external ruleset needs a JSON '
      'file, such as tuning_search_space.json.'
    )
  space = read_space(path)
  try:
    return points_of(space, num_trials, options.rng_seed)
  except ValueError as e:
    raise ValueError(f'--tuning_search_space={path}: {e}') from e


def points_of(space: Any, num_trials: int, seed: int | None) -> list[Any]:
  """Points of a search space, as namedtuples.

  Args:
    space: what a file holds.
    num_trials: how many; a list of points may have fewer.
    seed: of the scrambled Halton sequence; None for a random one. The points
      are spread as the benchmark's points, which have other, fixed seeds.

  Raises:
    ValueError: names what is wrong, and says what would be right.
  """
  if isinstance(space, list):
    if not space or not all(isinstance(p, dict) and p for p in space):
      raise ValueError('a list must hold points, such as {"alpha": 0.5}.')
    for i, point in enumerate(space):
      if point.keys() != space[0].keys():
        raise ValueError(f'point {i + 1} has other names than the first one.')
    named = _names(space[0])
    return [named(**point) for point in space[:num_trials]]
  if not isinstance(space, dict) or not space:
    raise ValueError(
      'it must be an object of ranges by names, or a list of points.'
    )
  named = _names(space)
  for name, part in space.items():
    _check_range(name, part)
  sequence = qmc.Halton(len(space), scramble=True, seed=seed)
  return [
    named(*map(_value, space.values(), shares))
    for shares in sequence.random(num_trials).tolist()
  ]


def outermost_points(space: Any) -> list[Any]:
  """The extreme points of a space, as namedtuples; the others lie between.

  The extreme points are all combinations of the names' values, or of the ends
  of their intervals. With more than 4,096 combinations, each value stands
  beside the first values of the other names. A list's extreme points are its
  points.
  """
  if isinstance(space, list):
    return points_of(space, len(space), None)
  points_of(space, 1, None)  # which checks it
  values = {
    name: part.get('feasible_points') or [part['min'], part['max']]
    for name, part in space.items()
  }
  if math.prod(map(len, values.values())) <= _MOST_COMBINATIONS:
    combined = itertools.product(*values.values())
    return [_names(space)(*point) for point in combined]
  first = _names(space)(*(of_name[0] for of_name in values.values()))
  return [
    first._replace(**{name: value})
    for name, of_name in values.items()
    for value in of_name
  ]


def write_point(log_dir: pathlib.Path, point: Any) -> Any:
  """The point in a trial's folder; `point` is written there if there is none.

  Raises:
    ValueError: if the folder's point has other names, those of another search
      space.
  """
  path = log_dir / HYPERPARAMETERS
  if point is None:
    return None
  if not path.exists():
    files.write_json(path, point._asdict())
    return point
  recorded = files.read_json(path)
  if [*recorded] != [*point._fields]:
    raise ValueError(
      f'--tuning_search_space: the trial to resume has {", ".join(recorded)}; '
      'give the file that it was started with.'
    )
  return _names(recorded)(**recorded)


def read_space(path: str) -> Any:
  """What a JSON file holds; raises ValueError, naming the flag, without one."""
  file = pathlib.Path(path).expanduser()
  if not file.is_file():
    raise ValueError(f'--tuning_search_space={path}: must be a JSON file.')
  try:
    return json.loads(files.read_bytes(file))
  except ValueError as e:
    raise ValueError(f'--tuning_search_space={path}: no JSON ({e}).') from e


def _names(point: Mapping[str, Any]) -> Any:
  for name in point:
    if (
      not name.isidentifier() or name.startswith('_') or keyword.iskeyword(name)
    ):
      raise ValueError(
        f'{name!r} must be a name of Python, since the benchmark makes a '
        "namedtuple of it: write __ for a path's dot."
      )
  return collections.namedtuple('Hyperparameters', point)


def _check_range(name: str, part: Any) -> None:
  """ValueError unless these are points, or an interval and its scaling."""
  match part:
    case {'feasible_points': [_, *_], **rest} if not rest:
      return
    case {
      'min': int() | float() as low,
      'max': int() | float() as high,
      'scaling': 'linear' | 'log' as scaling,
      **rest,
    } if not rest:
      is_bool = isinstance(low, bool) or isinstance(high, bool)
      is_in_order = -_LARGEST <= low < high <= _LARGEST and not is_bool
      if is_in_order and (scaling == 'linear' or low > 0):
        return
  raise ValueError(
    f'{name}={part!r}: must be {{"feasible_points": [...]}}, or {{"min": x, '
    '"max": y, "scaling": "linear" or "log"} with x < y, and 0 < x for log.'
  )


def _value(part: Mapping[str, Any], share: float) -> Any:
  """A value of a range, for a share of it in [0, 1)."""
  if 'feasible_points' in part:
    points: Sequence[Any] = part['feasible_points']
    return points[math.floor(share * len(points))]
  low, high = part['min'], part['max']
  if part['scaling'] == 'log':
    return low * math.exp(share * math.log(high / low))
  return low + share * (high - low)
