"""Pictures: the colors and styles of curves, and how a figure is saved."""

from __future__ import annotations

import contextlib
import io
import itertools
import pathlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..mini_algoperf import files

if TYPE_CHECKING:
  from matplotlib.figure import Figure

_COLORS = (
  *('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9'),
  *('#000000', '#8C564B', '#7F7F7F'),
)
_LINES = ('-', '--', '-.', ':')


def line_styles() -> Iterator[dict[str, Any]]:
  """Colors and line styles of any number of curves, for matplotlib."""
  for color, line in zip(itertools.cycle(_COLORS), itertools.cycle(_LINES)):
    yield {'color': color, 'linestyle': line}


@contextlib.contextmanager
def any_letters() -> Iterator[None]:
  """Inside, a name may have letters, or a tab, that matplotlib's font lacks."""
  with warnings.catch_warnings():
    warnings.filterwarnings('ignore', message='Glyph')
    yield


def save_picture(figure: Figure, path: pathlib.Path) -> None:
  """Writes a figure as PNG, whole; an existing file is replaced.

  The figure has no canvas; no window and no LaTeX is needed.
  """
  from matplotlib.backends.backend_agg import FigureCanvasAgg

  content = io.BytesIO()
  with any_letters():
    FigureCanvasAgg(figure).print_png(content)
  files.write_whole(path, content.getvalue())
