"""Checks of settings and arguments: what is wrong, and what would be right."""

from __future__ import annotations

import math
import numbers
from typing import Any


def check(condition: bool, name: str, value: object, right: str) -> None:
  """Raises ValueError, naming the setting, unless the condition holds."""
  if not condition:
    raise ValueError(f'{name}={value!r}: must be {right}.')


def is_number(value: object) -> bool:
  """Whether the value is a finite real number (a bool is not one)."""
  if not isinstance(value, numbers.Real) or isinstance(value, bool):
    return False
  try:
    return math.isfinite(value)
  except OverflowError:  # an int beyond the largest float
    return False


def check_number(name: str, value: Any, interval: str) -> None:
  """Raises ValueError unless the value is a number in an interval.

  The interval is as one writes it, '[0, 1)' or '(0, inf)'.
  """
  low, high = map(float, interval[1:-1].split(','))
  is_in = is_number(value) and low <= value <= high
  is_in = is_in and (value != low or interval[0] == '[')
  is_in = is_in and (value != high or interval[-1] == ']')
  check(is_in, name, value, f'a number in {interval}')


def check_count(
  name: str, value: Any, least: int = 1, most: float = math.inf
) -> None:
  """Raises ValueError unless the value is a whole number from least to most."""
  is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  right = f'a whole number of at least {least}'
  right += f' and at most {most}' if most < math.inf else ''
  check(is_whole and least <= value <= most, name, value, right)


def check_flag(name: str, value: object) -> None:
  """Raises ValueError unless the value is True or False."""
  check(isinstance(value, bool), name, value, 'True or False')
