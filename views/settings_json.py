"""Settings as JSON: what `engine.records.as_plain` writes, read back.

An object is its class and its fields: {"class": "Cosine", "floor": 0.1} is
Cosine(floor=0.1). Fields that are left out have their defaults. Where settings
are in force, an object without a class changes fields of the one at its place:

  {"reset": {"alpha": 0.3}, "horizon": {"class": "TimeHorizon"}}
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from .. import early_switching, schedule_params, soft_reset
from ..any_optax import from_optax
from ..core import schedules
from ..core.checks import check, check_count, check_has_field, did_you_mean
from ..optimizers import adamw, average, momentum, muon, peaks
from ..optimizers.average import EMA
from ..optimizers.schedule_free import ScheduleFreeAdamW, ScheduleFreeMuon
from ..schedule_params import ScheduleParams
from ..shapes import composed as composed_shapes
from ..shapes import simple as shapes

# The dataclasses that settings are made of, by their names.
_CLASSES: dict[str, Any] = {
  name: value
  for module in (
    *(schedule_params, soft_reset, early_switching),
    *(schedules, adamw, momentum, muon, average, peaks),
    *(shapes, composed_shapes, from_optax),
  )
  for name, value in vars(module).items()
  if isinstance(value, type) and dataclasses.is_dataclass(value)
}
# Averages that earlier runs have written as classes, by name.
_CLASSES |= {
  function.__name__: function
  for function in (EMA, ScheduleFreeAdamW, ScheduleFreeMuon)
}


def read_file(
  path: pathlib.Path, in_force: ScheduleParams | None = None
) -> tuple[int | None, ScheduleParams]:
  """Reads settings from a run's schedule_params.json, or from another file.

  Another file has a ScheduleParams. Where settings are in force, it may
  have only the fields that differ from them.

  Returns:
    The run's step_hint (None if the file is not a run's) and the settings.

  Raises:
    OSError: if the file cannot be read.
    ValueError: names the field, its value and what would be right.
  """
  try:
    values = loads(path.read_text())
    is_object = isinstance(values, Mapping)
    check(is_object, 'schedule_params', values, 'a JSON object')
    if 'schedule_params' not in values:
      return None, _whole(values, in_force)
    more = sorted(values.keys() - {'step_hint', 'schedule_params'})
    check(not more, 'fields', more, 'none beside step_hint and schedule_params')
    check_count('step_hint', values.get('step_hint'))
    return values['step_hint'], _whole(values['schedule_params'])
  except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as e:
    raise ValueError(f'{path}: it is not JSON: {e}.') from e
  except ValueError as e:
    raise ValueError(f'{path}: {e}') from e


def loads(text: str) -> Any:
  """Reads JSON.

  Raises:
    json.JSONDecodeError: if the text is not JSON.
    ValueError: if an object gives a name twice.
  """
  return json.loads(text, object_pairs_hook=_object_of)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """A JSON object; of two values for a name, json would take the last."""
  values: dict[str, Any] = {}
  for name, value in pairs:
    check(name not in values, name, value, 'given once')
    values[name] = value
  return values


def _whole(
  values: object, in_force: ScheduleParams | None = None
) -> ScheduleParams:
  params = from_plain(values, in_force)
  is_whole = isinstance(params, ScheduleParams)
  check(is_whole, 'schedule_params', values, 'a ScheduleParams')
  return params


def from_plain(value: Any, in_force: Any = None, where: str = '') -> Any:
  """The setting that JSON describes; the inverse of `engine.records.as_plain`.

  Args:
    value: as it comes from JSON. A list becomes a tuple.
    in_force: the setting at this place, whose fields an object without a class
      changes; None if there is none.
    where: the path to this place, such as 'cycles[0].decay'.

  Raises:
    ValueError: names the path, the value and what would be right.
  """
  if isinstance(value, list):
    olds = in_force if isinstance(in_force, tuple) else ()
    return tuple(
      from_plain(item, old, f'{where}[{i}]')
      for i, (item, old) in enumerate(itertools.zip_longest(value, olds))
      if i < len(value)
    )
  if not isinstance(value, Mapping):
    return value
  fields = dict(value)
  is_new = 'class' in fields
  kind: Any = (
    _class_of(fields.pop('class'), where) if is_new else type(in_force)
  )
  if not is_new and not dataclasses.is_dataclass(kind):
    raise ValueError(f'{where or "settings"}: class is missing in {value!r}.')
  for name in fields:
    check_has_field(kind, name, _joined(where, name))
  if not is_new:
    kind = functools.partial(dataclasses.replace, in_force)
  mappings = getattr(kind if is_new else type(in_force), 'mappings', ())
  values = {
    name: from_plain(
      [*v.items()] if name in mappings and isinstance(v, Mapping) else v,
      None if is_new else getattr(in_force, name),
      _joined(where, name),
    )
    for name, v in fields.items()
  }
  try:
    return kind(**values)
  except (TypeError, ValueError) as e:
    raise ValueError(f'{where}: {e}' if where else str(e)) from e


def _class_of(name: object, where: str) -> Any:
  if not isinstance(name, str) or name not in _CLASSES:
    raise ValueError(
      f'{_joined(where, "class")}={name!r}: there is no such class.'
      + did_you_mean(name, _CLASSES)
    )
  return _CLASSES[name]


def _joined(where: str, name: str) -> str:
  return f'{where}.{name}' if where else name
