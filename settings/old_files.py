"""Configurations of older runs, read in today's terms.

In a file from before switching rules and policies were parts, the rule, the
policy and some of the decays had other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RULE = ('lam', 'eps1', 'eps2', 'k', 'm')  # after 'switch_'
_OLD_NAMES = {*(f'switch_{name}' for name in _RULE), 'when_cycles_run_out'}
# 'exponential' and 'linear' were the thesis' decays, which hold the peak first.
_DECAYS = {
  'exponential': 'holding_exponential',
  'linear': 'holding_linear',
  'geometric': 'exponential',
}


def translate(values: Mapping[str, Any]) -> dict[str, Any]:
  """The fields of a ScheduleParams as they are written today.

  Args:
    values: the fields as they were written, by name.

  Returns:
    The same for a file of today, else a translation. Fields that the file lacks
    are not made up.
  """
  new = dict(values)
  if 'switching' in values or not _OLD_NAMES & set(values):
    return new
  rule = {
    name: new.pop(f'switch_{name}') for name in _RULE if f'switch_{name}' in new
  }
  if rule:
    new['switching'] = {'name': 'thesis', **rule}
  if 'when_cycles_run_out' in new:
    new['policy'] = new.pop('when_cycles_run_out')
  for name in ('decays', 'weight_decays'):
    if name in new:
      new[name] = translated_decay(new[name])
  return new


def translated_decay(decay: object) -> object:
  """A decay of an older file, or a list of them, by its name of today.

  Args:
    decay: as it is in the file: a name, or an object with a name and
      parameters, perhaps with shapes among them. Anything else is returned as
      it is, for whoever reads it to refuse.
  """
  if isinstance(decay, str):
    return _DECAYS.get(decay, decay)
  if isinstance(decay, (list, tuple)):
    return [translated_decay(shape) for shape in decay]
  if isinstance(decay, Mapping):
    return {
      key: translated_decay(value) if key in ('name', 'shapes') else value
      for key, value in decay.items()
    }
  return decay
