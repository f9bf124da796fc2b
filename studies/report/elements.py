"""The few HTML elements that the page needs, with all text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union
from xml.etree import ElementTree as ET

Element = ET.Element
# Characters that are kept in one line.
_SHORT = 40
Child = Union[Element, str]


def element(tag: str, *children: Child, **attributes: str) -> Element:
  """An element.

  Args:
    tag: its name.
    *children: elements and text, in order.
    **attributes: class_ is class, and aria_label aria-label.
  """
  names = {
    name.rstrip('_').replace('_', '-'): v for name, v in attributes.items()
  }
  made = Element(tag, names)
  for child in children:
    if not isinstance(child, str):
      made.append(child)
    elif len(made):
      made[-1].tail = (made[-1].tail or '') + child
    else:
      made.text = (made.text or '') + child
  return made


def table(
  caption: str, columns: Sequence[str], rows: Sequence[Sequence[Child]]
) -> Element:
  """A table that scrolls by itself where it is too large.

  Args:
    caption: what it shows.
    columns: their titles.
    rows: cells; the first one is the title of its row.
  """
  head = element('tr', *(element('th', c, scope='col') for c in columns))
  body = [
    element(
      'tr',
      element('th', row[0], scope='row', class_='short'),
      *map(_cell, row[1:]),
    )
    for row in rows
  ]
  made = element(
    'table',
    element('caption', caption),
    element('thead', head),
    element('tbody', *body),
  )
  # What scrolls can be reached with the keyboard.
  return element(
    'div', made, class_='scroll', tabindex='0', role='region',
    aria_label=caption,
  )  # fmt: skip


def _cell(content: Child) -> Element:
  is_short = not isinstance(content, str) or len(content) <= _SHORT
  return element('td', content, **({'class_': 'short'} if is_short else {}))


def details(summary: str, *children: Child, is_open: bool = False) -> Element:
  """A part that is opened with a click."""
  how = {'open': ''} if is_open else {}
  return element('details', element('summary', summary), *children, **how)


def as_text(page: Element) -> str:
  """The page as HTML."""
  body = ET.tostring(page, encoding='unicode', method='html')
  return f'<!DOCTYPE html>\n{body}\n'
