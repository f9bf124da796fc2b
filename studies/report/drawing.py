"""A matplotlib figure as part of an HTML page, in the page's colours.

Text stays text. Each colour becomes a variable of the page, so that a picture
follows it into the dark.
"""

from __future__ import annotations

import contextlib
import io
import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from .elements import Element, element

# As drawn, and as the page's style sheet calls them. Okabe and Ito's palette,
# which is told apart without colour vision.
INK, PAPER, GREY, LINE, BAND = (
  '#000000', '#ffffff', '#666666', '#cccccc', '#eeeeee'
)  # fmt: skip
LINES = (
  '#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'
)  # fmt: skip
_VARIABLES = {
  INK: '--ink', PAPER: '--paper', GREY: '--grey', LINE: '--line',
  BAND: '--band',
  **{color: f'--line-{i}' for i, color in enumerate(LINES)},
}  # fmt: skip


def drawing() -> contextlib.AbstractContextManager[None]:
  """Figures for the page are made and saved inside of this block."""
  return mpl.rc_context(
    {
      'svg.fonttype': 'none',
      # The same picture has the same text, run for run.
      'svg.hashsalt': 'report',
      'figure.facecolor': 'none',
      'axes.facecolor': 'none',
      'legend.facecolor': PAPER,
      'legend.edgecolor': LINE,
      # Names of runs are no formulas.
      'text.parse_math': False,
    }
  )


def inline(figure: Figure, name: str, title: str, description: str) -> Element:
  """The element <svg> of a figure.

  Args:
    figure: made inside of `drawing`, as this is called.
    name: of the picture, unlike those of all others on the page.
    title: what a screen reader calls it, and a pointer on it shows.
    description: what there is to be seen.
  """
  content = io.BytesIO()
  FigureCanvasSVG(figure).print_svg(content, metadata={'Date': None})
  drawn = ET.fromstring(content.getvalue())
  for part in drawn.iter():
    part.tag = _local(part.tag)
    attributes = {
      _local(key): _for_page(key, value, name)
      for key, value in part.attrib.items()
    }
    part.attrib.clear()
    part.attrib.update(attributes)
  for parent in list(drawn.iter()):
    for part in list(parent):
      if part.tag in ('metadata', 'style'):
        parent.remove(part)
  box = drawn.get('viewBox', '')
  svg = element('svg', *drawn, viewBox=box, role='img')
  svg.set('aria-labelledby', f'{name}-title {name}-description')
  svg.insert(0, element('title', title, id=f'{name}-title'))
  svg.insert(1, element('desc', description, id=f'{name}-description'))
  return svg


def _local(name: str) -> str:
  """A name without its namespace: in HTML there is none."""
  return name.rpartition('}')[2]


def _for_page(key: str, value: str, name: str) -> str:
  """An attribute's value: ids of this picture alone, colours of the page."""
  if key == 'id':
    return f'{name}-{value}'
  if _local(key) == 'href':
    return value.replace('#', f'#{name}-', 1)
  value = value.replace('url(#', f'url(#{name}-')
  return re.sub(
    '#[0-9a-f]{6}',
    lambda found: (
      f'var({_VARIABLES[found[0]]})'
      if key == 'style' and found[0] in _VARIABLES
      else found[0]
    ),
    value,
  )
