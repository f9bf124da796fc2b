"""Checks of settings: each says what is wrong and what would be right."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Mapping, Set


def check(condition: bool, name: str, value: object, right: str) -> None:
  """Raises ValueError, naming the setting, unless the condition holds."""
  if not condition:
    raise ValueError(f'{name}={value!r}: {name} must be {right}.')


def is_number(value: object) -> bool:
  """Whether the value is a finite real number (a bool is not one)."""
  if not isinstance(value, numbers.Real) or isinstance(value, bool):
    return False
  try:
    return math.isfinite(value)
  except OverflowError:  # an int beyond the largest float
    return False


def check_number(
  name: str, value: object, low: float, high: float, right: str
) -> None:
  """Raises ValueError unless the value is a number in [low, high]."""
  check(is_number(value) and low <= value <= high, name, value, right)


def check_positive(name: str, value: object) -> None:
  """Raises ValueError unless the value is a number above 0."""
  check(is_number(value) and value > 0, name, value, 'a number above 0')


def check_count(name: str, value: object) -> None:
  """Raises ValueError unless the value is a whole number of at least 1."""
  is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  check(is_int and value >= 1, name, value, 'a whole number of at least 1')


def did_you_mean(value: object, known: Iterable[str]) -> str:
  """' Did you mean cosine?' if a known name is close to the value, or ''."""
  close = difflib.get_close_matches(str(value), list(known), n=1)
  return f' Did you mean {close[0]}?' if close else ''


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
  """Raises ValueError unless the value is one of the choices."""
  if isinstance(value, str) and value in choices:
    return
  raise ValueError(
    f'{name}={value!r}: {name} must be one of {", ".join(choices)}.'
    + did_you_mean(value, choices)
  )


def check_known(values: Mapping[str, object], known: Set[str]) -> None:
  """Raises ValueError if a key is not a known field."""
  unknown = sorted(map(str, set(values) - known))
  if unknown:
    raise ValueError(
      f'Unknown field {", ".join(unknown)}; known are '
      f'{", ".join(sorted(known))}.' + did_you_mean(unknown[0], known)
    )
