"""How the curves of a picture are told from each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

_COLORS = (
  *('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9'),
  *('#000000', '#8C564B', '#7F7F7F'),
)
_LINES = ('-', '--', '-.', ':')


def line_styles() -> Iterator[dict[str, Any]]:
  """Colors and line styles of any number of curves, as matplotlib takes them."""
  for color, line in zip(itertools.cycle(_COLORS), itertools.cycle(_LINES)):
    yield {'color': color, 'linestyle': line}
