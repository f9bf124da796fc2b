"""Parts of one kind by their names, and settings that name one of them.

A setting is written as a name, 'wsd', or as an object with a name and
parameters, {'name': 'wsd', 'decay': 0.1}. A part is a function or a dataclass,
registered where it stands:

  @DECAYS.register
  def wsd(phase: Phase, *, decay: Share = 0.2) -> Schedule: ...

Its keyword-only parameters, or its fields, are the setting's: their kinds,
defaults and bounds stand in the signature and nowhere else.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, Union

from .checks import check_choice, did_you_mean
from .kinds import Kind, kind_of

REQUIRED = object()


@dataclasses.dataclass(frozen=True)
class Named:
  """A name and the parameters that were given: immutable and hashable.

  Attributes:
    name: of a part.
    parameters: (name, value) of each parameter that was given, in order of
      their names; lists are tuples, and settings in them are settings.
  """

  name: str
  parameters: tuple[tuple[str, Any], ...]

  def __str__(self) -> str:
    listed = ', '.join(f'{key}={_text(v)}' for key, v in self.parameters)
    return f'{self.name}({listed})'


Setting = Union[str, Named]


def _text(value: object) -> str:
  if isinstance(value, tuple):
    return '[' + ', '.join(map(_text, value)) + ']'
  return getattr(value, '__name__', str(value))


def name_of(setting: Setting) -> str:
  """The name of the part."""
  return setting if isinstance(setting, str) else setting.name


def given_parameters(setting: Setting) -> dict[str, Any]:
  """The parameters that the setting gives; the others have their defaults."""
  return {} if isinstance(setting, str) else dict(setting.parameters)


def as_plain(value: Any) -> Any:
  """A Named, or those in a tuple, as objects; anything else as it is."""
  if isinstance(value, Named):
    pairs = ((key, as_plain(v)) for key, v in value.parameters)
    return {'name': value.name, **dict(pairs)}
  if isinstance(value, tuple):
    return tuple(map(as_plain, value))
  return value


def has_function(value: object) -> bool:
  """Whether a setting, or one in a tuple of them, has a Python function."""
  if isinstance(value, Named):
    return any(has_function(v) for _, v in value.parameters)
  if isinstance(value, tuple):
    return any(map(has_function, value))
  return callable(value)


class Parameter(NamedTuple):
  """A parameter: what it may be, and its default; REQUIRED stands for none."""

  kind: Kind
  default: Any


# What is wrong between the parameters of one setting, or ''.
CheckTogether = Callable[[Mapping[str, Any]], str]


class Part(NamedTuple):
  """A function or class, its parameters, and what must hold between them."""

  make: Callable[..., Any]
  parameters: Mapping[str, Parameter]
  check: CheckTogether


@functools.cache
def parameters_of(part: Callable[..., Any]) -> Mapping[str, Parameter]:
  """The keyword-only parameters of a function, or the fields of a dataclass.

  Raises:
    TypeError: if one is not annotated with a kind of `settings.kinds`.
  """
  hints = typing.get_type_hints(part, include_extras=True)
  defaults = dict(
    _fields(part) if dataclasses.is_dataclass(part) else _keywords(part)
  )
  for name in defaults:
    if kind_of(hints.get(name)) is None:
      raise TypeError(
        f'{part.__qualname__}: {name} must be annotated with one of '
        'settings.kinds, such as Positive.'
      )
  return {
    name: Parameter(kind_of(hints[name]), default)
    for name, default in defaults.items()
  }


def _fields(part: type) -> Iterator[tuple[str, Any]]:
  for field in dataclasses.fields(part):
    if field.default is not dataclasses.MISSING:
      yield field.name, field.default
    elif field.default_factory is not dataclasses.MISSING:
      yield field.name, field.default_factory()
    elif field.init:
      yield field.name, REQUIRED


def _keywords(part: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
  for parameter in inspect.signature(part).parameters.values():
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
      empty = parameter.default is inspect.Parameter.empty
      yield parameter.name, REQUIRED if empty else parameter.default


def read_fields(instance: Any) -> None:
  """Checks each field of a (frozen) dataclass by its kind, and keeps it so.

  Raises:
    ValueError: naming the field, its value and what would be right.
  """
  for name, parameter in parameters_of(type(instance)).items():
    read = parameter.kind.read(name, getattr(instance, name))
    object.__setattr__(instance, name, read)


class Registry(Mapping[str, Part]):
  """Parts of one kind by their names."""

  def __init__(self, kind: str, base: Registry | None = None) -> None:
    """An empty registry.

    Args:
      kind: what its parts are called in an error, such as 'shape'.
      base: another registry whose parts are parts of this one, too.
    """
    self.kind = kind
    self._parts: ChainMap[str, Part] = ChainMap({}, base._parts if base else {})

  def __getitem__(self, name: str) -> Part:
    return self._parts[name]

  def __iter__(self) -> Iterator[str]:
    return iter(self._parts)

  def __len__(self) -> int:
    return len(self._parts)

  def register(
    self,
    part: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    check: CheckTogether = lambda parameters: '',
  ) -> Callable[..., Any]:
    """Registers a function or a dataclass; used as a decorator.

    Args:
      part: with keyword-only parameters, or fields, of `settings.kinds`.
      name: what a setting calls it, if not by its own name.
      check: what is wrong between its parameters, or ''.

    Returns:
      The part as it is.

    Raises:
      ValueError: if the name is taken.
      TypeError: if a parameter is annotated with no kind.
    """
    if part is None:
      return functools.partial(self.register, name=name, check=check)
    name = name or part.__name__
    if name in self:
      raise ValueError(f'name={name!r}: there is a {self.kind} of this name.')
    self._parts[name] = Part(part, parameters_of(part), check)
    return part

  def preset(self, name: str, base: str, given: Mapping[str, Any]) -> None:
    """Registers a part that is another one with parameters of its own.

    Args:
      name: what a setting calls it.
      base: the name of the other part, which has the same parameters.
      given: what takes the place of their defaults.

    Raises:
      ValueError: if the name is taken, or a parameter is wrong.
    """
    if name in self:
      raise ValueError(f'name={name!r}: there is a {self.kind} of this name.')
    part, read = self[base], self._read_parameters(name, base, given)
    parameters = {
      key: Parameter(p.kind, read.get(key, p.default))
      for key, p in part.parameters.items()
    }
    make = functools.partial(part.make, **read)
    self._parts[name] = Part(make, parameters, part.check)

  def parameters(self, name: str) -> Mapping[str, Parameter]:
    """The parameters of a part, by their names."""
    return self[name].parameters

  def as_kind(self) -> type:
    """A setting of this registry as a kind of parameter."""
    return Annotated[Setting, Kind(f'a {self.kind}', self.read)]

  def read(self, where: str, value: object) -> Setting:
    """Reads and checks a setting.

    Args:
      where: what to call it in an error.
      value: a name, an object with a name and parameters, or a Named.

    Returns:
      The name, or a Named if parameters are given.

    Raises:
      ValueError: if the name or a parameter is unknown, a parameter missing,
        or a value wrong.
    """
    plain = as_plain(value)
    given = dict(plain) if isinstance(plain, Mapping) else {'name': plain}
    if 'name' not in given:
      raise ValueError(
        f'{where}: name is missing; it says which {self.kind} is meant.'
      )
    name = given.pop('name')
    check_choice(f'{where}.name' if given else where, name, tuple(self))
    parameters = self._read_parameters(where, name, given)
    return Named(name, tuple(sorted(parameters.items()))) if given else name

  def _read_parameters(
    self, where: str, name: str, given: Mapping[str, Any]
  ) -> dict[str, Any]:
    known = self.parameters(name)
    unknown = sorted(map(str, set(given) - set(known)))
    if unknown:
      raise ValueError(
        f'{where}: {name} has no parameter {", ".join(unknown)}; it has '
        f'{", ".join(sorted(known)) or "none"}.'
        + did_you_mean(unknown[0], known)
      )
    read = {
      key: known[key].kind.read(f'{where}.{key}', value)
      for key, value in given.items()
    }
    complete = {key: p.default for key, p in known.items()} | read
    missing = sorted(k for k, value in complete.items() if value is REQUIRED)
    if missing:
      raise ValueError(f'{where}: {name} needs {", ".join(missing)}.')
    wrong = self[name].check(complete)
    if wrong:
      raise ValueError(f'{where}: {name}: {wrong}.')
    return read

  def make(self, setting: Setting, *args: Any) -> Any:
    """What the setting stands for: part(*args, **parameters).

    Args:
      setting: as `read` returns it.
      *args: what every part of this kind takes.
    """
    part = self[name_of(setting)]
    return part.make(*args, **given_parameters(setting))
