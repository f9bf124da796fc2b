"""Events of a run in words.

One way for all kinds: a name, the reason, and whatever else the event has. A
kind or a column that is not known here is shown under its own name.
"""

from __future__ import annotations

from .reading import Event

_KINDS = {
  'cycle_start': 'cycle starts',
  'clock': 'rest planned anew',
  'switch': 'left early',
  'hold': 'rate is held',
  'finish': 'run ends',
  'pause': 'paused',
  'wait': 'waits',
}
_COLUMNS = {
  'setting': 'setting',
  'cycle_end': 'planned up to step',
  'anchor_local': 'at nominal step',
  'pace': 'nominal steps per step',
  'scale': 'factor on the peak',
  'peak_value': 'peak rate',
  'tau': 'τ',
  'alpha': 'α',
  'metric_step': 'evaluated at step',
}
_COLUMNS_OF = {('wait', 'cycle_end'): 'at most up to step'}
# What most events say, and nothing is to be learned from.
_USUAL = {'pace': 1.0, 'scale': 1.0, 'anchor_local': 0.0}
# They have columns of their own, come first, or are the same for all events of
# a step.
_APART = (
  'global_step', 'event', 'cycle', 'reason', 'note', 'learning_rate'
)  # fmt: skip


def kind(event: Event) -> str:
  """What has happened, in a word or two."""
  name = event.get('event', '')
  return _KINDS.get(name, name.replace('_', ' '))


def detail(event: Event) -> str:
  """Why, and all that the event says beyond its step and cycle."""
  said = [event[name] for name in ('reason', 'note') if name in event]
  rest = ', '.join(
    f'{_name(event, name)} {shown(value)}'
    for name, value in event.items()
    if name not in _APART and _USUAL.get(name) != _as_number(value)
  )
  return '; '.join([*said, *([rest] if rest else [])])


def shown(text: str) -> str:
  """A value of a file for people: a number with four digits, text as it is."""
  number = _as_number(text)
  if isinstance(number, str):
    return text
  is_whole = number.is_integer() and abs(number) < 1e9
  return f'{number:,.0f}' if is_whole else f'{number:.4g}'


def _name(event: Event, column: str) -> str:
  of_kind = _COLUMNS_OF.get((event.get('event', ''), column))
  return of_kind or _COLUMNS.get(column, column.replace('_', ' '))


def _as_number(text: str) -> float | str:
  try:
    return float(text)
  except ValueError:
    return text
