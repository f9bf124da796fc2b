"""Checks of settings and arguments: what is wrong, and what would be right."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

# Types of fields, with what is right for their values; see `Checked`.
Finite = Annotated[float, '(-inf, inf)']
NonNegative = Annotated[float, '[0, inf)']
Positive = Annotated[float, '(0, inf)']
Floor = Annotated[float, '[0, 1)']
Level = Annotated[float, '[0, 1]']
Share = Annotated[float, '(0, 1]']
Count = Annotated[int, '[1, inf)']

Check = Callable[[str, Any], object]  # of a name and a value; raises ValueError
T = TypeVar('T')


def check(condition: bool, name: str, value: object, must_be: str) -> None:
  """Raises ValueError, naming the setting, unless the condition holds."""
  if not condition:
    raise ValueError(f'{name}={value!r}: must be {must_be}.')


def is_number(value: object) -> bool:
  """Whether the value is a finite real number (a bool is not one)."""
  if not isinstance(value, numbers.Real) or isinstance(value, bool):
    return False
  try:
    return math.isfinite(value)
  except OverflowError:  # an int beyond the largest float
    return False


def as_float(name: str, value: Any, must_be: str = 'a number') -> float:
  """The value as a float, perhaps NaN; raises ValueError if it is no number."""
  try:
    return float(value)
  except (OverflowError, TypeError, ValueError):
    raise ValueError(f'{name}={value!r}: must be {must_be}.') from None


def check_number(name: str, value: Any, interval: str) -> None:
  """Raises ValueError unless the value is a number in an interval.

  The interval is as one writes it, '[0, 1)' or '(0, inf)'.
  """
  low, high = _ends(interval)
  is_in = is_number(value) and low <= value <= high
  is_in = is_in and (value != low or interval[0] == '[')
  is_in = is_in and (value != high or interval[-1] == ']')
  check(is_in, name, value, f'a number in {interval}')


def _ends(interval: str) -> tuple[float, float]:
  low, high = map(float, interval[1:-1].split(','))
  return low, high


def check_count(
  name: str, value: Any, least: int = 1, most: float = math.inf
) -> None:
  """Raises ValueError unless the value is a whole number from least to most."""
  is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  must_be = f'a whole number of at least {least}'
  must_be += f' and at most {most}' if most < math.inf else ''
  check(is_whole and least <= value <= most, name, value, must_be)


def check_flag(name: str, value: object) -> None:
  """Raises ValueError unless the value is True or False."""
  check(isinstance(value, bool), name, value, 'True or False')


def did_you_mean(value: object, names: Iterable[str]) -> str:
  """' Did you mean cosine?' if a known name is close to the value, or ''.

  Capital and small letters are alike.
  """
  found = {name.lower(): name for name in names}
  matches = difflib.get_close_matches(str(value).lower(), list(found), n=1)
  return f' Did you mean {found[matches[0]]}?' if matches else ''


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
  """Raises ValueError unless the value is one of the choices."""
  choices = list(choices)
  if isinstance(value, str) and value in choices:
    return
  raise ValueError(
    f'{name}={value!r}: must be one of {", ".join(choices)}.'
    + did_you_mean(value, choices)
  )


def check_list(name: str, value: Any, interval: str) -> None:
  """Raises ValueError unless the value is a tuple of numbers in an interval."""
  is_list = isinstance(value, (list, tuple))
  check(is_list, name, value, f'a tuple of numbers in {interval}')
  for i, number in enumerate(value):
    check_number(f'{name}[{i}]', number, interval)


def check_shares(name: str, value: Any) -> None:
  """Raises ValueError unless the value is a tuple that rises within (0, 1)."""
  check_list(name, value, '(0, 1)')
  rising = all(a < b for a, b in zip(value, value[1:]))
  check(rising, name, value, 'in rising order')


def check_part(name: str, value: object, kind: type, must_be: str) -> None:
  """Raises ValueError unless the value is an object with all that a kind has.

  The kind is a Protocol; a part that inherits from it has its defaults.
  """
  constants = [
    n for n, t in inspect.get_annotations(kind).items() if 'ClassVar' in str(t)
  ]
  methods = [
    n
    for n in vars(kind)
    if n == '__call__' or not n.startswith('_')
    if inspect.isfunction(getattr(kind, n))
  ]
  gaps = [n for n in constants if not hasattr(value, n)]
  gaps += [n for n in methods if not callable(getattr(value, n, None))]
  if gaps and len(gaps) < len(constants + methods):
    must_be += f' (it lacks {", ".join(gaps)})'
  check(not gaps and not isinstance(value, type), name, value, must_be)


def check_precision(
  name: str, params: Any, but: Container[str] = frozenset()
) -> None:
  """Raises ValueError if a parameter's type, such as float16, has no 1e-8.

  What keeps optimizers from dividing by 0 is as small, and so are steps.

  Args:
    name: of the argument with the parameters.
    params: tree of arrays, or of jax.ShapeDtypeStruct.
    but: paths, such as "['kernel']", of parameters that are not trained.
  """
  # Not above: a command line checks its flags without jax.
  import jax.numpy as jnp
  import numpy as np
  from jax.tree_util import keystr, tree_flatten_with_path

  for path, leaf in tree_flatten_with_path(params)[0]:
    is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
    if is_float and keystr(path) not in but:
      is_small = np.asarray(1e-8).astype(leaf.dtype) != 0
      must_be = 'bfloat16, float32 or float64, in which 1e-8 is not 0'
      check(
        is_small, f'dtype of {name}{keystr(path)}', str(leaf.dtype), must_be
      )


class Checked:
  """A dataclass whose fields are checked by their types when it is made.

    a bool                        True or False
    Annotated[float, '[0, 1)']    a number in the interval
    Annotated[int, '[1, inf)']    a whole number in it
    Annotated[str, ('a', 'b')]    one of these
    tuple[Positive, ...]          numbers, each in the interval
    Annotated[Shape, 'a shape']   an object with all that this Protocol has; the
                                  error calls it by the second word
    Annotated[..., function]      what function(name, value) does not refuse

  Each of them may be `| None`. Lists become tuples. Other types say nothing of
  their values; a class may check them in a __post_init__ of its own.
  """

  def __post_init__(self) -> None:
    kind: Any = type(self)
    for name, check_value in checks_of(kind).items():
      value = getattr(self, name)
      check_value(name, value)
      if isinstance(value, list):
        object.__setattr__(self, name, tuple(value))


@functools.cache
def checks_of(kind: Any) -> Mapping[str, Check]:
  """What checks each field whose type says what is right, by its name."""
  hints = get_type_hints(kind, include_extras=True)
  checks = {name: _check_of(hints[name]) for name in field_names(kind)}
  return {name: check for name, check in checks.items() if check}


def _check_of(hint: Any) -> Check | None:
  kinds = get_args(hint)
  if type(None) in kinds:
    [inner] = [_check_of(kind) for kind in kinds if kind is not type(None)]
    return inner and (
      lambda name, value: None if value is None else inner(name, value)
    )
  if hint is bool:
    return check_flag
  if kinds[1:] == (...,) and hasattr(kinds[0], '__metadata__'):
    return functools.partial(check_list, interval=kinds[0].__metadata__[0])
  if not hasattr(hint, '__metadata__'):
    return None
  kind, rule = kinds
  if callable(rule):
    return rule
  if kind is float:
    return functools.partial(check_number, interval=rule)
  if kind is int:
    low, high = _ends(rule)
    most = int(high) if high < math.inf else high
    return functools.partial(check_count, least=int(low), most=most)
  if kind is str:
    return functools.partial(check_choice, choices=rule)
  return functools.partial(check_part, kind=kind, must_be=rule)


def field_names(settings: Any) -> list[str]:
  """Names of a dataclass's fields or a function's arguments; else no names."""
  if inspect.isfunction(settings):
    return [*inspect.signature(settings).parameters]
  if not dataclasses.is_dataclass(settings):
    return []
  return [field.name for field in dataclasses.fields(settings)]


def check_has_field(settings: Any, name: str, where: str) -> None:
  """Raises ValueError, naming the place, unless there is such a field."""
  names = field_names(settings)
  if name in names:
    return
  kind = settings if hasattr(settings, '__name__') else type(settings)
  raise ValueError(
    f'{where}: {kind.__name__} has no such field; it has '
    f'{", ".join(names) or "none"}.' + did_you_mean(name, names)
  )


def replaced_at(settings: T, path: str, value: object) -> T:
  """The settings with another value at one place.

  Args:
    settings: a dataclass.
    path: such as 'reset.fade'; 'cycles[0].peak' is of the first cycle and
      'cycles.peak' of each.

  Raises:
    ValueError: names the path, the value and what would be right.
  """
  head, _, rest = path.partition('.')
  match = re.fullmatch(r'(\w+)(?:\[(\d+)\])?', head)
  name, index = match.groups() if match else (head, None)
  check_has_field(settings, name, f'{path}={value!r}')
  old: Any = getattr(settings, name)

  def replaced(part: Any) -> Any:
    if not rest:
      return value
    try:
      return replaced_at(part, rest, value)
    except ValueError as e:
      raise ValueError(f'{head}.{e}') from e

  if index is not None:
    i, is_list = int(index), isinstance(old, tuple)
    check(is_list, path, value, f'at a path without [{i}]: {name} is no list')
    must_be = f'at an index below {len(old)}, the number of {name}'
    check(i < len(old), path, value, must_be)
    new: Any = (*old[:i], replaced(old[i]), *old[i + 1 :])
  elif rest and isinstance(old, tuple):
    new = tuple(map(replaced, old))
  else:
    new = replaced(old)
  whole: Any = settings
  try:
    return dataclasses.replace(whole, **{name: new})
  except ValueError as e:
    is_of_this = str(e).startswith((f'{name}=', f'{name}['))
    raise ValueError(str(e) if is_of_this else f'{path}={value!r}: {e}') from e
