"""Hyperparameter points of the external ruleset, from a search space in JSON.

Two of the benchmark's forms: a list of points, and an object that has
{"feasible_points": [value]} for each hyperparameter, which is one point. What
the benchmark would draw from ranges is given as a list here.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Mapping
from typing import Any

from . import files, spec


def read_points(path: str, num_trials: int) -> list[spec.Hyperparameters]:
  """Reads the points of at most so many tuning trials, in their order.

  Raises:
    ValueError: if the file is missing or broken; the message says where.
  """
  file = pathlib.Path(path).expanduser()
  if not file.is_file():
    raise ValueError(f'tuning_search_space={path}: there is no such file.')
  try:
    return [as_point(p) for p in _points(files.read_json(file))[:num_trials]]
  except ValueError as e:
    raise ValueError(f'tuning_search_space={path}: {e}') from e


def _points(space: Any) -> list[dict[str, Any]]:
  if not isinstance(space, (dict, list)) or not space:
    raise ValueError('must be a list of points or an object of one.')
  if isinstance(space, dict):
    return [{name: _only_value(name, space[name]) for name in space}]
  for i, point in enumerate(space):
    if not isinstance(point, dict):
      raise ValueError(f'point {i} is {point!r}, but must be an object.')
    if set(point) != set(space[0]):
      raise ValueError(
        f'point {i} has {sorted(point)}, but must have the names of point 0, '
        f'{sorted(space[0])}.'
      )
  return space


def _only_value(name: str, dimension: Any) -> Any:
  values = (
    dimension.get('feasible_points') if isinstance(dimension, dict) else 0
  )
  if not isinstance(values, list) or len(values) != 1 or len(dimension) != 1:
    raise ValueError(
      f'{name}={dimension!r}: needs feasible_points alone, a list of one value; '
      'give several points as a list of objects.'
    )
  return values[0]


def as_point(values: Mapping[str, Any]) -> spec.Hyperparameters:
  """A namedtuple 'Hyperparameters'; a ValueError for what is no field's name."""
  namedtuple: Any = collections.namedtuple  # a checker takes literals only
  return namedtuple('Hyperparameters', values)(**values)
