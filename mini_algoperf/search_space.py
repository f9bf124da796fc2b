"""Hyperparameter points of the external ruleset, from a search space in JSON.

Two forms, as in the benchmark: a dict with, for each hyperparameter, either
{"min": x, "max": y, "scaling": "linear" or "log"} or {"feasible_points": [...]},
which is sampled quasi-randomly; or a list of finished points.
"""

from __future__ import annotations

import collections
import keyword
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import qmc

from . import files, spec

SCALINGS = ('linear', 'log')
# The same points in every run: tuning trials can be compared and resumed.
_HALTON_SEED = 0


def read_points(path: str, num_trials: int) -> list[spec.Hyperparameters]:
  """Reads a search space and draws the points of the tuning trials.

  Args:
    path: the JSON file.
    num_trials: number of points; a list gives at most those that it has.

  Returns:
    One namedtuple 'Hyperparameters' for each trial.

  Raises:
    ValueError: if the file is missing or broken; the message says where.
  """
  file = pathlib.Path(path).expanduser()
  if not file.is_file():
    raise ValueError(f'tuning_search_space={path}: there is no such file.')
  try:
    return generate_points(files.read_json(file), num_trials)
  except ValueError as e:
    raise ValueError(f'tuning_search_space={path}: {e}') from e


def generate_points(space: Any, num_trials: int) -> list[spec.Hyperparameters]:
  """Points of a search space that was read from JSON; see `read_points`."""
  if not isinstance(space, (dict, list)) or not space:
    raise ValueError('must be an object of ranges or a list of points.')
  if isinstance(space, list):
    return _listed_points(space, num_trials)
  _check_names(space)
  for name, dimension in space.items():
    _check_dimension(name, dimension)
  return _sampled_points(space, num_trials)


def _listed_points(
  points: Sequence[Any], num_trials: int
) -> list[spec.Hyperparameters]:
  for i, point in enumerate(points):
    if not isinstance(point, dict):
      raise ValueError(f'point {i} is {point!r}, but must be an object.')
    if set(point) != set(points[0]):
      raise ValueError(
        f'point {i} has {sorted(point)}, but must have the names of point 0, '
        f'{sorted(points[0])}.'
      )
  _check_names(points[0])
  return [as_point(point) for point in points[:num_trials]]


def as_point(values: Mapping[str, Any]) -> spec.Hyperparameters:
  """A namedtuple 'Hyperparameters' of values by name."""
  namedtuple: Any = collections.namedtuple  # a checker takes literals only
  return namedtuple('Hyperparameters', values)(**values)


def _sampled_points(
  space: Mapping[str, Any], num_trials: int
) -> list[spec.Hyperparameters]:
  sampler = qmc.Halton(len(space), scramble=True, seed=_HALTON_SEED)
  return [
    as_point(dict(zip(space, map(_value, space.values(), shares))))
    for shares in sampler.random(num_trials).tolist()
  ]


def _value(dimension: Mapping[str, Any], share: float) -> Any:
  """The value at a share in [0, 1) of the way through a dimension."""
  if 'feasible_points' in dimension:
    points = dimension['feasible_points']
    return points[math.floor(share * len(points))]
  low, high = dimension['min'], dimension['max']
  if dimension['scaling'] == 'log':
    return low * (high / low) ** share
  return low + share * (high - low)


def _check_names(names: Mapping[str, Any]) -> None:
  for name in names:
    if not name.isidentifier() or keyword.iskeyword(name) or name[0] == '_':
      raise ValueError(f'{name!r} cannot be the name of a hyperparameter.')


def _check_dimension(name: str, dimension: Any) -> None:
  def check(is_right: bool, what: str) -> None:
    if not is_right:
      raise ValueError(f'{name}={dimension!r}: {what}.')

  keys = {*dimension} if isinstance(dimension, dict) else set()
  is_listed = keys == {'feasible_points'}
  is_range = keys == {'min', 'max', 'scaling'}
  check(
    is_listed or is_range, 'needs feasible_points alone, or min, max, scaling'
  )
  if is_listed:
    points = dimension['feasible_points']
    is_list = isinstance(points, list) and len(points) > 0
    check(is_list, 'feasible_points must be a list of at least one')
    return
  low, high, scaling = (dimension[key] for key in ('min', 'max', 'scaling'))
  check(scaling in SCALINGS, f'scaling must be {" or ".join(SCALINGS)}')
  check(_is_number(low) and _is_number(high), 'min and max must be numbers')
  check(low <= high, 'min must be at most max')
  check(scaling == 'linear' or low > 0, 'min must be above 0 for log scaling')


def _is_number(value: object) -> bool:
  if isinstance(value, bool) or not isinstance(value, (int, float)):
    return False
  return math.isfinite(value)
