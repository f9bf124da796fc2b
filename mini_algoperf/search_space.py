"""Hyperparameter points of the external ruleset, from a search space in JSON.

Two forms, as in the benchmark: a dict with, for each hyperparameter, either
{"min": x, "max": y, "scaling": "linear" or "log"} or {"feasible_points": [...]},
which is sampled quasi-randomly; or a list of finished points.
"""

from __future__ import annotations

import collections
import keyword
import math
import numbers
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import qmc

from . import files

SCALINGS = ('linear', 'log')
# The same points in every run: tuning trials can be compared and resumed.
_HALTON_SEED = 0


def read_points(path: str, num_trials: int) -> list[Any]:
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


def generate_points(space: Any, num_trials: int) -> list[Any]:
  """Points of a search space that was read from JSON; see `read_points`."""
  if not isinstance(space, (dict, list)) or not space:
    raise ValueError('must be an object of ranges or a list of points.')
  if isinstance(space, list):
    return _listed_points(space, num_trials)
  _check_names(space)
  for name, dimension in space.items():
    _check_dimension(name, dimension)
  return _sampled_points(space, num_trials)


def _listed_points(points: Sequence[Any], num_trials: int) -> list[Any]:
  for i, point in enumerate(points):
    if not isinstance(point, dict):
      raise ValueError(f'point {i} is {point!r}, but must be an object.')
    if set(point) != set(points[0]):
      raise ValueError(
        f'point {i} has {sorted(point)}, but must have the names of point 0, '
        f'{sorted(points[0])}.'
      )
  _check_names(points[0])
  point_type = collections.namedtuple('Hyperparameters', points[0])
  return [point_type(**point) for point in points[:num_trials]]


def _sampled_points(space: Mapping[str, Any], num_trials: int) -> list[Any]:
  point_type = collections.namedtuple('Hyperparameters', space)
  sampler = qmc.Halton(len(space), scramble=True, seed=_HALTON_SEED)
  return [
    point_type(*map(_value, space.values(), shares))
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
  if not isinstance(dimension, dict):
    raise ValueError(f'{name} is {dimension!r}, but must be an object.')
  if 'feasible_points' in dimension:
    _check_keys(name, dimension, ('feasible_points',))
    points = dimension['feasible_points']
    if not isinstance(points, list) or not points:
      raise ValueError(
        f'{name}: feasible_points={points!r} must be a list of at least one.'
      )
    return
  missing = {'min', 'max', 'scaling'} - set(dimension)
  if missing:
    raise ValueError(
      f'{name} has no {", ".join(sorted(missing))}; it needs feasible_points, '
      'or min, max and scaling.'
    )
  _check_keys(name, dimension, ('min', 'max', 'scaling'))
  _check_range(name, dimension)


def _check_keys(
  name: str, dimension: Mapping[str, Any], known: Sequence[str]
) -> None:
  unknown = [key for key in dimension if key not in known]
  if unknown:
    raise ValueError(
      f'{name} has {unknown[0]!r}, which means nothing beside '
      f'{", ".join(known)}.'
    )


def _check_range(name: str, dimension: Mapping[str, Any]) -> None:
  scaling = dimension['scaling']
  if scaling not in SCALINGS:
    raise ValueError(
      f'{name}: scaling={scaling!r} must be one of {", ".join(SCALINGS)}.'
    )
  low, high = dimension['min'], dimension['max']
  for key in ('min', 'max'):
    if not _is_number(dimension[key]):
      raise ValueError(f'{name}: {key}={dimension[key]!r} must be a number.')
  if low > high:
    raise ValueError(f'{name}: min={low} must be at most max={high}.')
  if scaling == 'log' and low <= 0:
    raise ValueError(f'{name}: min={low} must be above 0 for log scaling.')


def _is_number(value: Any) -> bool:
  return (
    isinstance(value, numbers.Real)
    and not isinstance(value, bool)
    and math.isfinite(value)
  )
