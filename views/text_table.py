"""A table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
  """Rows in columns, aligned left, indented."""
  widths = [max(map(len, column)) for column in zip(*rows)]
  return [
    '  ' + '  '.join(map(str.ljust, row, widths)).rstrip() for row in rows
  ]
