"""The configuration in a run's folder: written, read, compared."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..schedule_params import ScheduleParams
from .writing import write_whole

CONFIGURATION = 'schedule_params.json'
_CHECKPOINT = re.compile(r'checkpoint_\d+')


def write_configuration(
  folder: pathlib.Path,
  step_hint: int,
  params: ScheduleParams,
  not_in_force: Sequence[str] = (),
) -> None:
  """Writes the resolved configuration as JSON.

  Args:
    folder: the run's folder.
    step_hint: the workload's step_hint, steps.
    params: the configuration.
    not_in_force: names of settings that the benchmark has decided itself.
  """
  values = {
    'step_hint': step_hint,
    'not_in_force': list(not_in_force),
    'schedule_params': json.loads(params.to_json()),
  }
  text = json.dumps(values, indent=2) + '\n'
  write_whole(folder / CONFIGURATION, text.encode())


def read_configuration(folder: pathlib.Path) -> tuple[int, ScheduleParams]:
  """(step_hint, ScheduleParams) that `write_configuration` wrote.

  Raises:
    OSError: if there is no such file, or it cannot be read.
    ValueError: if it is not a valid configuration; names the file.
  """
  path = folder / CONFIGURATION
  try:
    values = json.loads(path.read_text())
    params = ScheduleParams.from_dict(values['schedule_params'])
    return values['step_hint'], params
  except (ValueError, KeyError, TypeError, RecursionError) as e:
    raise ValueError(f'{path} is not the configuration of a run: {e}') from e


def has_begun(folder: pathlib.Path) -> bool:
  """Whether the folder holds a run that a runner would resume.

  That is one with a checkpoint, in both generations and here. A run that ended
  before its first checkpoint starts over, with whatever settings it is given.
  """
  names = (path.name for path in folder.glob('checkpoint_*'))
  return any(map(_CHECKPOINT.fullmatch, names))


def differences(old: ScheduleParams, new: ScheduleParams) -> list[str]:
  """The settings that differ, one line each.

  Example: ['alpha: 0.5 in the run, 0.3 now'].

  Args:
    old: those that the run was started with.
    new: those given now.
  """
  return [
    f'{name}: {_text(before)} in the run, {_text(now)} now'
    for name, before, now in _differing('', old.to_dict(), new.to_dict())
  ]


_MISSING = object()


def _differing(name: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
  """(name, old, new) of the innermost values that differ."""
  if isinstance(old, Mapping) and isinstance(new, Mapping):
    for key in dict.fromkeys([*old, *new]):
      inner = f'{name}.{key}' if name else str(key)
      yield from _differing(
        inner, old.get(key, _MISSING), new.get(key, _MISSING)
      )
  elif _is_list(old) and _is_list(new) and len(old) == len(new):
    for i, pair in enumerate(zip(old, new)):
      yield from _differing(f'{name}[{i}]', *pair)
  elif old != new:
    yield name, old, new


def _is_list(value: Any) -> bool:
  return isinstance(value, (list, tuple))


def _text(value: Any) -> str:
  if value is _MISSING:
    return 'nothing'
  return json.dumps(value, default=repr)
