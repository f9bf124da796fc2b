"""What the parameters of shapes may be: a check for each kind of value.

Each check takes the parameter's name and its value and raises a ValueError
unless the value is right.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple

from ..settings.checks import check, check_choice, check_count, check_number

Check = Callable[[str, Any], None]

REQUIRED = object()

_TINY, _BELOW_ONE = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)


class Parameter(NamedTuple):
  """A parameter of a shape; one that is REQUIRED has no default."""

  default: Any
  check: Check


def fraction(name: str, value: Any) -> None:
  """From 0 to 1."""
  check_number(name, value, 0.0, 1.0, 'a number from 0 to 1')


def below_one(name: str, value: Any) -> None:
  """From 0 up to, not including, 1."""
  right = 'a number from 0 up to, not including, 1'
  check_number(name, value, 0.0, _BELOW_ONE, right)


def inner_share(name: str, value: Any) -> None:
  """Above 0 and below 1."""
  check_number(name, value, _TINY, _BELOW_ONE, 'a number above 0 and below 1')


def not_negative(name: str, value: Any) -> None:
  """0 or more."""
  check_number(name, value, 0.0, math.inf, 'a number of at least 0')


def at_least_one(name: str, value: Any) -> None:
  """1 or more."""
  check_number(name, value, 1.0, math.inf, 'a number of at least 1')


def count_to(most: int) -> Check:
  """A whole number from 1 on; larger ones only take time to compile."""

  def check_count_to(name, value):
    check_count(name, value)
    check(value <= most, name, value, f'a whole number from 1 to {most}')

  return check_count_to


def boolean(name: str, value: Any) -> None:
  """True or False."""
  check(isinstance(value, bool), name, value, 'true or false')


def function(name: str, value: Any) -> None:
  """A function, which no JSON can hold."""
  right = 'a Python function, so that JSON cannot hold this shape'
  check(callable(value), name, value, right)


def choice(choices: tuple[str, ...]) -> Check:
  """One of the choices."""
  return lambda name, value: check_choice(name, value, choices)


def list_of(check_entry: Check) -> Check:
  """A list, perhaps empty, of what passes the check."""

  def check_list(name, value):
    check(isinstance(value, (list, tuple)), name, value, 'a list')
    for i, entry in enumerate(value):
      check_entry(f'{name}[{i}]', entry)

  return check_list


def rising_shares(name: str, value: Any) -> None:
  """A list of shares above 0 and below 1, each above the one before."""
  list_of(inner_share)(name, value)
  rising = all(a < b for a, b in zip(value, value[1:]))
  check(rising, name, value, 'in rising order')


def shape_list(name: str, value: Any) -> None:
  """A list of shapes; each of them is checked by who knows the registry."""
  is_list = isinstance(value, (list, tuple)) and len(value) > 0
  check(is_list, name, value, 'a list of at least one shape')
