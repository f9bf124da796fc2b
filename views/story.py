"""The events of a run's cycles.csv, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..loop.events import event_of

# Events that a run's curves show, or the events beside them.
_UNTOLD = ('evaluation', 'clock')


def sentences(
  rows: Iterable[Mapping[str, str | None]],
) -> Iterator[tuple[int, str]]:
  """(step, sentence) of each row of a cycles.csv that is not a mere number.

  A damaged row gives a sentence of the cells that it still has.
  """
  for row in rows:
    step, kind = row.get('global_step') or '', row.get('event') or ''
    if not step.isdecimal() or not kind or kind in _UNTOLD:
      continue
    values = {
      name: _value(text)
      for name, text in row.items()
      if text and isinstance(name, str) and name != 'global_step'
    }
    try:
      sentence = str(event_of(values, int(step))).partition(': ')[2]
    except (KeyError, TypeError, ValueError):
      words = (kind.replace('_', ' '), row.get('reason'), row.get('note'))
      sentence = ', '.join(filter(None, words)) + '.'
    yield int(step), sentence[:1].upper() + sentence[1:]


def _value(text: str) -> str | int | float:
  try:
    return int(text) if text.isdecimal() else float(text)
  except ValueError:
    return text


def value_text(text: str | None) -> str:
  """A value of a file for people: a number with four digits, text as it is."""
  try:
    number = float(text or '')
  except ValueError:
    return text or '–'
  is_whole = number.is_integer() and abs(number) < 1e9
  return f'{number:,.0f}' if is_whole else f'{number:.4g}'
