"""Checks of settings: each says what is wrong and what would be right."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Set
from typing import Any


def check(condition: bool, name: str, value: Any, right: str) -> None:
  """Raises ValueError, naming the setting, unless the condition holds."""
  if not condition:
    raise ValueError(f'{name}={value!r}: {name} must be {right}.')


def is_number(value: Any) -> bool:
  """Whether the value is a finite real number (a bool is none)."""
  if not isinstance(value, numbers.Real) or isinstance(value, bool):
    return False
  try:
    return math.isfinite(value)
  except OverflowError:  # an int beyond the largest float
    return False


def check_number(
  name: str, value: Any, low: float, high: float, right: str
) -> None:
  """Raises ValueError unless the value is a number in [low, high]."""
  check(is_number(value) and low <= value <= high, name, value, right)


def check_positive(name: str, value: Any) -> None:
  """Raises ValueError unless the value is a number above 0."""
  check(is_number(value) and value > 0, name, value, 'a number above 0')


def check_weight(name: str, value: Any) -> None:
  """Raises ValueError unless the value is a number in (0, 1]."""
  right = 'a number above 0 and at most 1'
  check(is_number(value) and 0 < value <= 1, name, value, right)


def check_count(name: str, value: Any) -> None:
  """Raises ValueError unless the value is a whole number of at least 1."""
  is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  check(is_int and value >= 1, name, value, 'a whole number of at least 1')


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
  """Raises ValueError unless the value is one of the choices."""
  known = isinstance(value, str) and value in choices
  check(known, name, value, f'one of {", ".join(choices)}')


def check_known(values: Mapping[str, Any], known: set[str]) -> None:
  """Raises ValueError if a key is not a known field."""
  unknown = sorted(set(values) - known)
  if unknown:
    raise ValueError(
      f'Unknown field {", ".join(unknown)}; known are '
      f'{", ".join(sorted(known))}.'
    )


def check_complete(
  name: str, values: Any, names: set[str], optional: Set[str] = frozenset()
) -> None:
  """Raises ValueError unless the mapping has the named fields and no others.

  Those that are optional may be missing.
  """
  check(isinstance(values, Mapping), name, values, 'an object')
  check_known(values, names)
  missing = sorted(names - optional - set(values))
  if missing:
    raise ValueError(f'{name}: missing field {", ".join(missing)}.')
