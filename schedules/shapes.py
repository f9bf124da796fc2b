"""Shapes as they are written in a configuration, and the phases they make.

A shape is a name of the registry, 'cosine', or an object with a name and
parameters, {'name': 'k_decay_cosine', 'k': 1.5}. What a configuration keeps of
an object is a `Shape`, which is immutable, hashable and equal to any other
object that says the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Union

from ..settings.checks import check_choice
from . import lr_shapes, shape_registry
from .formulas import Schedule, scaled
from .lr_shapes import PhaseFn
from .shape_checks import REQUIRED
from .shape_registry import DECAYS, WARMUPS, Family


@dataclasses.dataclass(frozen=True)
class Shape:
  """A name of the registry and the parameters that were given, by name.

  Attributes:
    name: a name of the registry.
    parameters: (name, value) of each parameter that was given, in order of
      their names; lists are tuples, and shapes in them are `Shape` or names.
  """

  name: str
  parameters: tuple[tuple[str, Any], ...]

  def __str__(self) -> str:
    listed = ', '.join(f'{key}={_text(v)}' for key, v in self.parameters)
    return f'{self.name}({listed})'


Entry = Union[str, Shape]


def _text(value: Any) -> str:
  if isinstance(value, tuple):
    return '[' + ', '.join(map(_text, value)) + ']'
  return str(value)


def read_shape(
  name: str, value: Any, families: Mapping[str, Family] = DECAYS
) -> Entry:
  """Reads and checks a shape.

  Args:
    name: what to call it in an error.
    value: a name, an object with a name and parameters, or a Shape.
    families: the part of the registry that it may be from.

  Returns:
    The name, or a Shape if parameters are given.

  Raises:
    ValueError: if the name or a parameter is unknown, a parameter missing, or
      a value wrong.
  """
  given = as_plain(value)
  if not isinstance(given, Mapping):
    check_choice(name, given, tuple(families))
    given = {'name': given}
  given = dict(given)
  if 'name' not in given:
    raise ValueError(f'{name}: missing field name, the name of a shape.')
  kind = given.pop('name')
  check_choice(f'{name}.name' if given else name, kind, tuple(families))
  parameters = _read_parameters(name, kind, given, families[kind])
  if not parameters:
    return kind
  return Shape(kind, tuple(sorted(parameters.items())))


def _read_parameters(name, kind, given, family) -> dict[str, Any]:
  known = family.parameters
  unknown = sorted(map(str, set(given) - set(known)))
  if unknown:
    listed = ', '.join(sorted(known)) or 'none'
    raise ValueError(
      f'{name}: {kind} has no parameter {", ".join(unknown)}; it has {listed}.'
    )
  read = {
    key: _read_value(f'{name}.{key}', value, known[key])
    for key, value in given.items()
  }
  complete = {key: p.default for key, p in known.items()} | read
  missing = sorted(k for k, value in complete.items() if value is REQUIRED)
  if missing:
    raise ValueError(f'{name}: {kind} needs {", ".join(missing)}.')
  wrong = family.check(complete)
  if wrong:
    raise ValueError(f'{name}: {kind}: {wrong}.')
  return read


def _read_value(name, value, parameter):
  parameter.check(name, value)
  if parameter is shape_registry.SHAPES:
    return tuple(read_shape(f'{name}[{i}]', v) for i, v in enumerate(value))
  return tuple(value) if isinstance(value, list) else value


def as_plain(value: Any) -> Any:
  """A Shape as an object of plain values; anything else as it is."""
  if isinstance(value, Shape):
    pairs = ((key, as_plain(v)) for key, v in value.parameters)
    return {'name': value.name, **dict(pairs)}
  if isinstance(value, tuple):
    return tuple(map(as_plain, value))
  return value


def unit_schedule(
  shape: Entry, steps: int, families: Mapping[str, Family] = DECAYS
) -> Schedule:
  """The shape over a phase of so many steps, for a peak of 1.

  Args:
    shape: as `read_shape` returns it.
    steps: length of the phase, at least 1.
    families: the part of the registry that it is from.

  Returns:
    An optax schedule over the steps of the phase.
  """
  name = shape if isinstance(shape, str) else shape.name
  family = families[name]
  parameters = {key: p.default for key, p in family.parameters.items()}
  if isinstance(shape, Shape):
    parameters.update(shape.parameters)
  if 'shapes' in parameters:
    parameters['shapes'] = [
      functools.partial(unit_schedule, inner) for inner in parameters['shapes']
    ]
  return family.build(steps, **parameters)


def warmup_fn(shape: Entry) -> PhaseFn:
  """The warm-up of a cycle; the thesis' own by their plain names."""
  if isinstance(shape, str) and shape in lr_shapes.WARMUPS:
    return lr_shapes.WARMUPS[shape]

  def phase(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
    steps = lr_shapes.warmup_steps(step_hint, hyperparameters, alter_warmup_by)
    return scaled(
      hyperparameters.learning_rate + alter_lr_by,
      unit_schedule(shape, max(steps, 1), WARMUPS),
    )

  return phase


def decay_fn(shape: Entry) -> PhaseFn:
  """The decay of a cycle; the thesis' own by their plain names."""
  if isinstance(shape, str) and shape in lr_shapes.DECAYS:
    return lr_shapes.DECAYS[shape]

  def phase(step_hint, hyperparameters, alter_lr_by, alter_warmup_by):
    warmup = lr_shapes.warmup_steps(step_hint, hyperparameters, alter_warmup_by)
    return scaled(
      hyperparameters.learning_rate + alter_lr_by,
      unit_schedule(shape, max(step_hint - warmup, 1)),
    )

  return phase


def has_function(value: Any) -> bool:
  """Whether a shape, or one in a tuple of them, has a Python function."""
  if isinstance(value, Shape):
    return any(has_function(v) for _, v in value.parameters)
  if isinstance(value, tuple):
    return any(map(has_function, value))
  return callable(value)
