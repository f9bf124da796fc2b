"""A table for the terminal."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence

_WIDTH = 100


def table_lines(
  rows: Sequence[Sequence[str]], width: int = _WIDTH
) -> list[str]:
  """Rows in columns, aligned left, indented.

  Where the lines would be too long, the widest columns become narrower, and
  their cells go on in further lines:

    cycle  decay
    1      chained of cosine,
           then linear
    2      cosine

  Args:
    rows: cells, as many in each; the first row is the header.
    width: of the longest line; it has room for a character of each column.
  """
  widths = [max(map(len, column)) for column in zip(*rows)]
  for _ in range(2 * len(widths) + sum(widths) - width):
    widths[widths.index(max(widths))] -= 1
  lines = []
  for row in rows:
    cells = [
      textwrap.wrap(cell, width, break_on_hyphens=False)
      for cell, width in zip(row, widths)
    ]
    for parts in itertools.zip_longest(*cells, fillvalue=''):
      lines.append('  ' + '  '.join(map(str.ljust, parts, widths)).rstrip())
  return lines
