"""What a parameter of a part may be: annotations that say so and check it.

A kind stands in a signature, beside the default:

  def wsd(phase: Phase, *, decay: Share = 0.2, fall: Fall = 'linear'): ...

`Share` is `Annotated[float, Kind('a number above 0 and at most 1', ...)]`: for
the reader a float, for a registry what is right and how to read it.
"""

from __future__ import annotations

import math
from typing import Annotated, Callable, NamedTuple, Optional

from .checks import check, check_choice, check_count, check_number

# Of float32: the numbers of settings are multiplied in the train step.
LARGEST = (2 - 2**-23) * 2.0**127
_TINY, _BELOW_ONE = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)


class Kind(NamedTuple):
  """What is right, in words, and a reader that keeps or refuses a value.

  The reader takes what the value is called and the value. It returns what a
  configuration keeps (a tuple for a list), or raises a ValueError.
  """

  right: str
  read: Callable[[str, object], object]


def within(low: float, high: float, right: str) -> Kind:
  """Numbers in [low, high] that float32 can hold, rounded."""

  def read(name: str, value: object) -> object:
    check_number(name, value, low, high, right)
    size = (
      f'{right}, at most {LARGEST:.2g} in size, the largest that float32 holds'
    )
    check(abs(value) <= LARGEST, name, value, size)
    return value

  return Kind(right, read)


Number = Annotated[float, within(-math.inf, math.inf, 'a number')]
Fraction01 = Annotated[float, within(0.0, 1.0, 'a number from 0 to 1')]
Share = Annotated[float, within(_TINY, 1.0, 'a number above 0 and at most 1')]
BelowOne = Annotated[
  float, within(0.0, _BELOW_ONE, 'a number from 0 up to, not including, 1')
]
Inner = Annotated[
  float, within(_TINY, _BELOW_ONE, 'a number above 0 and below 1')
]
Positive = Annotated[float, within(_TINY, math.inf, 'a number above 0')]
NotNegative = Annotated[float, within(0.0, math.inf, 'a number of at least 0')]
AtLeastOne = Annotated[float, within(1.0, math.inf, 'a number of at least 1')]


def _read_count(name: str, value: object) -> object:
  check_count(name, value)
  return value


Count = Annotated[int, Kind('a whole number of at least 1', _read_count)]


def CountTo(most: int) -> type[int]:
  """Whole numbers from 1 on; larger ones only take time to compile."""
  right = f'a whole number from 1 to {most}'

  def read(name: str, value: object) -> object:
    check_count(name, value)
    check(value <= most, name, value, right)
    return value

  return Annotated[int, Kind(right, read)]


def _read_flag(name: str, value: object) -> object:
  check(isinstance(value, bool), name, value, 'true or false')
  return value


Flag = Annotated[bool, Kind('true or false', _read_flag)]


def _read_function(name: str, value: object) -> object:
  right = 'a Python function, which JSON cannot hold'
  check(callable(value), name, value, right)
  return value


Function = Annotated[Callable, Kind('a Python function', _read_function)]


def Choice(*choices: str) -> type[str]:
  """One of the choices. Name it: strings in an annotation are forward names."""

  def read(name: str, value: object) -> object:
    check_choice(name, value, choices)
    return value

  return Annotated[str, Kind(f'one of {", ".join(choices)}', read)]


def kind_of(annotation: object) -> Kind | None:
  """The Kind of an annotation, or None if it has none."""
  metadata = getattr(annotation, '__metadata__', ())
  return next((m for m in metadata if isinstance(m, Kind)), None)


def ListOf(
  annotation: object, right: str = 'a list', least: int = 0
) -> type[tuple]:
  """Lists, kept as tuples, of what the annotation's kind reads."""
  entry = kind_of(annotation)

  def read(name: str, value: object) -> object:
    is_list = isinstance(value, (list, tuple)) and len(value) >= least
    check(is_list, name, value, right)
    return tuple(entry.read(f'{name}[{i}]', v) for i, v in enumerate(value))

  return Annotated[tuple[annotation, ...], Kind(right, read)]


_INNERS = kind_of(ListOf(Inner))


def _read_shares(name: str, value: object) -> object:
  shares = _INNERS.read(name, value)
  rising = all(a < b for a, b in zip(shares, shares[1:]))
  check(rising, name, value, 'in rising order')
  return shares


Shares = Annotated[
  tuple[float, ...],
  Kind('a list of numbers above 0 and below 1 in rising order', _read_shares),
]


def OrNone(annotation: object) -> type:
  """None, or what the annotation's kind reads."""
  kind = kind_of(annotation)

  def read(name: str, value: object) -> object:
    return None if value is None else kind.read(name, value)

  return Annotated[Optional[annotation], Kind(f'{kind.right}, or None', read)]
