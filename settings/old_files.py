"""Configurations of older runs, read in today's terms.

In a file from before switching rules and policies were parts, the rule, the
policy and two of the decays had other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RULE = ('lam', 'eps1', 'eps2', 'k', 'm')  # after 'switch_'
_OLD_NAMES = {*(f'switch_{name}' for name in _RULE), 'when_cycles_run_out'}
# As plain names, these decays held the peak at first.
_DECAYS = {'exponential': 'holding_exponential', 'linear': 'holding_linear'}


def translate(values: Mapping[str, Any]) -> dict[str, Any]:
  """The fields of a ScheduleParams as they are written today.

  Args:
    values: the fields as they were written, by name.

  Returns:
    The same for a file of today; else a translation. Fields that the file
    lacks are not made up.
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
  if isinstance(new.get('decays'), (list, tuple)):
    new['decays'] = [
      _DECAYS.get(decay, decay) if isinstance(decay, str) else decay
      for decay in new['decays']
    ]
  return new
